/* SPDX-License-Identifier: MIT */
/* Pictures: files of other programs, ours, broken ones, and folders of them as a data set. */
#include "kit/files/files.h"
#undef TJ_SITE
#define TJ_SITE __FILE__ ":" TJ_STR(__LINE__)
#include "test/kit/hostile.h"

#include <sys/stat.h>
#include <tjdata.h>
#include <tjfiles.h>

/* Written by Pillow 13: u8 [2,4,3], 0 10 20 ... 230; the same with 4 colours in a palette; [2,3] of 16 bits, 0 0x2020 0x4040 ...; gray and
 * alpha, [1,2]: 10 255, 20 0; gray [8,16]: 200 left, 40 right; [16,16,3]: 250 0 0 left, 250 120 0 right; the same progressive. */
static const char rgb[] =
	"\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\004\000\000\000\002\010\002\000\000\000\360\312\3524\000"
	"\000\000\024IDATx\234cd\340\022\221\203\001\226\212\212\0128\007\000*\336\003\250}\206o\233\000\000\000\000IEND\256"
	"B`\202";
static const char pal[] =
	"\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\004\000\000\000\002\002\003\000\000\000\002\306\225\360\000"
	"\000\000\014PLTE\264\276\310is}-7A\000\012\024\020\232/k\000\000\000\014IDATx\234cx\311\340\000\000\002\377\001*"
	"z$R\322\000\000\000\000IEND\256B`\202";
static const char gray16[] =
	"\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\003\000\000\000\002\020\000\000\000\000\350\217\345\205\000"
	"\000\000\026IDATx\234cd`PPPP`LHPPPP\000\000\012C\001\303\004[\360\345\000\000\000\000IEND\256B`\202";
static const char ga[] =
	"\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\002\000\000\000\001\010\004\000\000\000^+\267\001\000\000"
	"\000\015IDATx\234c\344\372\317\305\010\000\003D\001\026f+S\200\000\000\000\000IEND\256B`\202";
/* A colour profile that says it has 0x44c50801 bytes. */
static const char greedy[] =
	"\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\000\002\000\000\000\001\010\000\000\000\000\321I V\000\000\000"
	"\017iCCPp\000\000x\234s9\312\301\010\000\003t\001\023 \005\301\357";
static const char jgray[] =
	"\377\330\377\340\000\020JFIF\000\001\001\000\000\001\000\001\000\000\377\333\000C\000\002\001\001\001\001\001\002"
	"\001\001\001\002\002\002\002\002\004\003\002\002\002\002\005\004\004\003\004\006\005\006\006\006\005\006\006\006"
	"\007\011\010\006\007\011\007\006\006\010\013\010\011\012\012\012\012\012\006\010\013\014\013\012\014\011\012\012"
	"\012\377\300\000\013\010\000\010\000\020\001\001\021\000\377\304\000\037\000\000\001\005\001\001\001\001\001\001"
	"\000\000\000\000\000\000\000\000\001\002\003\004\005\006\007\010\011\012\013\377\304\000\265\020\000\002\001\003"
	"\003\002\004\003\005\005\004\004\000\000\001}\001\002\003\000\004\021\005\022!1A\006\023Qa\007\"q\0242\201\221\241"
	"\010#B\261\301\025R\321\360$3br\202\011\012\026\027\030\031\032%&'()*456789:CDEFGHIJSTUVWXYZcdefghijstuvwxyz\203"
	"\204\205\206\207\210\211\212\222\223\224\225\226\227\230\231\232\242\243\244\245\246\247\250\251\252\262\263\264"
	"\265\266\267\270\271\272\302\303\304\305\306\307\310\311\312\322\323\324\325\326\327\330\331\332\341\342\343\344"
	"\345\346\347\350\351\352\361\362\363\364\365\366\367\370\371\372\377\332\000\010\001\001\000\000\077\000\375 \257"
	"\345\376\277\377\331";
static const char jrgb[] =
	"\377\330\377\340\000\020JFIF\000\001\001\000\000\001\000\001\000\000\377\333\000C\000\003\002\002\003\002\002\003"
	"\003\003\003\004\003\003\004\005\010\005\005\004\004\005\012\007\007\006\010\014\012\014\014\013\012\013\013\015"
	"\016\022\020\015\016\021\016\013\013\020\026\020\021\023\024\025\025\025\014\017\027\030\026\024\030\022\024\025"
	"\024\377\333\000C\001\003\004\004\005\004\005\011\005\005\011\024\015\013\015\024\024\024\024\024\024\024\024\024"
	"\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024"
	"\024\024\024\024\024\024\024\024\024\024\024\024\024\377\300\000\021\010\000\020\000\020\003\001\"\000\002\021\001"
	"\003\021\001\377\304\000\037\000\000\001\005\001\001\001\001\001\001\000\000\000\000\000\000\000\000\001\002\003"
	"\004\005\006\007\010\011\012\013\377\304\000\265\020\000\002\001\003\003\002\004\003\005\005\004\004\000\000\001"
	"}\001\002\003\000\004\021\005\022!1A\006\023Qa\007\"q\0242\201\221\241\010#B\261\301\025R\321\360$3br\202\011\012"
	"\026\027\030\031\032%&'()*456789:CDEFGHIJSTUVWXYZcdefghijstuvwxyz\203\204\205\206\207\210\211\212\222\223\224\225"
	"\226\227\230\231\232\242\243\244\245\246\247\250\251\252\262\263\264\265\266\267\270\271\272\302\303\304\305\306"
	"\307\310\311\312\322\323\324\325\326\327\330\331\332\341\342\343\344\345\346\347\350\351\352\361\362\363\364\365"
	"\366\367\370\371\372\377\304\000\037\001\000\003\001\001\001\001\001\001\001\001\001\000\000\000\000\000\000\001"
	"\002\003\004\005\006\007\010\011\012\013\377\304\000\265\021\000\002\001\002\004\004\003\004\007\005\004\004\000"
	"\001\002w\000\001\002\003\021\004\005!1\006\022AQ\007aq\023\"2\201\010\024B\221\241\261\301\011#3R\360\025br\321"
	"\012\026$4\341%\361\027\030\031\032&'()*56789:CDEFGHIJSTUVWXYZcdefghijstuvwxyz\202\203\204\205\206\207\210\211\212"
	"\222\223\224\225\226\227\230\231\232\242\243\244\245\246\247\250\251\252\262\263\264\265\266\267\270\271\272\302"
	"\303\304\305\306\307\310\311\312\322\323\324\325\326\327\330\331\332\342\343\344\345\346\347\350\351\352\362\363"
	"\364\365\366\367\370\371\372\377\332\000\014\003\001\000\002\021\003\021\000\077\000\371\312\276\272\257\221k\353"
	"\252\376Z\342O\371s\377\000o~\207\372\027\305\277\362\343\376\336\377\000\333O\377\331";
static const char jprog[] =
	"\377\330\377\340\000\020JFIF\000\001\001\000\000\001\000\001\000\000\377\333\000C\000\003\002\002\003\002\002\003"
	"\003\003\003\004\003\003\004\005\010\005\005\004\004\005\012\007\007\006\010\014\012\014\014\013\012\013\013\015"
	"\016\022\020\015\016\021\016\013\013\020\026\020\021\023\024\025\025\025\014\017\027\030\026\024\030\022\024\025"
	"\024\377\333\000C\001\003\004\004\005\004\005\011\005\005\011\024\015\013\015\024\024\024\024\024\024\024\024\024"
	"\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024\024"
	"\024\024\024\024\024\024\024\024\024\024\024\024\024\377\302\000\021\010\000\020\000\020\003\001\"\000\002\021\001"
	"\003\021\001\377\304\000\024\000\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\007\377\304\000"
	"\025\001\001\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\007\010\377\332\000\014\003\001\000\002"
	"\020\003\020\000\000\0018]\"],\241\177\377\304\000\024\020\001\000\000\000\000\000\000\000\000\000\000\000\000\000"
	"\000\000 \377\332\000\010\001\001\000\001\005\002\037\377\304\000\030\021\000\002\003\000\000\000\000\000\000\000"
	"\000\000\000\000\000\000\000\005B\201\301\377\332\000\010\001\003\001\001\077\001m\013\303\377\304\000\027\021\000"
	"\003\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\005B\201\377\332\000\010\001\002\001\001\077\001"
	"e\032\177\377\304\000\024\020\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000 \377\332\000\010\001"
	"\001\000\006\077\002\037\377\304\000\024\020\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000 \377"
	"\332\000\010\001\001\000\001\077!\037\377\332\000\014\003\001\000\002\000\003\000\000\000\020\377\000\377\304\000"
	"\024\021\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\377\332\000\010\001\003\001\001\077"
	"\020g\377\304\000\026\021\000\003\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\201\360\377\332\000"
	"\010\001\002\001\001\077\020\202\077\377\304\000\024\020\001\000\000\000\000\000\000\000\000\000\000\000\000\000"
	"\000\000 \377\332\000\010\001\001\000\001\077\020\037\377\331";

static void put_file(hostile *h, const void *v, size_t n)
{
	memcpy(h->v, v, n);
	h->n = n;
	hostile_put(h);
}

static const uint8_t *load(tj_ctx *c, hostile *h, const char *v, size_t n, int channels, int64_t height, int64_t width, int want)
{
	put_file(h, v, n - 1);
	tj_tensor *t = tj_image_load(c, h->path, channels);
	kit_ok(c);
	assert_true(tj_dtype_of(t) == TJ_U8 && tj_rank(t) == 3 && tj_dim(t, 0) == height && tj_dim(t, 1) == width && tj_dim(t, 2) == want);
	return tj_data(t);
}

static bool near(const uint8_t *v, int a, int b, int c)
{
	return abs(v[0] - a) < 4 && abs(v[1] - b) < 4 && abs(v[2] - c) < 4;
}

static void png(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	const uint8_t *v = load(c, h, rgb, sizeof rgb, 0, 2, 4, 3);
	for (int i = 0; i < 24; i++) assert_int_equal(v[i], 10 * i);
	v = load(c, h, rgb, sizeof rgb, 4, 2, 4, 4);
	assert_true(v[3] == 255 && v[4] == 30);
	v = load(c, h, rgb, sizeof rgb, 1, 2, 4, 1);
	v = load(c, h, pal, sizeof pal, 0, 2, 4, 3);
	assert_memory_equal(v, "\0\12\24\55\67\101\55\67\101\151\163\175", 12);
	v = load(c, h, gray16, sizeof gray16, 0, 2, 3, 1);
	assert_memory_equal(v, "\0\40\100\140\200\240", 6);
	v = load(c, h, ga, sizeof ga, 0, 1, 2, 2);
	assert_true(v[0] == 10 && v[1] == 255 && v[3] == 0);
	v = load(c, h, ga, sizeof ga, 3, 1, 2, 3);
	assert_memory_equal(v, "\12\12\12\0\0\0", 6); /* over black */
	tj_close(c);
	hostile_end(h);
}

static void jpeg(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	const uint8_t *v = load(c, h, jgray, sizeof jgray, 0, 8, 16, 1);
	assert_true(abs(v[0] - 200) < 4 && abs(v[15] - 40) < 4);
	for (int channels = 2; channels < 5; channels++) {
		v = load(c, h, jgray, sizeof jgray, channels, 8, 16, channels);
		assert_true(abs(v[0] - 200) < 4 && abs(v[15 * channels] - 40) < 4);
		if (channels == 3) assert_true(near(v, 200, 200, 200));
		else assert_int_equal(v[channels - 1], 255);
	}
	for (int i = 0; i < 2; i++) {
		v = load(c, h, i ? jprog : jrgb, i ? sizeof jprog : sizeof jrgb, 0, 16, 16, 3);
		assert_true(near(v, 250, 0, 0) && near(v + 45, 250, 120, 0));
		v = load(c, h, i ? jprog : jrgb, i ? sizeof jprog : sizeof jrgb, 4, 16, 16, 4);
		assert_true(near(v, 250, 0, 0) && v[3] == 255 && near(v + 60, 250, 120, 0));
		v = load(c, h, i ? jprog : jrgb, i ? sizeof jprog : sizeof jrgb, 1, 16, 16, 1);
		assert_true(abs(v[0] - 75) < 4);
	}
	tj_close(c);
	hostile_end(h);
}

static void written(void **s)
{
	char path[] = "/tmp/test_image.XXXXXX";
	tj_ctx *c = tj_open(NULL);
	(void)s;
	close(mkstemp(path));
	for (int channels = 0; channels < 5; channels++) {
		uint8_t v[5 * 7 * 4];
		const int64_t dim[] = { 5, 7, channels, TJ_END_DIM }, flat[] = { 5, 7, TJ_END_DIM };
		const bool alpha = channels == 2 || channels == 4;
		for (int i = 0; i < 140; i++) v[i] = alpha && i % channels == channels - 1 ? 255 : (uint8_t)(i * 37);
		assert_int_equal(tj_png_save(tj_from_data(c, TJ_U8, channels ? dim : flat, v), path), TJ_OK);
		tj_tensor *t = tj_image_load(c, path, channels ? channels : 1);
		kit_ok(c);
		assert_memory_equal(tj_data(t), v, (size_t)(35 * (channels ? channels : 1)));
	}
	assert_int_equal(tj_png_save(F32(c, 1), path), TJ_ERR_DTYPE);
	kit_error(c, TJ_ERR_DTYPE, "pixels are u8, not f32");
	assert_int_equal(tj_png_save(tj_full(TJ_U8, TJ_SHAPE(2, 2, 5), tj_i(0)), path), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "5 channels");
	assert_int_equal(tj_png_save(tj_full(TJ_U8, TJ_SHAPE(2), tj_i(0)), path), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "1 axes");
	assert_int_equal(tj_png_save(tj_full(TJ_U8, TJ_SHAPE(0, 3), tj_i(0)), path), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "0 x 3");
	unlink(path);
	tj_close(c);
}

static void refuses(tj_ctx *c, hostile *h, const char *why)
{
	hostile_put(h);
	assert_true(tj_is_poison(tj_image_load(c, h->path, 3)));
	kit_error(c, TJ_ERR_PARSE, why);
}

static void refused(void **s)
{
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(1);
	(void)s;
	for (size_t n = 0; n + 13 < sizeof rgb; n++) { /* without all of its end, which libpng does not miss */
		memcpy(h->v, rgb, n);
		h->n = n;
		refuses(c, h, "");
	}
	for (size_t n = 0; n + 3 < sizeof jrgb; n++) {
		memcpy(h->v, jrgb, n);
		h->n = n;
		refuses(c, h, "");
	}
	memcpy(h->v, rgb, h->n = sizeof rgb - 1);
	h->v[17] = 15; /* a width of 983044 */
	refuses(c, h, "77 bytes cannot become 983044 x 2 pixels");
	h->v[16] = 255;
	refuses(c, h, "its header is wrong");
	memcpy(h->v, rgb, h->n = sizeof rgb - 1);
	h->v[45] ^= 16; /* in the data: the checksum is wrong */
	refuses(c, h, "libpng: ");
	memcpy(h->v, rgb, h->n = sizeof rgb - 1);
	h->v[33] = 64; /* the first piece behind the header has 2^30 bytes */
	refuses(c, h, "a piece of it is cut");
	memcpy(h->v, greedy, h->n = sizeof greedy - 1);
	refuses(c, h, "15 bytes cannot become its colour profile");
	memcpy(h->v, jgray, h->n = sizeof jgray - 1);
	for (size_t i = 0; i + 9 < h->n; i++)
		if (h->v[i] == 0xff && h->v[i + 1] == 0xc0) h->v[i + 5] = h->v[i + 7] = 0xf0; /* the height and the width */
	refuses(c, h, "336 bytes cannot become 61456 x 61448 pixels");
	memcpy(h->v, "GIF89a", h->n = 6);
	refuses(c, h, "no PNG and no JPEG");
	tj_image_load(c, h->path, 5);
	kit_error(c, TJ_ERR_ARG, "5 channels");
	tj_close(c);
	hostile_end(h);
}

static void missing_library(void **s)
{
	static const char *const names[] = { "png_image_free", "png_no_such", NULL };
	void *to[2];
	kit_why w = { 0 };
	(void)s;
	assert_null(kit_library("libnone.so.9", "libnone9", names, to, &w));
	assert_true(w.code == TJ_ERR_IO && strstr(w.text, "libnone.so.9 cannot be opened (on Debian it is in the package libnone9)"));
	assert_null(kit_library("libpng16.so.16", "libpng16-16", names, to, &w));
	assert_string_equal(w.text, "libpng16.so.16 lacks png_no_such()");
}

static void random_changes(void **s)
{
	static const struct { const char *v; size_t n; } good[] = {
		{ rgb, sizeof rgb - 1 },     { jrgb, sizeof jrgb - 1 },     { pal, sizeof pal - 1 },
		{ jprog, sizeof jprog - 1 }, { gray16, sizeof gray16 - 1 }, { jgray, sizeof jgray - 1 },
	};
	const long turns = hostile_turns(4000);
	long read = 0;
	tj_ctx *c = tj_open(NULL);
	hostile *h = hostile_begin(11);
	(void)s;
	for (long i = 0; i < turns; i++) {
		const int k = (int)(i % 6);
		tj_scope *scope = tj_push(c);
		hostile_make(h, good[k].v, good[k].n, k & 1 ? 0 : 60, "\1\2\3\4\10\20\377\300\302\304\332\333\331IHDRTPLE");
		tj_tensor *t = tj_image_load(c, h->path, (int)(i % 5));
		if (tj_is_poison(t)) hostile_refused(c);
		else assert_non_null(tj_data(t)), read++;
		tj_pop(scope);
	}
	assert_in_range(read, 1, turns);
	tj_close(c);
	hostile_end(h);
}

/* ---- folders ---- */
static void put(const char *folder, const char *name, const void *v, size_t n)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (!v) {
		assert_int_equal(mkdir(path, 0755), 0);
		return;
	}
	FILE *f = fopen(path, "wb");
	fwrite(v, 1, n, f);
	fclose(f);
}

static void folders(void **s)
{
	char folder[] = "/tmp/test_image.XXXXXX", text[64];
	tj_tensor *b[2];
	tj_ctx *c = tj_open(NULL);
	(void)s;
	assert_non_null(mkdtemp(folder));
	assert_null(tj_images_open(c, folder, 0));
	kit_error(c, TJ_ERR_ARG, "there are no files .png");
	put(folder, "b.PNG", rgb, sizeof rgb - 1);
	tj_images *m = tj_images_open(c, folder, 0);
	assert_true(m && !tj_images_class(m, 0) && tj_images_path(m, 0) && !tj_images_path(m, 1)); /* no folder in it: class 0 */
	tj_images_close(m);
	put(folder, "dogs", NULL, 0);
	put(folder, "cats", NULL, 0);
	put(folder, ".hidden", NULL, 0);
	put(folder, "dogs/2.png", rgb, sizeof rgb - 1);
	put(folder, "dogs/1.png", pal, sizeof pal - 1);
	put(folder, "dogs/readme.txt", "x", 1);
	put(folder, "cats/x.png", rgb, sizeof rgb - 1);
	put(folder, "cats/y.jpeg", jrgb, sizeof jrgb - 1);
	put(folder, "cats/z.jpg", "broken", 6);
	m = tj_images_open(c, folder, 3);
	kit_ok(c);
	assert_string_equal(tj_images_class(m, 0), "cats");
	assert_string_equal(tj_images_class(m, 1), "dogs");
	assert_true(!tj_images_class(m, 2) && strstr(tj_images_path(m, 3), "/dogs/1.png") && !tj_images_path(m, 5));
	tj_loader *l = tj_loader_open(c, tj_images_dataset(m), TJ_OPTS(tj_loader_opts, .batch = 2, .workers = 2, .pad = true));
	assert_true(tj_loader_next(l, b, 2));
	assert_true(tj_dim(b[0], 1) == 16 && tj_dim(b[0], 2) == 16 && tj_dim(b[0], 3) == 3 && tj_item_i(tj_sum(b[1], TJ_ALL, false)) == 0);
	assert_true(((const uint8_t *)tj_data(b[0]))[11] == 110 && ((const uint8_t *)tj_data(b[0]))[12] == 0);
	assert_false(tj_loader_next(l, b, 2));
	kit_error(c, TJ_ERR_ARG, "item 2: ");
	assert_true(strstr(tj_last_error(c)->message, "/cats/z.jpg: it is no PNG and no JPEG file"));
	assert_int_equal(tj_loader_seek(l, 0, 2), TJ_OK);
	assert_true(tj_loader_next(l, b, 2) && tj_item_i(b[1]) == 1);
	tj_loader_close(l);
	l = tj_loader_open(c, tj_images_dataset(m), TJ_OPTS(tj_loader_opts, .batch = 2));
	assert_false(tj_loader_next(l, b, 2));
	kit_error(c, TJ_ERR_SHAPE, "item 1: its field 0 is u8[16,16,3]");
	tj_loader_close(l);
	tj_images_close(m);
	tj_images_close(NULL);
	assert_null(tj_images_open(c, "/nowhere", 0));
	kit_error(c, TJ_ERR_IO, "/nowhere: No such file");
	snprintf(text, sizeof text, "rm -r %s", folder);
	assert_int_equal(system(text), 0);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(png),     cmocka_unit_test(jpeg),           cmocka_unit_test(written),
		cmocka_unit_test(refused), cmocka_unit_test(random_changes), cmocka_unit_test(folders),
		cmocka_unit_test(missing_library),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
