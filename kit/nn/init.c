/* SPDX-License-Identifier: MIT */
/* Initial values of parameters: functions of the seed, the name and the index of an element. */
#include "kit/nn/nn.h"

#include <math.h>

/* ---- random numbers: SplitMix64 (Steele, Lea and Flood, 2014) from a key of the seed and the name ---- */
static uint64_t mixed(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

typedef struct stream {
	uint64_t at;
} stream;
static stream stream_of(uint64_t seed, const char *name)
{
	uint64_t h = mixed(seed + UINT64_C(0x9E3779B97F4A7C15));
	for (; *name; name++) h = mixed(h ^ (unsigned char)*name);
	return (stream){ h };
}
static double uniform(stream *s) /* above 0, below 1 */
{
	s->at += UINT64_C(0x9E3779B97F4A7C15);
	return ((double)(mixed(s->at) >> 12) + 0.5) * 0x1p-52;
}
static double normal(stream *s) /* Box and Muller, 1958 */
{
	const double u = uniform(s), v = uniform(s);
	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- what a kind needs of a shape ---- */
static bool uses_fans(tjnn_init_kind k) { return k >= TJNN_KAIMING_UNIFORM && k <= TJNN_XAVIER_NORMAL; }

static void fans(const tjnn_slot *s, double *in, double *out)
{
	double field = 1;
	for (int i = 2; i < s->rank; i++) field *= (double)s->dim[i];
	*in = (double)s->dim[1] * field;
	*out = (double)s->dim[0] * field;
}

const char *nn_misfit(const tjnn_slot *s, tjnn_init init)
{
	if ((unsigned)init.kind > TJNN_DIRAC) return "no kind of tjnn_init_kind";
	if ((uses_fans(init.kind) || init.kind == TJNN_ORTHOGONAL) && s->rank < 2) return "fan_in and fan_out need two axes";
	if (init.kind == TJNN_EYE && s->rank != 2) return "a matrix is needed";
	if (init.kind == TJNN_DIRAC && (s->rank < 3 || s->rank > 5)) return "the weight of a convolution is needed, 3 to 5 axes";
	if (init.parts && (init.part < 0 || init.part >= init.parts || init.axis < 0 || init.axis >= s->rank))
		return "there is no such part";
	if (init.zeroed && (s->rank < 1 || init.zeroed < 0 || init.zeroed > s->dim[0])) return "there is no row to be zero";
	return NULL;
}

/* ---- kinds that are no distribution of single elements ---- */
/* Rows of normal numbers, made orthogonal by Gram and Schmidt, twice for the last bits. rows <= columns. */
static void orthogonal(stream *r, double gain, double *m, int64_t rows, int64_t columns)
{
	for (int64_t i = 0; i < rows; i++) {
		double *row = m + i * columns, length = 0;
		for (int64_t j = 0; j < columns; j++) row[j] = normal(r);
		for (int64_t k = 0; k < 2 * i; k++) {
			const double *other = m + k % i * columns;
			double dot = 0;
			for (int64_t j = 0; j < columns; j++) dot += row[j] * other[j];
			for (int64_t j = 0; j < columns; j++) row[j] -= dot * other[j];
		}
		for (int64_t j = 0; j < columns; j++) length += row[j] * row[j];
		for (int64_t j = 0; j < columns; j++) row[j] /= sqrt(length);
	}
	for (int64_t i = 0; i < rows * columns; i++) m[i] *= gain;
}

static bool fill_orthogonal(const tjnn_slot *s, double gain, stream *r, double *out)
{
	const int64_t n = nn_elements(s), rows = s->dim[0], columns = rows ? n / rows : 0;
	if (!n) return true;
	if (rows <= columns) return orthogonal(r, gain, out, rows, columns), true;
	double *turned = malloc((size_t)n * sizeof *turned);
	if (!turned) return false;
	orthogonal(r, gain, turned, columns, rows);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++) out[i * columns + j] = turned[j * rows + i];
	free(turned);
	return true;
}

static void fill_diagonal(const tjnn_slot *s, double value, double *out)
{
	const int64_t n = nn_elements(s), rows = s->dim[0], columns = s->dim[1], each = rows && columns ? n / (rows * columns) : 0;
	int64_t centre = 0;
	for (int i = 2; i < s->rank; i++) centre = centre * s->dim[i] + s->dim[i] / 2;
	memset(out, 0, (size_t)n * sizeof *out);
	for (int64_t i = 0; n && i < rows && i < columns; i++) out[(i * columns + i) * each + centre] = value;
}

static double drawn(const tjnn_slot *s, tjnn_init init, stream *r)
{
	double in = 1, out = 1, v;
	if (uses_fans(init.kind)) fans(s, &in, &out);
	switch (init.kind) {
	case TJNN_UNIFORM: return init.a + (init.b - init.a) * uniform(r);
	case TJNN_NORMAL: return init.a + init.b * normal(r);
	case TJNN_TRUNC_NORMAL:
		while (fabs(v = normal(r)) > 2) continue;
		return init.a + init.b * v;
	case TJNN_KAIMING_UNIFORM: return (2 * uniform(r) - 1) * init.a * sqrt(3 / in);
	case TJNN_KAIMING_NORMAL: return normal(r) * init.a / sqrt(in);
	case TJNN_XAVIER_UNIFORM: return (2 * uniform(r) - 1) * init.a * sqrt(6 / (in + out));
	case TJNN_XAVIER_NORMAL: return normal(r) * init.a * sqrt(2 / (in + out));
	default: return init.a;
	}
}

static bool fill(const tjnn_slot *s, tjnn_init init, uint64_t seed, double *out)
{
	stream r = stream_of(seed, s->name);
	const int64_t n = nn_elements(s);
	if (init.kind == TJNN_ORTHOGONAL) return fill_orthogonal(s, init.a, &r, out);
	if (init.kind == TJNN_EYE || init.kind == TJNN_DIRAC) return fill_diagonal(s, init.kind == TJNN_DIRAC ? 1 : init.a, out), true;
	for (int64_t i = 0; i < n; i++) out[i] = drawn(s, init, &r);
	const int64_t each = init.zeroed ? n / s->dim[0] : 0;
	for (int64_t i = 0; i < each; i++) out[(init.zeroed - 1) * each + i] = 0;
	return true;
}

/* The whole parameter that this is a part of. */
static tjnn_slot whole_of(const tjnn_slot *s, tjnn_init init)
{
	tjnn_slot all = *s;
	if (init.parts > 1) all.dim[init.axis] *= init.parts;
	return all;
}

/* Moves the part's elements to the front, row-major. */
static void keep_part(const tjnn_slot *s, tjnn_init init, double *v)
{
	int64_t inner = 1, outer = 1;
	for (int i = 0; i < s->rank; i++) *(i < init.axis ? &outer : &inner) *= s->dim[i];
	for (int64_t i = 0; i < outer; i++) memmove(v + i * inner, v + (i * init.parts + init.part) * inner, (size_t)inner * sizeof *v);
}

tj_status nn_write_initial(const char *site, const tjnn_slot *s, tjnn_init init, uint64_t seed)
{
	const int64_t n = nn_elements(s);
	const tjnn_slot all = whole_of(s, init);
	double *v = malloc((size_t)(nn_elements(&all) + 1) * sizeof *v);
	const bool filled = v && fill(&all, init, seed, v);
	if (filled && init.parts > 1) keep_part(s, init, v);
	tj_status st = TJ_ERR_NOMEM;
	if (!filled)
		tj_fail(TJ_ERR_NOMEM, "tjnn_open", "", "out of memory: %s has %lld elements", s->name, (long long)n);
	else if (s->dtype == TJ_F64)
		st = tj_write(*s->var, v, (size_t)n * sizeof *v);
	else
		st = tj_assign(*s->var, tj_to(tj_from_data_on(tj_ctx_current(), TJ_CPU, TJ_F64, s->dim, v), tj_device_of(*s->var)));
	free(v);
	return st;
}
