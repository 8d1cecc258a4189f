/* SPDX-License-Identifier: MIT */
/* Text in a picture: PP-OCRv4 of PaddleOCR (Apache-2.0), three models that `make models` fetches. The first one finds lines of text, the
 * second one says which of them are upside down, the third one reads.
 *
 *   build/examples/ocr picture.png [boxes.png]     PNG or JPEG; the second file gets the picture with a box around each line
 *
 * What comes before and behind the models is that of the package rapidocr-onnxruntime 1.4, but that boxes stand upright: lines may slope a
 * little only. */
#include <tjfiles.h>
#include <tjmodel.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLDER "build/models/onnx/"
enum { SMALL_SIDE = 736, HEIGHT = 48, TURN_WIDTH = 192, READ_WIDTH = 320, LONGEST = 8192, MOST = 1000, SAME_LINE = 10 };
static const double TEXT = 0.3, BOX = 0.5, GROW = 1.6, TURNED = 0.9, SURE = 0.5; /* probabilities; GROW: how far a box grows */

typedef struct box { int left, top, right, bottom; } box; /* right and bottom do not belong to it */
typedef struct models { tj_model *find, *turn, *read; } models;

/* u8 [H,W,3], RGB, becomes f32 [1,3,height,width], BGR from -1 to 1. */
static tj_tensor *prepared(tj_tensor *image, int64_t height, int64_t width)
{
	tj_tensor *x = tj_unsqueeze(tj_permute(tj_flip(tj_cast(image, TJ_F32), TJ_AXES(2)), TJ_AXES(2, 0, 1)), 0);
	x = tj_interpolate(x, TJ_SHAPE(height, width), TJ_OPTS(tj_interpolate_opts, .mode = TJ_SAMPLE_LINEAR));
	return tj_sub(tj_mul(x, tj_f(2. / 255)), tj_f(1));
}

/* A line of the height that models want; zeros follow up to the width `least`, or it is as wide as its shape says, `most` at the most. */
static tj_tensor *line_of(tj_tensor *image, int64_t least, int64_t most)
{
	int64_t width = (int64_t)ceil((double)HEIGHT * (double)tj_dim(image, 1) / (double)tj_dim(image, 0));
	if (width > most) width = most;
	tj_tensor *x = prepared(image, HEIGHT, width);
	return width < least ? tj_pad(x, TJ_SHAPE(0, 0, 0, least - width), TJ_PAD_CONSTANT, tj_f(0)) : x;
}

/* The box around all pixels of `mask` that hang together with pixel `at`, which are erased. stack: room for each pixel. */
static box around(unsigned char *mask, int height, int width, int at, int *stack)
{
	box b = { width, height, 0, 0 };
	int depth = 0;
	for (stack[depth++] = at, mask[at] = 0; depth;) {
		const int y = stack[--depth] / width, x = stack[depth] % width;
		b = (box){ x < b.left ? x : b.left, y < b.top ? y : b.top, x >= b.right ? x + 1 : b.right, y >= b.bottom ? y + 1 : b.bottom };
		for (int i = y - 1; i <= y + 1; i++)
			for (int k = x - 1; k <= x + 1; k++)
				if (i >= 0 && i < height && k >= 0 && k < width && mask[i * width + k])
					mask[i * width + k] = 0, stack[depth++] = i * width + k;
	}
	return b;
}

/* How sure the model is of a box. */
static double score(const float *p, int width, box b)
{
	double sum = 0;
	for (int y = b.top; y < b.bottom; y++)
		for (int x = b.left; x < b.right; x++) sum += (double)p[y * width + x];
	return sum / ((double)(b.right - b.left) * (b.bottom - b.top));
}

static int scaled(double at, int from, int to) { return (int)fmin(fmax(round(at / from * to), 0), to); }

/* Boxes of lines, from p, the probability of text at each pixel, to a picture of H x W. */
static int boxes(const float *p, int height, int width, int H, int W, box *found)
{
	unsigned char *mask = calloc((size_t)(height * width), 1);
	int *stack = malloc((size_t)(height * width) * sizeof *stack), n = 0;
	for (int y = 0; mask && stack && y < height; y++) /* each pixel of text also marks those right of and below it */
		for (int x = 0; x < width; x++)
			for (int i = 0; i < 4; i++)
				if (y >= i / 2 && x >= i % 2 && (double)p[(y - i / 2) * width + x - i % 2] > TEXT) mask[y * width + x] = 1;
	for (int at = 0; mask && stack && at < height * width && n < MOST; at++) {
		if (!mask[at]) continue;
		const box b = around(mask, height, width, at, stack);
		const double w = b.right - b.left - 1, h = b.bottom - b.top - 1, grow = w * h * GROW / (2 * (w + h));
		if (fmin(w, h) < 3 || score(p, width, b) < BOX) continue;
		found[n] = (box){ scaled(b.left - grow, width, W), scaled(b.top - grow, height, H), scaled(b.right - 1 + grow, width, W),
		                  scaled(b.bottom - 1 + grow, height, H) };
		if (found[n].right - found[n].left > 3 && found[n].bottom - found[n].top > 3) n++;
	}
	free(mask), free(stack);
	for (int i = 1; i < n; i++) /* they come from top to bottom by their upper edges; lines beside one another go from left to right */
		for (int k = i; k > 0; k--) {
			const box a = found[k - 1], b = found[k];
			if (b.top - a.top >= SAME_LINE || (b.top > a.top - SAME_LINE && b.left >= a.left)) break;
			found[k - 1] = b, found[k] = a;
		}
	return n;
}

/* The text of [1,steps,classes]: the best class of each step, without repetitions and blanks (class 0). Class k is line k - 1 of the
 * alphabet, and the last one is a space. Returns the mean probability of its characters. */
static double decode(const char *alphabet, tj_tensor *y, char *text, size_t room)
{
	const int64_t steps = tj_dim(y, 1), last = tj_dim(y, 2) - 1;
	const int64_t *best = tj_data(tj_argmax(y, 2, false));
	const float *p = tj_data(tj_amax(y, TJ_AXES(2), false));
	double sum = 0;
	int n = 0;
	*text = 0;
	for (int64_t i = 0; best && p && i < steps; i++) {
		const char *c = alphabet;
		if (best[i] == 0 || (i && best[i] == best[i - 1])) continue;
		sum += (double)p[i], n++;
		for (int64_t k = 1; k < best[i] && best[i] < last && c; k++) c = (c = strchr(c, '\n')) ? c + 1 : NULL;
		const int bytes = best[i] == last ? 1 : c ? (int)strcspn(c, "\n") : 0;
		snprintf(text + strlen(text), room - strlen(text), "%.*s", bytes, best[i] == last ? " " : c ? c : "");
	}
	return n ? sum / n : 0;
}

static void frame(unsigned char *rgb, int width, box b)
{
	for (int y = b.top; y < b.bottom; y++)
		for (int x = b.left; x < b.right; x++)
			if (y == b.top || y == b.bottom - 1 || x == b.left || x == b.right - 1) memcpy(rgb + (y * width + x) * 3, "\xe0\x20\x20", 3);
}

/* Prints the text of each line, and draws its box into rgb. */
static int read_lines(tj_ctx *c, const models *m, tj_tensor *image, const box *b, int n, unsigned char *rgb)
{
	const char *key = NULL, *alphabet = NULL;
	char text[2000];
	int printed = 0;
	for (int i = 0; tj_model_metadata(m->read, i, &key, &alphabet) && strcmp(key, "character"); i++) alphabet = NULL;
	if (!alphabet) return fprintf(stderr, "the model has no alphabet\n"), 0;
	for (int i = 0; i < n; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *line = tj_slice(tj_slice(image, 0, b[i].top, b[i].bottom, 1), 1, b[i].left, b[i].right, 1);
		const bool upright = 2 * tj_dim(line, 0) < 3 * tj_dim(line, 1);
		if (!upright) line = tj_flip(tj_transpose(line, 0, 1), TJ_AXES(0)); /* a line that goes up or down is turned by 90 degrees */
		tj_tensor *turn = tj_call1(tj_model_fn(m->turn), TJ_LIST(line_of(line, TURN_WIDTH, TURN_WIDTH)));
		const bool turned = tj_item(tj_select(tj_ravel(turn), 0, 1)) > TURNED;
		if (turned) line = tj_flip(line, TJ_AXES(0, 1));
		tj_tensor *y = tj_call1(tj_model_fn(m->read), TJ_LIST(line_of(line, READ_WIDTH, INT32_MAX)));
		const double p = decode(alphabet, y, text, sizeof text);
		if (p >= SURE) {
			printf("%d,%d to %d,%d: %s (%.2f%s)\n", b[i].left, b[i].top, b[i].right, b[i].bottom, text, p, turned ? ", upside down" : "");
			frame(rgb, (int)tj_dim(image, 1), b[i]);
			printed++;
		}
		tj_pop(s);
	}
	return printed;
}

int main(int argc, char **argv)
{
	static box found[MOST];
	if (argc < 2) return fprintf(stderr, "ocr picture.png [boxes.png]\n"), 2;
	tj_ctx *c = tj_open(NULL);
	tj_tensor *image = tj_image_load(c, argv[1], 3);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	const models m = { tj_onnx_open(c, FOLDER "ch_PP-OCRv4_det_infer.onnx", NULL),
		           tj_onnx_open(c, FOLDER "ch_ppocr_mobile_v2.0_cls_infer.onnx", NULL),
		           tj_onnx_open(c, FOLDER "ch_PP-OCRv4_rec_infer.onnx", NULL) };
	if (!m.find || !m.turn || !m.read) return tj_perror(c, stderr), fprintf(stderr, "`make models` fetches the models\n"), 1;

	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	const int H = (int)tj_dim(image, 0), W = (int)tj_dim(image, 1), least = H < W ? H : W;
	const double ratio = least < SMALL_SIDE ? (double)SMALL_SIDE / least : 1;
	if (ratio * (H > W ? H : W) > LONGEST) return fprintf(stderr, "%s: %d x %d is too large, or too long and narrow\n", argv[1], W, H), 1;
	const int height = (int)rint((int)(H * ratio) / 32.) * 32, width = (int)rint((int)(W * ratio) / 32.) * 32;
	tj_tensor *p = tj_call1(tj_model_fn(m.find), TJ_LIST(prepared(image, height, width)));
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	const int n = boxes(tj_data(p), height, width, H, W, found);
	unsigned char *rgb = malloc((size_t)(H * W * 3));
	if (!rgb) return 1;
	memcpy(rgb, tj_data(image), (size_t)(H * W * 3));
	const int lines = read_lines(c, &m, image, found, n, rgb);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("PP-OCRv4: %d x %d, %d lines of text\n", W, H, lines);
	printf("time: %.0f ms, with compiling\n", (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
	if (argc > 2) tj_png_save(tj_from_data(c, TJ_U8, TJ_SHAPE(H, W, 3), rgb), argv[2]);
	const bool failed = tj_check(c) != TJ_OK;
	if (failed) tj_perror(c, stderr);
	free(rgb);
	tj_model_close(m.find), tj_model_close(m.turn), tj_model_close(m.read);
	tj_close(c);
	return failed;
}
