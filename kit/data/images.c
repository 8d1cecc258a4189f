/* SPDX-License-Identifier: MIT */
/* images: a folder of pictures whose folders are classes. Names are sorted, so that the numbers of items and classes do not depend on the
 * disk. A file is opened when its item is asked for. */
#include "kit/data/data.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct names { char **v; size_t n, room; } names;

struct tj_images {
	tj_dataset set;
	names classes, paths;
	int64_t *class_of; /* each path */
	size_t room;
	int channels;
};

static bool add(names *to, char *name, kit_why *w)
{
	if (!name) return kit_no_memory(w);
	if (to->n == to->room) {
		const size_t room = to->room ? 2 * to->room : 64;
		char **more = realloc(to->v, room * sizeof *more);
		if (!more) return free(name), kit_no_memory(w);
		to->v = more;
		to->room = room;
	}
	to->v[to->n++] = name;
	return true;
}

static void free_names(names *x)
{
	for (size_t i = 0; i < x->n; i++) free(x->v[i]);
	free(x->v);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_picture(const char *name)
{
	const char *end = strrchr(name, '.');
	return end && (!strcasecmp(end, ".png") || !strcasecmp(end, ".jpg") || !strcasecmp(end, ".jpeg"));
}

static char *below(const char *folder, const char *name)
{
	char *path;
	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static bool is_folder(const char *folder, const char *name)
{
	struct stat s;
	char *path = below(folder, name);
	const bool is = path && !stat(path, &s) && S_ISDIR(s.st_mode);
	free(path);
	return is;
}

/* Sorted names of the folders, or the pictures, in a folder; those that begin with a dot are not seen. */
static bool list(const char *folder, bool folders, names *to, kit_why *w)
{
	DIR *d = opendir(folder);
	bool ok = d || kit_no_io(w);
	const struct dirent *e;
	while (ok && (errno = 0, e = readdir(d)))
		if (*e->d_name != '.' && (folders ? is_folder(folder, e->d_name) : is_picture(e->d_name) && !is_folder(folder, e->d_name)))
			ok = add(to, strdup(e->d_name), w);
	if (ok && errno) ok = kit_no_io(w);
	if (d) closedir(d);
	if (ok && to->n) qsort(to->v, to->n, sizeof *to->v, by_name);
	return ok;
}

static bool add_folder(tj_images *m, const char *folder, int64_t class, kit_why *w)
{
	names files = { 0 };
	bool ok = list(folder, false, &files, w);
	for (size_t i = 0; ok && i < files.n; i++) {
		ok = add(&m->paths, below(folder, files.v[i]), w);
		if (ok && m->room < m->paths.room) {
			int64_t *more = realloc(m->class_of, m->paths.room * sizeof *more);
			if (!more) ok = kit_no_memory(w);
			else m->class_of = more, m->room = m->paths.room;
		}
		if (ok) m->class_of[m->paths.n - 1] = class;
	}
	free_names(&files);
	return ok;
}

static bool find(tj_images *m, const char *folder, kit_why *w)
{
	if (!list(folder, true, &m->classes, w)) return false;
	for (size_t i = 0; i < m->classes.n; i++) {
		char *path = below(folder, m->classes.v[i]);
		const bool ok = path ? add_folder(m, path, (int64_t)i, w) : kit_no_memory(w);
		free(path);
		if (!ok) return false;
	}
	if (!m->classes.n && !add_folder(m, folder, 0, w)) return false;
	return m->paths.n || kit_no(w, TJ_ERR_ARG, "there are no files .png, .jpg or .jpeg in it, or in its folders");
}

/* ---- items ---- */
static int64_t length(void *self) { return (int64_t)((const tj_images *)self)->paths.n; }

static void *put(void *sample, const kit_image *m, kit_why *w)
{
	tj_sample *s = sample;
	const int64_t shape[] = { m->height, m->width, m->channels, TJ_END_DIM };
	void *to = tj_sample_put(s, 0, TJ_U8, shape);
	if (!to) *w = s->why;
	return to;
}

static bool item(void *self, int64_t index, tj_sample *s)
{
	const tj_images *m = self;
	kit_why w = { 0 };
	size_t n;
	kit_map *map = kit_map_open(m->paths.v[index], &w);
	const void *v = map ? kit_map_data(map, &n) : NULL;
	const bool ok = map && kit_image_read(v, n, m->channels, put, s, &w);
	kit_map_drop(map);
	if (!ok) return tj_sample_fail(s, "%s: %s", m->paths.v[index], w.text);
	int64_t *class = tj_sample_put(s, 1, TJ_I64, TJ_0D);
	if (class) *class = m->class_of[index];
	return class;
}

/* ---- the handle ---- */
tj_images *tj_images_open_at(const char *site, tj_ctx *c, const char *folder, int channels)
{
	kit_why w = { 0 };
	tj_images *m = calloc(1, sizeof *m);
	(void)c;
	bool ok = m || kit_no_memory(&w);
	if (ok && !folder) ok = kit_no(&w, TJ_ERR_ARG, "the path is NULL");
	if (ok && (channels < 0 || channels > 4)) ok = kit_no(&w, TJ_ERR_ARG, "%d channels; 0 to 4 are possible", channels);
	if (ok) {
		m->channels = channels ? channels : 3;
		m->set = (tj_dataset){ .self = m, .length = length, .item = item };
		ok = find(m, folder, &w);
	}
	if (ok) return m;
	kit_report(site, "images_open", folder, &w);
	tj_images_close(m);
	return NULL;
}

void tj_images_close(tj_images *m)
{
	if (!m) return;
	free_names(&m->classes);
	free_names(&m->paths);
	free(m->class_of);
	free(m);
}

const tj_dataset *tj_images_dataset(const tj_images *m) { return m ? &m->set : NULL; }

const char *tj_images_class(const tj_images *m, int64_t i)
{
	return m && i >= 0 && i < (int64_t)m->classes.n ? m->classes.v[i] : NULL;
}

const char *tj_images_path(const tj_images *m, int64_t i)
{
	return m && i >= 0 && i < (int64_t)m->paths.n ? m->paths.v[i] : NULL;
}
