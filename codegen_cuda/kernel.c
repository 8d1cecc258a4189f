/* kernel: the text of a whole kernel: arguments, the walk over units, sections. */
#include "codegen_cuda/cu.h"

/* ---- arguments: 64-bit words, in an order that host and text agree on ---- */
static bool is_used(const lo_kernel *k, uint32_t num)
{
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (k->ins.v[i].op == LO_NUM && k->ins.v[i].imm == (int64_t)num) return true;
	return false;
}

/* An input that is read at one place only may be a run-time number, which has no address on the device: its value is an argument. */
static bool may_be_number(const lo_kernel *k, uint32_t b)
{
	static const lo_index none;
	if (k->buf.v[b].role != LO_IN) return false;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_LOAD || in->buf != b) continue;
		if (in->dyn != LO_NOREF || memcmp(&k->index.v[in->index], &none, sizeof none) != 0) return false;
	}
	return true;
}

static bool push(cu_params *p, rt_cuda_word word, uint32_t n) { return rt_push(&p->param, ((rt_cuda_param){ word, n })); }

bool cu_params_of(const lo_kernel *k, cu_params *p)
{
	bool ok = true;
	uint32_t most = 0;
	for (uint32_t i = 0; i < k->buf.n; i++) {
		if (k->buf.v[i].role == LO_KEPT) continue;
		ok &= push(p, RT_CUDA_BUFFER, i);
		if (may_be_number(k, i)) ok &= push(p, RT_CUDA_VALUE, i);
	}
	for (uint32_t i = 0; i < k->size.n; i++) ok &= push(p, RT_CUDA_SIZE, i);
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (k->ins.v[i].op == LO_NUM && k->ins.v[i].imm >= most) most = (uint32_t)k->ins.v[i].imm + 1;
	for (uint32_t i = 0; i < most; i++)
		if (is_used(k, i)) ok &= push(p, RT_CUDA_NUMBER, i);
	return ok && push(p, RT_CUDA_UNITS, 0) && push(p, RT_CUDA_EACH, 0) && push(p, RT_CUDA_LAUNCH, 0) && push(p, RT_CUDA_FAULT, 0);
}

static void put_arguments(cu *c, const cu_params *p)
{
	cu_line(c, "struct %s_args {\n", c->k->name);
	for (uint32_t i = 0; i < p->param.n; i++) {
		const rt_cuda_param *x = &p->param.v[i];
		switch (x->word) {
		case RT_CUDA_BUFFER: cu_line(c, "void *b%u;\n", x->n); break;
		case RT_CUDA_VALUE: cu_line(c, "unsigned long long i%u;\n", x->n); break;
		case RT_CUDA_SIZE: cu_line(c, "long long s%u;\n", x->n); break;
		case RT_CUDA_NUMBER: cu_line(c, "long long n%u;\n", x->n); break;
		case RT_CUDA_UNITS: cu_line(c, "long long units;\n"); break;
		case RT_CUDA_EACH: cu_line(c, "long long each;\n"); break;
		case RT_CUDA_LAUNCH: cu_line(c, "unsigned long long launch;\n"); break;
		case RT_CUDA_FAULT: cu_line(c, "unsigned long long *fault;\n"); break;
		}
	}
	cu_line(c, "};\n");
}

static void put_buffers(cu *c)
{
	for (uint32_t i = 0; i < c->k->buf.n; i++) {
		const lo_buf *b = &c->k->buf.v[i];
		const char *type = cu_memory((tj_dtype)b->dtype), *is_const = b->role == LO_IN ? "const " : "";
		if (b->role == LO_KEPT) continue;
		cu_line(c, "%s%s *const b%u = (%s%s *)", is_const, type, i, is_const, type);
		if (may_be_number(c->k, i)) rt_putf(c->out, "(a.b%u ? a.b%u : (const void *)&a.i%u);\n", i, i, i);
		else rt_putf(c->out, "a.b%u;\n", i);
	}
}

/* ---- 32-bit arithmetic where all indices fit ---- */
static bool fits(const lo_kernel *k, const lo_schedule *s)
{
	enum { MOST = 1 << 30 };
	double units = (double)lo_units(k, s);
	if (k->size.n || units > MOST || (k->reduces && (double)k->red > MOST)) return false;
	for (uint32_t i = 0; i < k->index.n; i++) {
		const lo_index *x = &k->index.v[i];
		double far = (double)(x->offset < 0 ? -x->offset : x->offset) + (x->rcoef < 0 ? -(double)x->rcoef : (double)x->rcoef) * (double)(k->reduces ? k->red : 1);
		for (int d = 0; d < k->ndim; d++) far += (x->coef[d] < 0 ? -(double)x->coef[d] : (double)x->coef[d]) * (double)k->dim[d];
		if (far > MOST) return false;
	}
	return true;
}

/* ---- sections ---- */
static void instruction(cu *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	switch (in->op) {
	case LO_LOAD: cu_load(c, i); break;
	case LO_STORE: cu_store(c, i); break;
	case LO_REDUCE: case LO_PART: cu_acc_update(c, i); break;
	case LO_FAULT: cu_line(c, "if (v%u) tj_fault(a.fault, a.launch, %d);\n", in->src[0], (int)in->imm + 1); break;
	default: cu_value(c, i);
	}
}

static void body(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) instruction(c, i);
}

/* The loop over a thread's elements; `set` defines the index of element j. */
static void elements(cu *c, const char *set)
{
	c->in_elems = true;
	cu_early_loads(c);
	cu_declare_stores(c);
	cu_line(c, "TJ_UNROLL for (int j = 0; j < %d; j++) if (j < n) {\n", c->shape.elems);
	cu_line(c, "%s\n", set);
	body(c);
	cu_line(c, "}\n");
	cu_late_stores(c);
	c->in_elems = false;
}

/* A warp takes `per` neighbouring chunks, a power of two. */
static void rows_loop(cu *c)
{
	const cu_shape *x = &c->shape;
	const int rows = (int)(x->chunk / x->step);
	cu_line(c, "ix per = 1; const ix chunks = (len - 1) / %lld + 1;\n", (long long)x->chunk);
	cu_line(c, "while (per * %d < chunks) per *= 2;\n", x->warps);
	cu_line(c, "for (ix z = mine * per; z < (mine + 1) * per && z < chunks; z++) {\n");
	cu_line(c, "TJ_UNROLL_BY(4) for (int y = 0; y < %d; y++) {\n", rows);
	cu_line(c, "const ix i0 = z * %lld + y * %lld + lane * %d; const int n = len - i0 < %d ? (int)(len - i0) : %d;\n", (long long)x->chunk, (long long)x->step, x->elems,
	        x->elems, x->elems);
	cu_line(c, "const ix r0 = from + i0; if (n > 0) {\n");
	c->indent++;
	elements(c, "const ix r = r0 + j;");
	c->indent--;
	cu_line(c, "}\n");
	cu_acc_row(c);
	cu_line(c, "}\n");
	cu_acc_flush(c);
	cu_line(c, "}\n");
}

/* A thread takes a whole column. */
static void column_loop(cu *c)
{
	cu_line(c, "for (ix z = 0; z < len; z += 32) {\n");
	cu_line(c, "TJ_UNROLL_BY(8) for (int y = 0; y < 32; y++) if (z + y < len) {\n");
	cu_line(c, "const ix r = from + z + y;\n");
	body(c);
	cu_line(c, "}\n");
	cu_acc_flush(c);
	cu_line(c, "}\n");
}

static void section(cu *c, const lo_section *s)
{
	c->at = s;
	if (!s->loop) {
		body(c);
		return;
	}
	cu_acc_begin(c);
	cu_line(c, "{\n");
	c->indent++;
	if (c->shape.rows) rows_loop(c);
	else column_loop(c);
	c->indent--;
	cu_line(c, "}\n");
	cu_acc_end(c);
}

/* Without reductions, the sections are one loop over a thread's elements. */
static void sections(cu *c)
{
	lo_section all = { false, 0, c->k->ins.n };
	if (c->k->reduces) {
		for (uint32_t i = 0; i < c->k->section.n; i++) section(c, &c->k->section.v[i]);
		return;
	}
	char set[80];
	snprintf(set, sizeof set, "const ix d%d = e + j;", c->k->ndim - 1);
	c->at = &all;
	elements(c, set);
}

/* ---- units ---- */
static void put_unit(cu *c)
{
	const lo_kernel *k = c->k;
	const int last = k->ndim - 1;
	const bool parts = c->s->part != 0;
	cu_line(c, "ix w = u;\n");
	if (k->reduces) {
		cu_line(c, "const ix red = "), cu_size(c, k->red), rt_puts(c->out, ";\n");
		if (parts) cu_line(c, "const ix parts = (red - 1) / %lldll + 1, part = w %% parts, from = part * %lldll, len = from + %lldll < red ? %lldll : red - from; w /= parts;\n",
			               (long long)c->s->part, (long long)c->s->part, (long long)c->s->part, (long long)c->s->part);
		else cu_line(c, "const ix from = 0, len = red;\n");
	}
	for (int i = last; i >= 0; i--) {
		const bool elems = i == last && !k->reduces;
		cu_line(c, "const ix dim%d = ", i), cu_size(c, k->dim[i]), rt_puts(c->out, ";\n");
		if (elems) cu_line(c, "const ix pieces = (dim%d - 1) / %d + 1, e = %s * %d; %s\n", i, c->shape.elems, i ? "w % pieces" : "w", c->shape.elems, i ? "w /= pieces;" : "");
		else if (i) cu_line(c, "const ix d%d = w %% dim%d; w /= dim%d;\n", i, i, i);
		else cu_line(c, "const ix d0 = w;\n");
	}
	if (!k->reduces) cu_line(c, "const int n = dim%d - e < %d ? (int)(dim%d - e) : %d;\n", last, c->shape.elems, last, c->shape.elems);
}

void cu_kernel(const lo_kernel *k, const lo_schedule *s, rt_text *out)
{
	cu c = { .k = k, .s = s, .shape = cu_shape_of(k, s), .narrow = fits(k, s), .out = out };
	cu_params p = { 0 };
	if (!cu_params_of(k, &p)) out->oom = true;
	put_arguments(&c, &p);
	rt_vec_free(&p.param);
	cu_line(&c, "extern \"C\" __global__ void __launch_bounds__(%d) %s(const __grid_constant__ %s_args a)\n{\n", c.shape.threads, k->name, k->name);
	cu_line(&c, "typedef %s ix;\n", c.narrow ? "int" : "long long");
	put_buffers(&c);
	if (c.shape.rows) {
		cu_line(&c, "const int lane = threadIdx.x %% 32, who = threadIdx.x / %d, mine = threadIdx.x / 32 %% %d;\n", c.shape.warps * CU_WARP, c.shape.warps);
		cu_line(&c, "const bool lead = lane == 0 && mine == 0;\n");
		cu_line(&c, "char *const own = tj_shared + who * a.each;\n");
		cu_line(&c, "for (ix u = (ix)blockIdx.x * %d + who; u < (ix)a.units; u += (ix)gridDim.x * %d) {\n", c.shape.units, c.shape.units);
	} else cu_line(&c, "for (ix u = (ix)blockIdx.x * %d + threadIdx.x; u < (ix)a.units; u += (ix)gridDim.x * %d) {\n", c.shape.threads, c.shape.threads);
	put_unit(&c);
	sections(&c);
	cu_line(&c, "}\n");
	cu_line(&c, "}\n\n");
}

/* ---- the prelude ---- */
static const char prelude[] =
	"#define TJ_UNROLL _Pragma(\"unroll\")\n"
	"#define TJ_UNROLL_BY(n) _Pragma(TJ_TEXT(unroll n))\n"
	"#define TJ_TEXT(x) #x\n"
	"extern __shared__ __align__(16) char tj_shared[];\n"
	"template <int bytes> struct tj_vector; /* of one access */\n"
	"template <> struct tj_vector<1> { typedef unsigned char type; };\n"
	"template <> struct tj_vector<2> { typedef unsigned short type; };\n"
	"template <> struct tj_vector<4> { typedef unsigned int type; };\n"
	"template <> struct tj_vector<8> { typedef uint2 type; };\n"
	"template <> struct tj_vector<16> { typedef uint4 type; };\n"
	"template <int n, class T> union tj_many { T x[n]; typename tj_vector<n * sizeof(T) < 16 ? n * sizeof(T) : 16>::type v[n * sizeof(T) < 16 ? 1 : n * sizeof(T) / 16]; };\n"
	"template <bool aligned, int E, class T, class P> __device__ __forceinline__ void tj_load(T (&x)[E], P *p, int n)\n{\n"
	"\tif (aligned && n == E) {\n\t\tconst tj_many<E, T> m = *(const tj_many<E, T> *)p;\n\t\tTJ_UNROLL for (int j = 0; j < E; j++) x[j] = m.x[j];\n"
	"\t} else TJ_UNROLL for (int j = 0; j < E; j++) if (j < n) x[j] = p[j];\n}\n"
	"template <bool aligned, int E, class T> __device__ __forceinline__ void tj_store(T *p, const T (&x)[E], int n)\n{\n"
	"\tif (aligned && n == E) {\n\t\ttj_many<E, T> m;\n\t\tTJ_UNROLL for (int j = 0; j < E; j++) m.x[j] = x[j];\n\t\t*(tj_many<E, T> *)p = m;\n"
	"\t} else TJ_UNROLL for (int j = 0; j < E; j++) if (j < n) p[j] = x[j];\n}\n"
	"template <class T> __device__ __forceinline__ bool tj_above(T a, T b) { return a > b || (a != a && b == b); }\n"
	"template <class T> __device__ __forceinline__ bool tj_below(T a, T b) { return a < b || (a != a && b == b); }\n"
	"template <bool up, class T, class U> __device__ __forceinline__ bool tj_beats(T a, long long i, U b, long long at) /* (a, i) comes before the best so far */\n{\n"
	"\tif (at < 0) return true;\n"
	"\tif (up ? tj_above<U>(a, b) : tj_below<U>(a, b)) return true;\n"
	"\treturn i < at && !(up ? tj_above<U>(b, a) : tj_below<U>(b, a));\n}\n"
	"__device__ __forceinline__ void tj_fault(unsigned long long *word, unsigned long long launch, int number) { atomicCAS(word, 0ull, launch << 16 | number); }\n"
	"#ifndef TJ_CONVERTS\n"
	"__device__ __forceinline__ float tj_from_f16(unsigned short h) { float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return f; }\n"
	"__device__ __forceinline__ unsigned short tj_to_f16(float f) { unsigned short h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; }\n"
	"__device__ __forceinline__ float tj_from_bf16(unsigned short h) { return __int_as_float((int)h << 16); }\n"
	"__device__ __forceinline__ unsigned short tj_to_bf16(float f) { unsigned short h; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; }\n"
	"#endif\n\n";

void cu_prelude(rt_text *out) { rt_puts(out, prelude); }
