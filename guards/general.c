/* SPDX-License-Identifier: MIT */
/* general: compares signatures that differ in sizes alone, and names those sizes. */
#include "guards/guards.h"

static bool same_kind(const gd_arg *a, const gd_arg *b)
{
	if (a->kind != b->kind || a->content != b->content || !a->layout != !b->layout) return false;
	return !a->layout || (a->layout->rank == b->layout->rank && a->layout->dtype == b->layout->dtype &&
	                      a->layout->device == b->layout->device && a->layout->contiguous == b->layout->contiguous);
}

bool gd_same_but_sizes(const gd_sig *a, const gd_sig *b, const gd_spec *spec)
{
	if (a->narg != b->narg || a->nint != b->nint || a->nfloat != b->nfloat || a->settings != b->settings) return false;
	for (uint32_t i = 0; i < a->nint; i++)
		if (a->ints[i] != b->ints[i]) return false;
	for (uint32_t i = 0; i < a->narg; i++) {
		if (!same_kind(&a->arg[i], &b->arg[i])) return false;
		if (spec && i < spec->narg && spec->arg[i].fixed && a->arg[i].layout != b->arg[i].layout) return false;
	}
	return true;
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
