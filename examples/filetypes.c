/* SPDX-License-Identifier: MIT */
/* What kind of file is it? magika (Apache-2.0), which `make models` fetches, says it by the first and the last bytes.
 *
 *   build/examples/filetypes FILE...
 *
 * What comes before and behind the model is that of the package magika 1.0, whose two files of settings lie beside it. All files are one
 * batch. */
#include <tjmodel.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define FOLDER "build/models/onnx/"

typedef struct settings { json_t *config, *types; int begin, end, block, padding, least; double sure; } settings;
typedef struct answer { const char *type; double p; int row; } answer; /* row: of the batch; -1: no model is needed */

static bool open_settings(settings *s)
{
	s->config = json_load_file(FOLDER "magika.json", 0, NULL);
	s->types = json_load_file(FOLDER "magika_types.json", 0, NULL);
	return s->types &&
	       !json_unpack(s->config, "{s:i, s:i, s:i, s:i, s:i, s:F}", "beg_size", &s->begin, "end_size", &s->end, "block_size", &s->block,
	                    "padding_token", &s->padding, "min_file_size_for_dl", &s->least, "medium_confidence_threshold", &s->sure) &&
	       s->begin >= s->least && s->end > 0 && s->least > 0 && s->block > s->begin && s->block > s->end && s->block <= 1 << 20;
}

static bool blank(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool is_utf8(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		const unsigned char c = p[i];
		const size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : n;
		if (i + more >= n) return false;
		for (size_t k = 1; k <= more; k++)
			if ((p[i + k] & 0xc0) != 0x80) return false;
		if ((c == 0xe0 && p[i + 1] < 0xa0) || (c == 0xed && p[i + 1] > 0x9f) || (c == 0xf0 && p[i + 1] < 0x90) || (c == 0xf4 && p[i + 1] > 0x8f))
			return false;
		i += more + 1;
	}
	return true;
}

/* The row x of the batch, s->begin + s->end numbers: the first bytes behind blanks, the last bytes before blanks, with padding between
 * them where there are fewer. Returns the answer at once where the model is not asked. */
static answer features(const settings *s, const char *path, unsigned char *room, int32_t *x)
{
	struct stat st;
	FILE *f = NULL;
	if (stat(path, &st) || (S_ISREG(st.st_mode) && !(f = fopen(path, "rb")))) return (answer){ "cannot be read", 1, -1 };
	if (S_ISDIR(st.st_mode)) return (answer){ "directory", 1, -1 };
	if (!f) return (answer){ "unknown", 1, -1 };
	const size_t block = (size_t)s->block;
	size_t n = fread(room, 1, block, f), from = 0;
	for (int i = 0; i < s->begin + s->end; i++) x[i] = s->padding;
	while (from < n && blank(room[from])) from++;
	const answer few = { n == 0 ? "empty" : is_utf8(room, n) ? "txt" : "unknown", 1, -1 };
	for (size_t i = 0; i < n - from && i < (size_t)s->begin; i++) x[i] = room[from + i];
	if (n == block && !fseek(f, -s->block, SEEK_END)) n = fread(room, 1, block, f);
	fclose(f);
	if (x[s->least - 1] == s->padding) return few;
	while (n && blank(room[n - 1])) n--;
	for (size_t i = 1; i <= n && i <= (size_t)s->end; i++) x[s->begin + s->end - (int)i] = room[n - i];
	return (answer){ NULL, 0, 0 };
}

/* A type that the model is not sure of becomes text or unknown; some are never told. */
static const char *told(const settings *s, const char *type, double p)
{
	double least = s->sure;
	json_unpack(s->config, "{s:{s:F}}", "thresholds", type, &least);
	const char *other = json_string_value(json_object_get(json_object_get(s->config, "overwrite_map"), type));
	if (other) type = other;
	if (p >= least) return type;
	return json_is_true(json_object_get(json_object_get(s->types, type), "is_text")) ? "txt" : "unknown";
}

int main(int argc, char **argv)
{
	settings s = { 0 };
	if (argc < 2) return fprintf(stderr, "filetypes FILE...\n"), 2;
	tj_ctx *c = tj_open(NULL);
	tj_model *m = tj_onnx_open(c, FOLDER "magika.onnx", NULL);
	if (!m) return tj_perror(c, stderr), fprintf(stderr, "`make models` fetches the model\n"), 1;
	if (!open_settings(&s)) return fprintf(stderr, FOLDER "magika*.json cannot be read; `make models` fetches them\n"), 1;
	const int files = argc - 1, width = s.begin + s.end;
	unsigned char *room = malloc((size_t)s.block);
	int32_t *x = malloc((size_t)files * (size_t)width * sizeof *x);
	answer *a = malloc((size_t)files * sizeof *a);
	if (!room || !x || !a) return fprintf(stderr, "out of memory\n"), 1;
	int rows = 0, longest = 0;
	for (int i = 0; i < files; i++) {
		a[i] = features(&s, argv[i + 1], room, x + rows * width);
		if (a[i].row == 0) a[i].row = rows++;
		if ((int)strlen(argv[i + 1]) > longest) longest = (int)strlen(argv[i + 1]);
	}

	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	const int64_t *best = NULL;
	const float *p = NULL;
	if (rows) {
		tj_tensor *y = tj_call1(tj_model_fn(m), TJ_LIST(tj_from_data(c, TJ_I32, TJ_SHAPE(rows, width), x)));
		best = tj_data(tj_argmax(y, 1, false));
		p = tj_data(tj_amax(y, TJ_AXES(1), false));
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	for (int i = 0; i < files; i++) {
		if (a[i].row >= 0) {
			const char *type = json_string_value(json_array_get(json_object_get(s.config, "target_labels_space"), (size_t)best[a[i].row]));
			a[i].p = (double)p[a[i].row];
			a[i].type = type ? told(&s, type, a[i].p) : "unknown";
		}
		const char *about = json_string_value(json_object_get(json_object_get(s.types, a[i].type), "description"));
		printf("%s:%*s%s%s%s, %.2f\n", argv[i + 1], longest - (int)strlen(argv[i + 1]) + 1, "", a[i].type, about ? ": " : "", about ? about : "",
		       a[i].p);
	}
	printf("magika: %d file%s\n", files, files > 1 ? "s" : "");
	printf("time: %.1f ms, with compiling\n", (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6);
	json_decref(s.config), json_decref(s.types);
	free(room), free(x), free(a);
	tj_model_close(m);
	tj_close(c);
	return 0;
}
