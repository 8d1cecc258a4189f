/* SPDX-License-Identifier: MIT */
/* launch: steps whose kernels are written by hand (scatter.c, cumulate.c, search.c, sort.c).
 *
 *   text ---- cu_module_of() ---- one kernel ----+---- one launch         a kernel of the plan like any other; graphs have it
 *                                                +---- several launches   a routine that launches them in order. Each has its own sizes
 *
 * The arguments of such a kernel are the addresses of the step's operands, its sizes, the number of units, and, if it looks for faults, the
 * number of the launch and the word for faults. Sizes are never in the text. */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"

typedef struct launches { int n; rt_step step[]; } launches;

static cu_params params(const cu_written *w)
{
	cu_params p = { 0 };
	bool ok = true;
	for (uint32_t i = 0; i < w->operands; i++) ok &= rt_push(&p.param, ((rt_cuda_param){ RT_CUDA_BUFFER, i }));
	for (uint32_t i = 0; i < w->words; i++) ok &= rt_push(&p.param, ((rt_cuda_param){ RT_CUDA_SIZE, i }));
	ok &= rt_push(&p.param, ((rt_cuda_param){ RT_CUDA_UNITS, 0 }));
	if (w->faults) ok &= rt_push(&p.param, ((rt_cuda_param){ RT_CUDA_LAUNCH, 0 })) && rt_push(&p.param, ((rt_cuda_param){ RT_CUDA_FAULT, 0 }));
	if (!ok) rt_vec_free(&p.param);
	return p;
}

static bool put_code(lo_low *L, rt_plan *p, const cu_written *w, const rt_text *text, const lo_target *target, rt_step *t)
{
	const double start = rt_now_ms();
	const rt_cuda_kernel how = { .threads = w->threads, .units = w->units, .own = w->own };
	bool compiled = false;
	cu_module *m = text->oom ? NULL : cu_module_of(target, rt_str(text), w->name, &how, params(w), L->o->keep_text ? NULL : L->o->store,
	                                                 &compiled, L->err);
	if (m) {
		t->fn = (rt_entry)(uintptr_t)&m->kernel[0];
		p->exec.code_bytes += m->code.bytes;
		if (L->o->keep_text) lo_add_text(p, &p->code_text, rt_str(text));
		lo_hold(p, &m->code);
	}
	p->exec.compiled += compiled;
	p->exec.codegen_ms += rt_now_ms() - start;
	return m != NULL;
}

static void put_launch(rt_step *t, const cu_written *w, const cu_launch *l)
{
	t->units = l->units;
	t->unit_ns = 1;
	t->size = l->size;
	t->nsize = w->words;
}

bool cu_put_launches(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t, const cu_written *w, const rt_text *text, int n,
                     const cu_launch *launch)
{
	t->name = ir_ops[lo_node(L, s->ref)->op].name;
	t->device = lo_node(L, s->ref)->device;
	if (n) put_launch(t, w, &launch[0]);
	if (t->units && !put_code(L, p, w, text, lo_target_of(L, s->ref), t)) return false;
	if (n < 2) t->kind = RT_STEP_KERNEL;
	if (n < 2) return true;
	launches *all = rt_arena_alloc(&p->mem, sizeof *all + (size_t)n * sizeof *all->step);
	if (!all) return false;
	all->n = n;
	for (int i = 0; i < n; i++) {
		all->step[i] = *t;
		put_launch(&all->step[i], w, &launch[i]);
	}
	t->self = all;
	return true;
}

tj_status cu_run_launches(const void *self, void *const *buf, rt_run *r)
{
	const launches *all = self;
	tj_status st = TJ_OK;
	for (int i = 0; i < all->n && st == TJ_OK; i++) st = rt_step_launch(&all->step[i], buf, r);
	return st;
}

void cu_written_text(const char *kernel, const rt_text *types, rt_text *out)
{
	rt_text body = { 0 };
	rt_puts(&body, rt_str(types));
	rt_puts(&body, kernel);
	cu_prelude(rt_str(&body), out);
	rt_puts(out, rt_str(&body));
	out->oom |= body.oom | types->oom;
	rt_text_free(&body);
}

/* ---- what these routines have in common ---- */
int64_t cu_inverse(int64_t b)
{
	const double x = 1 / (double)b;
	int64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

bool cu_takes_row_major(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	return lo_node(L, a->base)->op != IR_num && lo_takes_row_major(L, r, k, a); /* such a number is not in memory of the GPU */
}

const char *cu_lacks(tj_dtype t)
{
	(void)t;
	return rt_nvrtc_missing();
}

const char *cu_unsigned(tj_dtype t)
{
	static const char *const whole[] = { [1] = "unsigned char", [2] = "unsigned short", [4] = "unsigned", [8] = "unsigned long long" };
	return whole[tj_dtype_size(t)];
}

int64_t cu_bytes_of(const lo_call *e)
{
	int64_t sum = e->bytes;
	for (int k = 0; k < e->nsrc; k++) {
		int64_t n = (int64_t)tj_dtype_size((tj_dtype)e->src[k].meta.dtype);
		for (int d = 0; d < e->src[k].meta.rank; d++) n *= e->src[k].meta.dim[d];
		sum += n;
	}
	return sum;
}

cu_along cu_along_axis(const ir_meta *m, int64_t axis)
{
	cu_along x = { 1, 1, 1 };
	for (int i = 0; i < m->rank; i++) *(i < axis ? &x.outer : i > axis ? &x.inner : &x.n) *= m->dim[i];
	return x;
}
