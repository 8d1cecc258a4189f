/* SPDX-License-Identifier: MIT */
/* general: compares signatures that differ in sizes alone, and names those sizes. */
#include "guards/guards.h"

enum { ARG_WORDS = 4 };
uint32_t gd_kind_words(const gd_sig *s) { return ARG_WORDS * s->narg + 2 * s->nint + 2; }

void gd_kind_key(const gd_sig *s, const gd_spec *spec, uint32_t *w)
{
	*w++ = s->nfloat;
	*w++ = s->settings;
	for (uint32_t i = 0; i < s->narg; i++, w += ARG_WORDS) {
		const rt_layout *l = s->arg[i].layout;
		const bool fixed = l && spec && i < spec->narg && spec->arg[i].fixed;
		w[0] = s->arg[i].kind | (l ? 1u << 8 | (uint32_t)l->contiguous << 9 | (uint32_t)l->rank << 16 | (uint32_t)l->dtype << 24 : 0);
		w[1] = !l ? 0 : fixed ? l->id : (uint32_t)l->device;
		memcpy(w + 2, &s->arg[i].content, 8);
	}
	if (s->nint) memcpy(w, s->ints, s->nint * sizeof *s->ints);
}

uint32_t gd_moved(const gd_arg *a, const gd_arg *b)
{
	uint32_t bits = 0;
	for (int d = 0; a->layout && d < a->layout->rank; d++)
		if (a->layout->dim[d] != b->layout->dim[d]) bits |= 1u << d;
	return bits;
}

/* The name in the spec, else "s<argument>_<dimension>". */
void gd_put_size_name(rt_text *t, const gd_spec *spec, uint32_t arg, int dim)
{
	const gd_dim *d = spec && arg < spec->narg && dim < spec->arg[arg].rank ? &spec->arg[arg].dim[dim] : NULL;
	if (d && d->kind == GD_DIM_NAME) rt_puts(t, spec->symbol[d->v].name);
	else rt_putf(t, "s%u_%d", arg, dim);
}

void gd_put_general(rt_text *t, const gd_sig *s, const uint32_t *moved, const gd_spec *spec)
{
	for (uint32_t i = 0; i < s->narg; i++) {
		const rt_layout *l = s->arg[i].layout;
		if (i) rt_puts(t, ", ");
		if (spec && i < spec->narg && *spec->arg[i].name) rt_putf(t, "%s: ", spec->arg[i].name);
		if (!l || !moved[i]) {
			gd_put_arg(t, &s->arg[i]);
			continue;
		}
		rt_putf(t, "%s%s[", s->arg[i].kind == GD_CELL ? "cell " : "", tj_dtype_name((tj_dtype)l->dtype));
		for (int d = 0; d < l->rank; d++) {
			if (d) rt_puts(t, ",");
			if (moved[i] >> d & 1) gd_put_size_name(t, spec, i, d);
			else rt_putf(t, "%lld", (long long)l->dim[d]);
		}
		rt_puts(t, "]");
		if (l->device != RT_CPU) rt_putf(t, "@%s", rt_device_name(l->device));
		if (!l->contiguous) rt_puts(t, " with strides");
	}
}
