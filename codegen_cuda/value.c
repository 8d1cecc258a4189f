/* SPDX-License-Identifier: MIT */
/* value: constants, numbers, indices and the primitives of ir/prims.def, as lines of CUDA C. Value i is the constant v<i>. */
#include "codegen_cuda/cu.h"

typedef struct prim_text { const char *ints, *floats; } prim_text;
static const prim_text prims[LO_PRIMS] = {
#define PRIM(name, nsrc, types, result, llvm_ints, llvm_floats, ints, floats, doc) [LO_##name] = { ints, floats },
#include "ir/prims.def"
#undef PRIM
};

/* ---- types: f16 and bf16 are kept as their bits, and converted from and to float ---- */
typedef struct type_text { const char *value, *memory, *without_sign, *with_sign; } type_text;
static const type_text types[TJ_DTYPE_COUNT] = {
	[TJ_BOOL] = { "bool", "unsigned char", "unsigned char", "signed char" },
	[TJ_U8] = { "unsigned char", "unsigned char", "unsigned char", "signed char" },
	[TJ_I8] = { "signed char", "signed char", "unsigned char", "signed char" },
	[TJ_I16] = { "short", "short", "unsigned short", "short" },
	[TJ_I32] = { "int", "int", "unsigned int", "int" },
	[TJ_I64] = { "long long", "long long", "unsigned long long", "long long" },
	[TJ_F16] = { "unsigned short", "unsigned short", "unsigned short", "unsigned short" },
	[TJ_BF16] = { "unsigned short", "unsigned short", "unsigned short", "unsigned short" },
	[TJ_F32] = { "float", "float", "unsigned int", "int" },
	[TJ_F64] = { "double", "double", "unsigned long long", "long long" },
};

const char *cu_type(tj_dtype t) { return types[t].value; }
const char *cu_memory(tj_dtype t) { return types[t].memory; }

/* ---- literals ---- */
void cu_size(cu *c, int64_t size)
{
	if (lo_is_sym(size)) rt_putf(c->out, "a.s%d", (int)(size - LO_SYM(0)));
	else rt_putf(c->out, "%lld", (long long)size);
}

void cu_bits(rt_text *out, tj_dtype t, int64_t bits)
{
	switch (rt_is_float(t) && !rt_is_narrow(t) ? t : TJ_DTYPE_COUNT) {
	case TJ_F32: rt_putf(out, "__int_as_float(0x%08x)", (unsigned)bits); break;
	case TJ_F64: rt_putf(out, "__longlong_as_double(0x%016llxll)", (unsigned long long)bits); break;
	default: rt_putf(out, "(%s)0x%llxll", types[t].value, (unsigned long long)bits); break;
	}
}

/* ---- primitives ---- */
void cu_prim(rt_text *out, lo_op op, tj_dtype t, const char *const src[3])
{
	const char *row = rt_is_float(t) ? prims[op].floats : prims[op].ints;
	for (const char *s = row; *s; s++) {
		if (*s != '$') {
			rt_putn(out, s, 1);
			continue;
		}
		switch (*++s) {
		case 'T': rt_puts(out, types[t].value); break;
		case 'U': rt_puts(out, types[t].without_sign); break;
		case 'I': rt_puts(out, types[t].with_sign); break;
		case 'f': rt_puts(out, t == TJ_F32 ? "f" : ""); break;
		default: rt_puts(out, src[*s - '0']);
		}
	}
}

/* Floats become integers by way of the widest one: a value in its range is truncated, and wraps if it is not. */
static void convert(cu *c, tj_dtype from, tj_dtype to, const char *v)
{
	const char *type = types[to].value;
	if (from == to) rt_puts(c->out, v);
	else if (rt_is_narrow(from)) rt_putf(c->out, "tj_from_%s(%s)", tj_dtype_name(from), v);
	else if (rt_is_narrow(to)) rt_putf(c->out, "tj_to_%s(%s)", tj_dtype_name(to), v);
	else if (to == TJ_BOOL) rt_putf(c->out, "%s != 0", v);
	else if (rt_is_float(from) && !rt_is_float(to)) rt_putf(c->out, "(%s)(long long)%s", type, v);
	else rt_putf(c->out, "(%s)%s", type, v);
}

/* The conversion saturates, and makes 0 of a NaN. */
static void fix(cu *c, tj_dtype t, const char *v)
{
	const char *edge = t == TJ_F32 ? "0x1p31f" : "0x1p63", *to = t == TJ_F32 ? "int" : "long long";
	rt_putf(c->out, "%s < %s && %s >= -%s ? (%s)%s : (%s)-%s", v, edge, v, edge, to, v, to, edge);
}

static void bitcast(cu *c, tj_dtype to, const char *v)
{
	const char *const name[] = { [TJ_F32] = "__int_as_float",
		                     [TJ_F64] = "__longlong_as_double",
		                     [TJ_I32] = "__float_as_int",
		                     [TJ_I64] = "__double_as_longlong" };
	rt_putf(c->out, "%s(%s)", name[to], v);
}

static void number(cu *c, const lo_ins *in)
{
	if (in->dtype == TJ_F64) rt_putf(c->out, "__longlong_as_double(a.n%lld)", (long long)in->imm);
	else rt_putf(c->out, "a.n%lld", (long long)in->imm);
}

static void size_value(cu *c, const lo_ins *in)
{
	const long long s = (long long)in->imm;
	if (in->dtype == TJ_F32) rt_putf(c->out, "__int_as_float((int)a.s%lld)", s);
	else if (in->dtype == TJ_F64) rt_putf(c->out, "__longlong_as_double(a.s%lld)", s);
	else rt_putf(c->out, "(%s)a.s%lld", types[in->dtype].value, s);
}

static void expression(cu *c, const lo_ins *in)
{
	char name[3][16];
	for (int k = 0; k < 3; k++) snprintf(name[k], sizeof name[k], "v%u", in->src[k]);
	const char *const src[3] = { name[0], name[1], name[2] };
	const tj_dtype t = (tj_dtype)(in->nsrc ? c->k->ins.v[in->src[0]].dtype : in->dtype);
	switch (in->op) {
	case LO_CONST: cu_bits(c->out, t, in->imm); break;
	case LO_NUM: number(c, in); break;
	case LO_SIZE: size_value(c, in); break;
	case LO_INDEX:
		if (in->imm == LO_R) rt_puts(c->out, "r");
		else rt_putf(c->out, "d%d", (int)in->imm);
		break;
	case LO_CONVERT: convert(c, t, (tj_dtype)in->dtype, src[0]); break;
	case LO_FIX: fix(c, t, src[0]); break;
	case LO_BITCAST: bitcast(c, (tj_dtype)in->dtype, src[0]); break;
	case LO_SELECT: rt_putf(c->out, "%s ? %s : %s", src[0], src[1], src[2]); break;
	default: cu_prim(c->out, (lo_op)in->op, t, src);
	}
}

void cu_value(cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cu_line(c, "const %s v%u = ", types[in->dtype].value, i);
	expression(c, in);
	rt_puts(c->out, ";\n");
}
