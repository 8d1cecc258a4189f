/* SPDX-License-Identifier: MIT */
/* external: the elements of a tensor, in the file itself or in another one of its folder, and their host values. */
#include "kit/models/models.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

static const struct {
	int64_t type;
	tj_dtype dtype;
} types[] = {
	{ OX_FLOAT, TJ_F32 }, { OX_UINT8, TJ_U8 },  { OX_INT8, TJ_I8 },     { OX_INT16, TJ_I16 },  { OX_INT32, TJ_I32 },
	{ OX_INT64, TJ_I64 }, { OX_BOOL, TJ_BOOL }, { OX_FLOAT16, TJ_F16 }, { OX_DOUBLE, TJ_F64 }, { OX_BFLOAT16, TJ_BF16 },
};

bool ox_dtype(int64_t type, tj_dtype *dtype)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == type) return *dtype = types[i].dtype, true;
	return false;
}

int64_t ox_type_of(tj_dtype dtype)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].dtype == dtype) return types[i].type;
	return 0;
}

const char *ox_type_name(int64_t type)
{
	static const char *const names[] = { "no type",        "float",    "uint8",        "int8",           "uint16",
		                             "int16",          "int32",    "int64",        "string",         "bool",
		                             "float16",        "double",   "uint32",       "uint64",         "complex64",
		                             "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
		                             "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
		                             "uint2",          "int2" };
	return type >= 0 && type < (int64_t)(sizeof names / sizeof *names) ? names[type]
	       : type == -1                                                ? "a sparse tensor"
	                                                                   : "an unknown type";
}

/* ---- files beside the model ---- */
/* Each part of the path is opened by itself and is no link, so nothing leads out of the folder. */
static int open_inside(int folder, const char *location, kit_why *why)
{
	char part[256];
	int at = folder;
	for (const char *s = location;;) {
		const size_t n = strcspn(s, "/");
		const bool last = !s[n];
		if (!n || n >= sizeof part || !strncmp(s, "..", n < 2 ? 2 : n))
			return close(at), kit_no(why, TJ_ERR_IO, "external data %.120s are not in the folder of the model", location), -1;
		memcpy(part, s, n);
		part[n] = 0;
		const int next = openat(at, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
		const int was = errno;
		close(at);
		if (next < 0)
			return kit_no(why, TJ_ERR_IO, "external data %.120s: %s", location,
			              was == ELOOP || was == ENOTDIR ? "a link or no folder is on the way" : strerror(was)),
			       -1;
		if (last) return next;
		at = next;
		s += n + 1;
	}
}

kit_map *ox_external(const char *model, const char *location, kit_why *why)
{
	const char *slash = strrchr(model, '/');
	char *folder = slash ? strndup(model, (size_t)(slash - model) + 1) : strdup("."), name[40];
	if (!folder) return kit_no_memory(why), NULL;
	const int dir = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	free(folder);
	if (dir < 0) return kit_no_io(why), NULL;
	const int fd = open_inside(dir, location, why);
	if (fd < 0) return NULL;
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	kit_map *m = kit_map_open(name, why);
	close(fd);
	return m;
}

/* ---- host values ---- */
static double float_at(tj_dtype dtype, const unsigned char *v)
{
	float f;
	double d;
	tj_f16 h;
	tj_bf16 b;
	if (dtype == TJ_F16) return memcpy(&h, v, 2), (double)tj_from_f16(h);
	if (dtype == TJ_BF16) return memcpy(&b, v, 2), (double)tj_from_bf16(b);
	if (dtype == TJ_F32) return memcpy(&f, v, 4), (double)f;
	return memcpy(&d, v, 8), d;
}

static int64_t integer_at(tj_dtype dtype, const unsigned char *v)
{
	int16_t s;
	int32_t i;
	int64_t l;
	switch (dtype) {
	case TJ_BOOL: return *v != 0;
	case TJ_U8: return *v;
	case TJ_I8: return (int8_t)*v;
	case TJ_I16: return memcpy(&s, v, 2), s;
	case TJ_I32: return memcpy(&i, v, 4), i;
	default: return memcpy(&l, v, 8), l;
	}
}

const ox_host *ox_host_of_bytes(ox_arena *a, tj_dtype dtype, int rank, const int64_t *dim, const void *data)
{
	ox_host *h = ox_new_host(a, dtype, rank, dim);
	const unsigned char *v = data;
	const size_t size = tj_dtype_size(dtype);
	for (int64_t k = 0; h && k < h->n; k++) {
		if (h->f)
			h->f[k] = float_at(dtype, v + (size_t)k * size);
		else
			h->i[k] = integer_at(dtype, v + (size_t)k * size);
	}
	return h;
}

static bool outside(tj_model *m, ox_tensor *t, kit_why *why)
{
	size_t all;
	if (!(t->map = ox_external(m->path, t->location, why))) return false;
	const unsigned char *v = kit_map_data(t->map, &all);
	const uint64_t length = t->length < 0 && (uint64_t)t->offset <= all ? all - (uint64_t)t->offset : (uint64_t)t->length;
	if ((uint64_t)t->offset > all || length > all - (uint64_t)t->offset)
		return kit_no(why, TJ_ERR_PARSE, "tensor %.80s: its external data are beyond the %zu bytes of %.120s", t->name, all,
		              t->location);
	t->data = v + t->offset;
	t->bytes = (size_t)length;
	return true;
}

bool ox_literal(tj_model *m, ox_tensor *t, kit_why *why)
{
	tj_dtype dtype;
	size_t bytes;
	if (!ox_dtype(t->type, &dtype)) return t->bytes = 0, true; /* refused where it is used */
	if (t->location && !outside(m, t, why)) return false;
	if (!kit_bytes_of(dtype, t->rank, t->dim, &bytes) || bytes != t->bytes)
		return kit_no(why, TJ_ERR_PARSE, "tensor %.80s: it has %zu bytes of data, which its shape and dtype do not give", t->name,
		              t->bytes);
	if (bytes / tj_dtype_size(dtype) <= OX_HOST_MOST && !(t->host = ox_host_of_bytes(&m->arena, dtype, t->rank, t->dim, t->data)))
		return kit_no_memory(why);
	return true;
}
