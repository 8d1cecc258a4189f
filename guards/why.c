/* SPDX-License-Identifier: MIT */
/* why: finds the first difference between the arguments that a trace expects and those of a call, and describes it. */
#include "guards/guards.h"
#include "runtime/settings.h"

static const struct { const char *name, *hint;
} causes[] = {
	[GD_SAME] = { "same", "" },
	[GD_RANK] = { "rank", "pass tensors of one rank, or wrap one function for each rank" },
	[GD_DEVICE] = { "device", "move the argument with tj_to() before the call" },
	[GD_DTYPE] = { "dtype", "cast the argument with tj_cast() before the call" },
	[GD_SIZE] = { "size", "pad the argument to one size, or leave .dynamic as it is: then one code serves all sizes" },
	[GD_STRIDE] = { "stride", "pass a row-major tensor: slices and transposes of another tensor keep its strides" },
	[GD_CELLNESS] = { "cell", "in this place, pass a cell on every call or on none" },
	[GD_CATEGORY] = { "number", "pass an int (tj_i) or a float (tj_f) in this place, not both" },
	[GD_NUMBER] = { "number", "in this place, always pass a tensor or always a number; tj_full() makes a tensor from a number" },
	[GD_SCALARS] = { "scalars", "give as many scalars of the same kinds in the same order on every call" },
	[GD_SCALAR] = { "scalar", "integer scalars are part of the key; pass it as a float scalar (TJ_F) or a 0-d tensor" },
	[GD_CONTENT] = { "constant",
	                 "the content of a tj_constant() or a .freeze variable may be folded; "
	                 "use tj_from_data() or .state for data that changes" },
	[GD_SETTINGS] = { "settings", "set them once, before the first call; the traces of both settings are kept" },
	[GD_OP] = { "op", "the body took another branch; make the choice with tj_where(), or accept a trace for each branch" },
	[GD_NUMERICS] = { "numerics",
	                  "the op is in a function with other .numerics than before; give both functions the same, or accept a trace for each" },
	[GD_AUTOCAST] = { "autocast",
	                  "the op is in a function with other .autocast than before; give both functions the same, or accept a trace for each" },
	[GD_PARTED] = { "numbers",
	                "numbers made by one line were equal and were compiled as one; after a few such traces they are kept apart" },
	[GD_ATTR] = { "attribute",
	              "axes, sizes and places are part of the trace; keep them the same, or make what changes on every call a tensor "
	              "(tj_index_select(), tj_where())" },
	[GD_OPERAND] = { "operand",
	                 "the body passed another value to this op than before; pass the same, choose with tj_where(), or accept a trace for "
	                 "each" },
	[GD_CAPTURE] = { "capture",
	                 "a tensor that the body captures changed its layout; keep the layout, or pass the tensor as an argument" },
	[GD_ALIAS] = { "alias",
	               "the body used one tensor where it used two before, or two where it used one; pass them as arguments, which may be the "
	               "same, or accept a trace for each" },
	[GD_END] = { "end",
	             "the body has more or fewer ops than before; a loop with as many turns as a number says is tj_while(), or accept a trace "
	             "for each" },
	[GD_BRANCH] = { "branch",
	                "nothing need be done: tj_truth() gave the other value, and the traces of both are kept; tj_where() and tj_cond() choose "
	                "within one" },
	[GD_DATA_SIZE] = { "data size",
	                   "the rest of the call is traced once for each such size, and shares the code; tj_where() keeps the size the same" },
};

const char *gd_cause_name(gd_cause c) { return causes[c].name; }
const char *gd_cause_hint(gd_cause c) { return causes[c].hint; }

static const char *kind_name(uint8_t kind)
{
	static const char *const name[] = { "a tensor", "a cell", "a float number", "an int number" };
	return name[kind];
}

void gd_put_arg(rt_text *t, const gd_arg *a)
{
	if (a->kind == GD_CELL) rt_puts(t, "cell ");
	if (a->layout) rt_put_layout(t, a->layout);
	else rt_puts(t, kind_name(a->kind));
	if (a->content) rt_putf(t, " constant #%llu", (unsigned long long)a->content);
}

static void set(gd_why *w, gd_cause cause, int dim, const char *expected, const char *found)
{
	w->cause = cause;
	w->dim = dim;
	snprintf(w->expected, sizeof w->expected, "%s", expected);
	snprintf(w->found, sizeof w->found, "%s", found);
}

static void set_int(gd_why *w, gd_cause cause, int dim, int64_t expected, int64_t found)
{
	w->cause = cause;
	w->dim = dim;
	snprintf(w->expected, sizeof w->expected, "%lld", (long long)expected);
	snprintf(w->found, sizeof w->found, "%lld", (long long)found);
}

static void compare_layout(const rt_layout *e, const rt_layout *f, gd_why *w)
{
	if (e == f) return;
	if (e->rank != f->rank) {
		set_int(w, GD_RANK, -1, e->rank, f->rank);
		return;
	}
	if (e->device != f->device) {
		set(w, GD_DEVICE, -1, rt_device_name(e->device), rt_device_name(f->device));
		return;
	}
	if (e->dtype != f->dtype) {
		set(w, GD_DTYPE, -1, tj_dtype_name((tj_dtype)e->dtype), tj_dtype_name((tj_dtype)f->dtype));
		return;
	}
	/* Sizes are compared only if both or none are row-major; else the difference in strides is reported. */
	for (int i = 0; i < e->rank && e->contiguous == f->contiguous; i++)
		if (e->dim[i] != f->dim[i]) {
			set_int(w, GD_SIZE, i, e->dim[i], f->dim[i]);
			return;
		}
	rt_text a = { 0 }, b = { 0 };
	rt_put_layout(&a, e);
	rt_put_layout(&b, f);
	set(w, GD_STRIDE, -1, e->contiguous ? "row-major" : rt_str(&a), f->contiguous ? "row-major" : rt_str(&b));
	rt_text_free(&a);
	rt_text_free(&b);
}

void gd_compare_arg(const gd_arg *e, const gd_arg *f, gd_why *w)
{
	*w = (gd_why){ .cause = GD_SAME, .arg = -1, .dim = -1 };
	bool number_e = e->kind >= GD_FLOAT, number_f = f->kind >= GD_FLOAT;
	if (e->kind != f->kind && (number_e || number_f))
		set(w, number_e && number_f ? GD_CATEGORY : GD_NUMBER, -1, kind_name(e->kind), kind_name(f->kind));
	else if (!number_e && e->layout != f->layout) compare_layout(e->layout, f->layout, w);
	else if (e->kind != f->kind) set(w, GD_CELLNESS, -1, kind_name(e->kind), kind_name(f->kind));
	else if (e->content != f->content) set(w, GD_CONTENT, -1, "one constant", "another");
}

/* The kinds of the scalars: "(int, float)". */
static void put_kinds(char *out, size_t room, const gd_sig *s)
{
	uint32_t n = s->nint + (uint32_t)__builtin_popcount(s->nfloat);
	size_t at = (size_t)snprintf(out, room, "(");
	for (uint32_t i = 0; i < n && at < room; i++)
		at += (size_t)snprintf(out + at, room - at, "%s%s", i ? ", " : "", s->nfloat >> i & 1 ? "float" : "int");
	if (at < room) snprintf(out + at, room - at, ")");
}

static void compare_scalars(const gd_sig *e, const gd_sig *f, gd_why *w)
{
	if (e->nint != f->nint || e->nfloat != f->nfloat) {
		w->cause = GD_SCALARS;
		put_kinds(w->expected, sizeof w->expected, e);
		put_kinds(w->found, sizeof w->found, f);
		return;
	}
	for (uint32_t i = 0; i < e->nint; i++)
		if (e->ints[i] != f->ints[i]) {
			set_int(w, GD_SCALAR, -1, e->ints[i], f->ints[i]);
			w->arg = (int)i;
			return;
		}
}

/* "TF32, library products"; "default". */
static void put_settings(char *out, size_t room, uint32_t s)
{
	static const struct { rt_setting bit; const char *text; } names[] = {
		{ RT_ALLOW_TF32, "TF32" }, { RT_ALLOW_REDUCED, "reduced precision" }, { RT_ALLOW_NONDETERMINISTIC, "any order of sums" },
		{ RT_NO_SPLIT_SUMS, "no split sums" }, { RT_AUTOTUNE, "autotune" }, { RT_NO_EPILOGUES, "no epilogues" },
		{ RT_PRODUCTS_OWN, "own products" }, { RT_PRODUCTS_LIBRARY, "library products" },
		{ RT_ATTENTION_MATH, "attention by ops" }, { RT_ATTENTION_FUSED, "attention in blocks" }, { RT_ATTENTION_LIBRARY, "library attention" },
	};
	size_t at = (size_t)snprintf(out, room, "%s", s ? "" : "default");
	for (size_t i = 0; i < RT_COUNT(names) && at < room; i++)
		if (s & names[i].bit) at += (size_t)snprintf(out + at, room - at, "%s%s", at ? ", " : "", names[i].text);
}

int gd_compare(const gd_sig *e, const gd_sig *f, gd_why *why)
{
	int differ = 0;
	*why = (gd_why){ .cause = GD_SAME, .arg = -1, .dim = -1 };
	for (uint32_t i = 0; i < e->narg; i++) {
		gd_why w;
		gd_compare_arg(&e->arg[i], &f->arg[i], &w);
		if (w.cause == GD_SAME) continue;
		w.arg = (int)i;
		if (differ++ == 0) *why = w;
	}
	if (differ) return differ;
	compare_scalars(e, f, why);
	if (why->cause == GD_SAME && e->settings != f->settings) {
		why->cause = GD_SETTINGS;
		put_settings(why->expected, sizeof why->expected, e->settings);
		put_settings(why->found, sizeof why->found, f->settings);
	}
	return why->cause != GD_SAME;
}
