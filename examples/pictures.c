/* SPDX-License-Identifier: MIT */
/* Filters for a picture of bytes: grey, box blur, Sobel's edges, and a histogram that is made even. All of it is integer arithmetic, so C
 * gives the same bytes. The picture is not copied: tj_wrap() reads it where it lies, here as BGR, from the last row to the first. */
#include <tj.h>

enum { H = 120, W = 160, PITCH = W + 8 };

static uint8_t frame[H][PITCH][3]; /* as a camera delivers it: rows are longer than the picture */

/* The picture moved by (y, x); p has one more row and column on each side. */
static tj_tensor *at(tj_tensor *p, int y, int x) { return tj_slice(tj_slice(p, 0, y, y + H, 1), 1, x, x + W, 1); }

/* u8 wraps at 256, so the picture becomes i16; its border is repeated */
static tj_tensor *padded(tj_tensor *x) { return tj_cast(tj_pad(x, TJ_SHAPE(1, 1, 1, 1), TJ_PAD_REPLICATE, tj_i(0)), TJ_I16); }

static tj_tensor *edges(tj_tensor *p, bool across) /* (1 2 1) along one axis, (-1 0 1) along the other */
{
	tj_tensor *side[2];
	for (int i = 0; i < 2; i++) {
		tj_tensor *v[3];
		for (int k = 0; k < 3; k++) v[k] = across ? at(p, k, 2 * i) : at(p, 2 * i, k);
		side[i] = tj_add(tj_add(v[0], tj_mul(v[1], tj_i(2))), v[2]);
	}
	return tj_sub(side[1], side[0]);
}

/* in: u8 [H,W,3] as red, green, blue; out: u8 [H,W] grey, blurred, edges, equalised */
static void filters(tj_tensor **out, tj_tensor *const *in, void *self)
{
	static const int64_t weight[3] = { 77, 150, 29 };
	tj_tensor *sum = NULL, *p;
	(void)self;
	for (int i = 0; i < 3; i++) {
		tj_tensor *part = tj_mul(tj_cast(tj_select(in[0], 2, i), TJ_I32), tj_i(weight[i]));
		sum = sum ? tj_add(sum, part) : part;
	}
	tj_tensor *grey = tj_cast(tj_shift_right(sum, tj_i(8)), TJ_U8);

	p = padded(grey);
	sum = tj_full(TJ_I16, TJ_SHAPE(H, W), tj_i(4)); /* rounds to nearest */
	for (int i = 0; i < 9; i++) sum = tj_add(sum, at(p, i / 3, i % 3));
	tj_tensor *blurred = tj_cast(tj_trunc_divide(sum, tj_i(9)), TJ_U8);

	p = padded(blurred);
	sum = tj_add(tj_abs(edges(p, true)), tj_abs(edges(p, false)));

	/* A table of 256 entries from the running sum of the histogram, then one look-up for each element. */
	tj_tensor *level = tj_cast(tj_ravel(grey), TJ_I32), *count = tj_cumsum(tj_bincount(level, NULL, 256, 256), 0);
	tj_tensor *table = tj_cast(tj_floor_divide(tj_mul(count, tj_i(255)), tj_i(H * W)), TJ_U8);

	out[0] = grey;
	out[1] = blurred;
	out[2] = tj_cast(tj_clamp(sum, tj_i(0), tj_i(255)), TJ_U8);
	out[3] = tj_reshape(tj_index_select(table, 0, level), TJ_SHAPE(H, W));
}

static int wrong; /* elements that differ from C's */

static void check_grey_and_blurred(const uint8_t *grey, const uint8_t *blurred)
{
	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++) {
			const uint8_t *bgr = frame[H - 1 - y][x];
			int sum = 4;
			wrong += grey[y * W + x] != (77 * bgr[2] + 150 * bgr[1] + 29 * bgr[0]) >> 8;
			for (int i = y - 1; i <= y + 1; i++)
				for (int k = x - 1; k <= x + 1; k++)
					sum += grey[(i < 0 ? 0 : i >= H ? H - 1 : i) * W + (k < 0 ? 0 : k >= W ? W - 1 : k)];
			wrong += blurred[y * W + x] != sum / 9;
		}
}

int main(void)
{
	static const char *const name[] = { "grey", "blurred", "edges", "equalised" };
	tj_ctx *c = tj_open(NULL);
	tj_fn *f = tj_compile(c, filters, NULL, TJ_OPTS(tj_compile_opts, .name = "filters", .nin = 1, .nout = 4, .mode = TJ_DIRECT));
	uint32_t noise = 1;
	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++)
			for (int k = 0; k < 3; k++) {
				noise = noise * 1664525u + 1013904223u;
				frame[y][x][k] = (uint8_t)(60 + x / 4 + k * 10 + (x / 40 + y / 40) % 2 * 50 + (int)(noise >> 29));
			}
	/* red is the last byte of an element, and the first row of the picture the last one of the frame */
	tj_tensor *x = tj_wrap(c, TJ_U8, TJ_SHAPE(H, W, 3), TJ_SHAPE(-PITCH * 3, 3, -1), &frame[H - 1][0][2], NULL, NULL), *out[4];
	for (int turn = 0; turn < 3; turn++) {
		tj_scope *s = tj_push(c);
		if (tj_call(f, out, TJ_LIST(x)) != TJ_OK) return tj_perror(c, stderr), 1;
		check_grey_and_blurred(tj_data(out[0]), tj_data(out[1]));
		for (int i = 0; i < 4 && turn == 2; i++) {
			const double mean = tj_item(tj_mean(tj_cast(out[i], TJ_F64), TJ_ALL, false));
			printf("%-9s from %3.0f to %3.0f, mean %.3f\n", name[i], tj_item(tj_amin(out[i], TJ_ALL, false)),
			       tj_item(tj_amax(out[i], TJ_ALL, false)), mean);
		}
		tj_pop(s);
	}
	printf("%d elements differ from C\n", wrong);
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return wrong != 0;
}
