/* SPDX-License-Identifier: MIT */
/* kernel: the text of a whole kernel: arguments, the walk over units, sections. */
#include "codegen_cuda/cu.h"
#include "ir/tree.h"

#include <math.h>

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
	return ok && push(p, RT_CUDA_UNITS, 0) && push(p, RT_CUDA_EACH, 0) && (!k->fault_site.n || push(p, RT_CUDA_LAUNCH, 0)) &&
	       push(p, RT_CUDA_FAULT, 0);
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
		case RT_CUDA_FAULT: cu_line(c, "tj_faults *fault;\n"); break;
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
		double far = (double)(x->offset < 0 ? -x->offset : x->offset) +
		             (x->rcoef < 0 ? -(double)x->rcoef : (double)x->rcoef) * (double)(k->reduces ? k->red : 1);
		for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++) far += fabs((double)x->jump[j].by) * (double)(k->red / x->jump[j].every);
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
	case LO_FAULT:
		cu_line(c, "if (%sv%u) tj_fault(a.fault, a.launch, %d);\n", cu_shares(c) ? "live && " : "", in->src[0], (int)in->imm + 1);
		break;
	default:
		if (c->used[i]) cu_value(c, i);
	}
}

static void body(cu *c)
{
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) instruction(c, i);
}

/* Once for each unit. All threads of the unit load, one stores, perhaps over what they load: a barrier comes between. */
static void point_section(cu *c)
{
	const bool alone = c->shape.walk == CU_COLUMNS && c->shape.warps < 2; /* a thread has a column to itself */
	bool ordered = alone;
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_op op = (lo_op)c->k->ins.v[i].op;
		if (op == LO_STORE && !ordered) cu_line(c, c->shape.warps > 1 ? "__syncthreads();\n" : "__syncwarp();\n"), ordered = true;
		if (op == LO_LOAD) ordered = alone;
		instruction(c, i);
	}
}

/* Without reductions: each thread has all of its elements. */
static bool is_whole(const cu *c)
{
	const int64_t size = c->k->dim[c->k->ndim - 1];
	return !lo_is_sym(size) && size % c->shape.elems == 0;
}

/* The head of the loop over a thread's elements. The compiler is quicker where it need not find out that a condition is always true. */
static void put_elements(cu *c, bool all)
{
	cu_line(c, "TJ_UNROLL for (int j = 0; j < %d; j++) %s{\n", c->shape.elems, all ? "" : "if (j < n) ");
}

/* The loop over a thread's elements, without reductions. */
static void elements(cu *c)
{
	c->in_elems = true;
	cu_declare_loads(c);
	cu_early_loads(c);
	cu_declare_stores(c);
	put_elements(c, is_whole(c));
	cu_line(c, "const ix d%d = e + j;\n", c->k->ndim - 1);
	body(c);
	cu_line(c, "}\n");
	cu_late_stores(c);
	c->in_elems = false;
}

/* ---- the walk along r ---- */
/* How many instructions a body takes, roughly. */
static int weight(const cu *c)
{
	enum { DIVISION = 10, SEARCH = 8 };
	int n = 1;
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (in->op == LO_DIV || in->op == LO_REM || in->op == LO_SQRT) n += DIVISION;
		else if (in->op == LO_REDUCE && in->imm >= LO_RED_ARGMAX) n += SEARCH;
		else n += in->op != LO_CONST && in->op != LO_LOAD && in->op != LO_STORE;
	}
	return n;
}

/* The section sums columns of narrow integers in i64, so that each of its copies takes a pair of registers more than its load. */
static bool widens(const cu *c)
{
	bool wide = false;
	for (uint32_t i = c->at->first; i < c->at->first + c->at->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		wide |= (in->op == LO_REDUCE || in->op == LO_PART) && tj_dtype_size((tj_dtype)in->dtype) == 8;
	}
	return wide && c->shape.walk == CU_COLUMNS && cu_least_load(c->k) < 8;
}

/* Copies of the body in the loop. More of them have more loads in flight, and take longer to compile, above all those of odd lengths. A
 * kernel whose narrowest tree has half of the lanes of another one takes turns with two accumulators, so it needs two copies. */
static int unroll_of(const cu *c)
{
	enum { COPIES = 16, WORK = 48 };
	const cu_shape *x = &c->shape;
	const int sets = x->walk == CU_ROWS ? (int)(IR_TREE_LANES(sizeof(float)) / x->step) : 1;
	int n = ((x->whole || x->elems == 1) && !widens(c) ? COPIES : COPIES / 2) / x->elems;
	if (x->in_registers) return x->rows;
	while (n > sets && (n > x->rows || n * x->elems * weight(c) > WORK)) n /= 2;
	return n;
}

/* Every row of lanes is there, with all its elements. */
static bool is_full(const cu *c)
{
	const cu_shape *x = &c->shape;
	if (x->walk == CU_ROWS && x->span < CU_WARP) return false;
	return !lo_is_sym(c->k->red) && (c->k->red % x->chunk == 0 || c->k->red == x->rows * x->step) && x->rows % c->unroll == 0;
}

/* The elements that a thread takes of row q of the unrolled ones: n from r0 on. */
static void put_row(cu *c)
{
	const cu_shape *x = &c->shape;
	if (c->unroll > 1) cu_line(c, "TJ_UNROLL for (int q = 0; q < %d; q++) {\n", c->unroll);
	else cu_line(c, "{ const int q = 0;\n"), c->indent++;
	cu_line(c, "const int i0 = (y0 + q) * %lld", (long long)x->step);
	if (x->walk == CU_ROWS) rt_putf(c->out, " + lane * %d", x->elems);
	rt_puts(c->out, "; const ix r0 = c0 + i0;\n");
	if (is_full(c)) cu_line(c, "const int n = %d;\n", x->elems);
	else if (x->whole || x->elems == 1) cu_line(c, "const int n = i0 < left ? %d : 0;\n", x->elems);
	else cu_line(c, "const int n = left - i0 < %d ? left - i0 : %d;\n", x->elems, x->elems);
	cu_line(c, "%s{\n", is_full(c) ? "" : "if (n > 0) ");
}

/* A chunk: some rows of lanes are loaded, then used. */
static void chunk_loop(cu *c)
{
	c->in_elems = true;
	cu_line(c, "TJ_ROLLED for (int y0 = 0; y0 < %d; y0 += %d) {\n", c->shape.rows, c->unroll);
	cu_declare_loads(c);
	if (cu_loads_early(c)) {
		put_row(c);
		cu_early_loads(c);
		cu_line(c, "}\n");
		cu_line(c, "}\n");
	}
	put_row(c);
	cu_declare_stores(c);
	put_elements(c, c->shape.whole || c->shape.elems == 1);
	cu_line(c, "const ix r = r0 + j;\n");
	body(c);
	cu_line(c, "}\n");
	cu_late_stores(c);
	cu_line(c, "}\n");
	cu_acc_row(c);
	cu_line(c, "}\n");
	cu_line(c, "}\n");
	c->in_elems = false;
	cu_acc_flush(c);
}

/* A warp takes `per` neighbouring chunks, a power of two; in several passes if there are too many. */
static void row_loop(cu *c)
{
	const cu_shape *x = &c->shape;
	c->unroll = unroll_of(c);
	cu_line(c, "const ix chunks = (len - 1) / %lld + 1;\n", (long long)x->chunk);
	if (x->per) cu_line(c, "const ix per = %d, first = 0;\n", x->per);
	else {
		cu_line(c, "ix per = 1; while (per < %d && per * %d < chunks) per *= 2;\n", CU_MOST_PER, x->warps);
		cu_line(c, "const bool passes = chunks > per * %d; int pass = 0;\n", x->warps);
		cu_line(c, "TJ_ROLLED for (ix first = 0; first < chunks; first += per * %d) {\n", x->warps);
	}
	cu_line(c, "const ix start = first + mine * per, stop = !live ? start : start + per < chunks ? start + per : chunks;\n");
	cu_line(c, "TJ_ROLLED for (ix z = start; z < stop; z++) {\n");
	cu_line(c, "const ix c0 = from + z * %lld, rest = from + len - c0;\n", (long long)x->chunk);
	cu_line(c, "const int left = (int)(rest < %lld ? rest : %lld);\n", (long long)x->chunk, (long long)x->chunk);
	chunk_loop(c);
	cu_line(c, "}\n");
	cu_acc_pass(c);
	if (!x->per) cu_line(c, "}\n");
	c->unroll = 0;
}

static void section(cu *c, const lo_section *s)
{
	c->at = s;
	if (!s->loop) {
		point_section(c);
		return;
	}
	cu_acc_begin(c);
	cu_line(c, "{\n");
	row_loop(c);
	cu_line(c, "}\n");
	cu_acc_end(c);
}

/* Without reductions, the sections are one loop over a thread's elements. */
static void sections(cu *c)
{
	const lo_section all = { false, 0, c->k->ins.n };
	if (c->k->reduces) {
		for (uint32_t i = 0; i < c->k->section.n; i++) section(c, &c->k->section.v[i]);
		return;
	}
	c->at = &all;
	elements(c);
}

/* ---- units ---- */
/* The elements of r that the unit takes. The number of the part is the innermost index of units; for columns the outermost one. */
static void put_range(cu *c)
{
	const long long part = (long long)c->s->part;
	if (!part) {
		cu_line(c, "const ix from = 0, len = red;\n");
		return;
	}
	cu_line(c, "const ix parts = (red - 1) / %lldll + 1;\n", part);
	if (c->shape.walk == CU_COLUMNS) {
		cu_line(c, "const ix columns = (ix)1");
		for (int d = 0; d < c->k->ndim; d++) rt_puts(c->out, " * "), cu_size(c, c->k->dim[d]);
		rt_puts(c->out, ", part = w / columns; w -= part * columns;\n");
	}
	else cu_line(c, "const ix part = w %% parts; w /= parts;\n");
	cu_line(c, "const ix from = part * %lldll, len = from + %lldll < red ? %lldll : red - from;\n", part, part, part);
}

static void put_unit(cu *c)
{
	const lo_kernel *k = c->k;
	const int last = k->ndim - 1;
	cu_line(c, "ix w = u;\n");
	if (k->reduces) {
		cu_line(c, "const ix red = "), cu_size(c, k->red), rt_puts(c->out, ";\n");
		put_range(c);
	}
	for (int i = last; i >= 0; i--) {
		const bool elems = i == last && !k->reduces;
		cu_line(c, "const ix dim%d = ", i), cu_size(c, k->dim[i]), rt_puts(c->out, ";\n");
		if (elems)
			cu_line(c, "const ix pieces = (dim%d - 1) / %d + 1, e = %s * %d; %s\n", i, c->shape.elems, i ? "w % pieces" : "w",
			        c->shape.elems, i ? "w /= pieces;" : "");
		else if (i) cu_line(c, "const ix d%d = w %% dim%d; w /= dim%d;\n", i, i, i);
		else cu_line(c, "const ix d0 = w;\n");
	}
	if (k->reduces) return;
	if (is_whole(c)) cu_line(c, "const int n = %d;\n", c->shape.elems);
	else cu_line(c, "const int n = dim%d - e < %d ? (int)(dim%d - e) : %d;\n", last, c->shape.elems, last, c->shape.elems);
}

/* Which thread this is: `who` is its unit in the block, `mine` its warp of the unit, `lane` its place in the warp. */
static void put_thread(cu *c)
{
	const cu_shape *x = &c->shape;
	if (x->walk == CU_COLUMNS) {
		cu_line(c, "const int who = threadIdx.x %% %d, mine = threadIdx.x / %d, lane = threadIdx.x %% 32;\n", x->units, x->units);
		cu_line(c, "char *const own = tj_shared; /* of all units of the block */\n");
		return;
	}
	cu_line(c, "const int lane = threadIdx.x %% %d, who = threadIdx.x / %d, mine = threadIdx.x / 32 %% %d;\n", x->span,
	        x->warps * x->span, x->warps);
	cu_line(c, "char *const own = tj_shared + who * a.each;\n");
}

/* The loop over the units of a block. */
static void put_units(cu *c)
{
	const cu_shape *x = &c->shape;
	if (x->walk == CU_POINTS) {
		cu_line(c, "TJ_ROLLED for (ix u = (ix)blockIdx.x * %d + threadIdx.x; u < (ix)a.units; u += (ix)gridDim.x * %d) {\n",
		        x->threads, x->threads);
		return;
	}
	put_thread(c);
	cu_line(c, "TJ_ROLLED for (ix base = (ix)blockIdx.x * %d; base < (ix)a.units; base += (ix)gridDim.x * %d) {\n", x->units, x->units);
	cu_line(c, "const bool live = base + who < (ix)a.units, lead = live && mine == 0%s;\n", x->walk == CU_ROWS ? " && lane == 0" : "");
	cu_line(c, "const ix u = live ? base + who : (ix)a.units - 1;\n");
}

static void units(cu *c)
{
	put_units(c);
	put_unit(c);
	cu_held_rows(c);
	sections(c);
	cu_line(c, "}\n");
}

static void tiles(cu *c)
{
	const lo_section all = { false, 0, c->k->ins.n };
	c->at = &all;
	cu_tiles(c, body);
}

/* Which values are read. */
static bool *find_used(const lo_kernel *k)
{
	bool *used = rt_calloc(k->ins.n + 1);
	for (uint32_t i = 0; used && i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		for (int s = 0; s < in->nsrc; s++) used[in->src[s]] = true;
		if ((in->op == LO_LOAD || in->op == LO_STORE) && in->dyn != LO_NOREF) used[in->dyn] = true;
	}
	return used;
}

/* Blocks that an SM must have room for. Rows of any length, in passes: NVRTC would rather spill than use more than 128 registers, unless
 * one block is said to do. Products: while one block waits at a barrier, another one multiplies; those with sums of 8 bytes or many indices
 * need too many registers for two. */
static const char *least_blocks(const cu *c)
{
	lo_tiles t;
	if (c->shape.walk == CU_PRODUCT)
		return c->narrow && lo_tiles_of(c->k, &t) && t.plain[0] && t.plain[1] &&
		                       tj_dtype_size((tj_dtype)c->k->ins.v[t.dot].dtype) == 4
		               ? ", 2"
		               : ", 1";
	return c->shape.walk == CU_ROWS && !c->shape.per ? ", 1" : "";
}

void cu_kernel(const lo_kernel *k, const lo_schedule *s, rt_text *out)
{
	bool *used = find_used(k);
	cu c = { .k = k, .s = s, .shape = cu_shape_of(k, s), .narrow = fits(k, s), .used = used, .out = out };
	cu_params p = { 0 };
	out->oom |= !used || !cu_params_of(k, &p);
	put_arguments(&c, &p);
	rt_vec_free(&p.param);
	if (!used) return;
	cu_line(&c, "extern \"C\" __global__ void __launch_bounds__(%d%s) %s(const __grid_constant__ %s_args a)\n{\n", c.shape.threads,
	        least_blocks(&c), k->name, k->name);
	cu_line(&c, "typedef %s ix;\n", c.narrow ? "int" : "long long");
	put_buffers(&c);
	if (!k->fault_site.n) cu_line(&c, "if (a.fault && a.fault->first) return; /* earlier work has failed: cells stay as they were */\n");
	if (c.shape.walk == CU_TILES) tiles(&c);
	else if (c.shape.walk == CU_PRODUCT) cu_product(&c, instruction);
	else units(&c);
	cu_line(&c, "}\n\n");
	rt_free(used);
}
