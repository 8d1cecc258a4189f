/* SPDX-License-Identifier: MIT */
/* image: pictures, by the library that knows their format. */
#include "kit/files/files.h"

#include <stdlib.h>

bool kit_image_read(const void *data, size_t bytes, int channels, kit_pixels *memory, void *env, kit_why *w)
{
	if (channels < 0 || channels > 4) return kit_no(w, TJ_ERR_ARG, "%d channels; 0 to 4 are possible", channels);
	if (bytes >= 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8)) return kit_png_read(data, bytes, channels, memory, env, w);
	if (bytes >= 3 && !memcmp(data, "\xff\xd8\xff", 3)) return kit_jpeg_read(data, bytes, channels, memory, env, w);
	return kit_no(w, TJ_ERR_PARSE, "it is no PNG and no JPEG file");
}

typedef struct pixels { kit_image image; void *data; } pixels;

static void *keep(void *env, const kit_image *m, kit_why *w)
{
	pixels *p = env;
	p->image = *m;
	p->data = malloc((size_t)m->height * m->width * (size_t)m->channels);
	if (!p->data) kit_no_memory(w);
	return p->data;
}

tj_tensor *tj_image_load_at(const char *site, tj_ctx *c, const char *path, int channels)
{
	kit_why w = { 0 };
	pixels p = { .data = NULL };
	size_t n;
	kit_map *m = kit_map_open(path, &w);
	const void *v = m ? kit_map_data(m, &n) : NULL;
	const bool ok = m && kit_image_read(v, n, channels, keep, &p, &w);
	kit_map_drop(m);
	const int64_t dim[] = { p.image.height, p.image.width, p.image.channels, TJ_END_DIM };
	if (ok) return kit_give(site, c, TJ_U8, dim, NULL, p.data);
	free(p.data);
	return kit_report(site, "image_load", path, &w);
}

/* ---- writing ---- */
typedef struct output { const char *site; tj_tensor *t; } output;

static bool describe(const output *u, kit_tensor *t, kit_image *m, kit_why *w)
{
	if (!kit_describe(u->site, u->t, t, w)) return false;
	if (t->dtype != TJ_U8) return kit_no(w, TJ_ERR_DTYPE, "pixels are u8, not %s", tj_dtype_name(t->dtype));
	if (t->rank != 2 && t->rank != 3) return kit_no(w, TJ_ERR_SHAPE, "a picture is [H,W] or [H,W,C]; this has %d axes", t->rank);
	const int64_t channels = t->rank == 3 ? t->dim[2] : 1;
	if (channels < 1 || channels > 4) return kit_no(w, TJ_ERR_SHAPE, "%lld channels; 1 to 4 are possible", (long long)channels);
	if (t->dim[0] < 1 || t->dim[1] < 1 || t->dim[0] > 1000000 || t->dim[1] > 1000000)
		return kit_no(w, TJ_ERR_SHAPE, "a picture of %lld x %lld; a side has 1 to 1000000 pixels", (long long)t->dim[0], (long long)t->dim[1]);
	*m = (kit_image){ (uint32_t)t->dim[0], (uint32_t)t->dim[1], (int)channels };
	return true;
}

static bool write_png(void *env, kit_out *o, kit_why *w)
{
	kit_tensor t;
	kit_image m;
	kit_buffer b = { 0 }, file = { 0 };
	size_t n = 0;
	const output *u = env;
	const bool ok = describe(u, &t, &m, w) && kit_fetch(u->site, &t, &b, w) && kit_png_pack(&m, b.data, &file, &n, w) &&
	                kit_put(o, file.data, n, w);
	free(b.data);
	free(file.data);
	return ok;
}

tj_status tj_png_save_at(const char *site, tj_tensor *t, const char *path)
{
	kit_why w = { 0 };
	output u = { site, t };
	if (kit_replace(path, write_png, &u, &w)) return TJ_OK;
	if (*w.text) kit_report(site, "png_save", path, &w);
	return w.code;
}
