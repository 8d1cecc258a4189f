/* SPDX-License-Identifier: MIT */
/* The rules by which parameters move, in PyTorch's formulas and order (torch.optim, the single-tensor forms). Scalars are f64 and are
 * rounded to the parameter's dtype where they meet it, as PyTorch's Python floats are. */
#include "kit/nn/nn.h"

#include <math.h>

/* ---- defaults ---- */
tjnn_rule tjnn_sgd(double lr) { return (tjnn_rule){ .method = TJNN_SGD, .lr = lr }; }
tjnn_rule tjnn_adam(double lr) { return (tjnn_rule){ .method = TJNN_ADAM, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 }; }
tjnn_rule tjnn_adamw(double lr)
{
	return (tjnn_rule){ .method = TJNN_ADAMW, .lr = lr, .weight_decay = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
}
tjnn_rule tjnn_adamax(double lr) { return (tjnn_rule){ .method = TJNN_ADAMAX, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 }; }
tjnn_rule tjnn_nadam(double lr)
{
	return (tjnn_rule){ .method = TJNN_NADAM, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum_decay = 4e-3 };
}
tjnn_rule tjnn_rmsprop(double lr) { return (tjnn_rule){ .method = TJNN_RMSPROP, .lr = lr, .alpha = 0.99, .eps = 1e-8 }; }
tjnn_rule tjnn_adagrad(double lr) { return (tjnn_rule){ .method = TJNN_ADAGRAD, .lr = lr, .eps = 1e-10 }; }
tjnn_rule tjnn_adadelta(double lr) { return (tjnn_rule){ .method = TJNN_ADADELTA, .lr = lr, .alpha = 0.9, .eps = 1e-6 }; }
tjnn_rule tjnn_lion(double lr) { return (tjnn_rule){ .method = TJNN_LION, .lr = lr, .weight_decay = 1e-3, .beta1 = 0.9, .beta2 = 0.99 }; }
tjnn_rule tjnn_muon(double lr)
{
	return (tjnn_rule){ .method = TJNN_MUON,
		            .lr = lr,
		            .weight_decay = 0.1,
		            .momentum = 0.95,
		            .nesterov = true,
		            .beta1 = 0.9,
		            .beta2 = 0.999,
		            .eps = 1e-7,
		            .newton_schulz = 5 };
}

const char *nn_rule_misfit(const tjnn_rule *r)
{
	const double b[] = { r->lr, r->weight_decay, r->momentum, r->eps, r->initial, r->lr_decay, r->momentum_decay };
	if ((unsigned)r->method > TJNN_MUON) return "no method of tjnn_method";
	for (size_t i = 0; i < sizeof b / sizeof *b; i++)
		if (!(b[i] >= 0) || isinf(b[i])) return "rates, decays, momentum and eps are finite and 0 or more";
	if (!(r->beta1 >= 0 && r->beta1 < 1 && r->beta2 >= 0 && r->beta2 < 1)) return "beta1 and beta2 are 0 or more, and below 1";
	if (!(r->alpha >= 0 && r->alpha <= 1)) return "alpha is from 0 to 1";
	if (r->method == TJNN_SGD && r->nesterov && (r->momentum <= 0 || r->dampening != 0))
		return "nesterov needs a momentum, and no dampening";
	if (r->method == TJNN_MUON && (r->newton_schulz < 1 || r->newton_schulz > 99)) return "newton_schulz is from 1 to 99";
	return NULL;
}

/* ---- state ---- */
/* MUON is for matrices; other parameters go by ADAMW. */
static tjnn_method method_of(const tjnn_rule *r, int rank) { return r->method == TJNN_MUON && rank != 2 ? TJNN_ADAMW : r->method; }

int nn_rule_states(const tjnn_rule *r, int rank, const char *name[NN_STATES])
{
	int n = 0;
	switch (method_of(r, rank)) {
	case TJNN_SGD:
		if (r->momentum != 0) name[n++] = "momentum_buffer";
		break;
	case TJNN_ADAM:
	case TJNN_ADAMW:
		name[n++] = "exp_avg", name[n++] = "exp_avg_sq";
		if (r->amsgrad) name[n++] = "max_exp_avg_sq";
		break;
	case TJNN_ADAMAX: name[n++] = "exp_avg", name[n++] = "exp_inf"; break;
	case TJNN_NADAM: name[n++] = "exp_avg", name[n++] = "exp_avg_sq"; break;
	case TJNN_RMSPROP:
		name[n++] = "square_avg";
		if (r->momentum > 0) name[n++] = "momentum_buffer";
		if (r->centered) name[n++] = "grad_avg";
		break;
	case TJNN_ADAGRAD: name[n++] = "sum"; break;
	case TJNN_ADADELTA: name[n++] = "square_avg", name[n++] = "acc_delta"; break;
	case TJNN_LION: name[n++] = "exp_avg"; break;
	case TJNN_MUON: name[n++] = "momentum_buffer"; break;
	}
	return n;
}

/* ---- scalars ---- */
static tj_tensor *unbias(const char *site, double beta, tj_tensor *t) { return tj_sub(tj_f(1), tj_pow(tj_f(beta), t)); }

/* beta1 * (1 - 0.96^(t * decay) / 2); Dozat, 2016 */
static tj_tensor *mu(const char *site, const tjnn_rule *r, tj_tensor *t)
{
	tj_tensor *part = tj_mul(tj_f(0.5), tj_pow(tj_f(0.96), tj_mul(t, tj_f(r->momentum_decay))));
	return tj_mul(tj_f(r->beta1), tj_sub(tj_f(1), part));
}

void nn_rule_scalars(const char *site, nn_scalars *s)
{
	const tjnn_rule *r = s->rule;
	switch (r->method) {
	case TJNN_ADAM:
	case TJNN_ADAMW:
	case TJNN_MUON:
		s->a = tj_div(s->lr, unbias(site, r->beta1, s->t));
		s->b = tj_sqrt(unbias(site, r->beta2, s->t));
		break;
	case TJNN_ADAMAX: s->a = tj_div(s->lr, unbias(site, r->beta1, s->t)); break;
	case TJNN_NADAM: {
		tj_tensor *now = mu(site, r, s->t), *next = mu(site, r, tj_add(s->t, tj_f(1)));
		s->product = tj_mul(s->product, now);
		s->a = tj_div(tj_mul(s->lr, tj_sub(tj_f(1), now)), tj_sub(tj_f(1), s->product));
		s->b = tj_div(tj_mul(s->lr, next), tj_sub(tj_f(1), tj_mul(s->product, next)));
		s->c = unbias(site, r->beta2, s->t);
		break;
	}
	case TJNN_ADAGRAD: s->a = tj_div(s->lr, tj_add(tj_f(1), tj_mul(tj_sub(s->t, tj_f(1)), tj_f(r->lr_decay)))); break;
	default: break;
	}
}

/* ---- moves ---- */
typedef struct move {
	const nn_scalars *s;
	const tjnn_rule *r;
	tj_dtype dtype;
	tj_tensor *p, *g, **state;
} move;

static tj_tensor *scalar(const char *site, const move *m, tj_tensor *x) { return tj_cast(x, m->dtype); }
static tj_tensor *by(const char *site, tj_tensor *x, double k) { return tj_mul(x, tj_f(k)); }
static tj_tensor *toward(const char *site, tj_tensor *x, tj_tensor *g, double keep) /* lerp(x, g, 1 - keep) */
{
	return tj_add(x, by(site, tj_sub(g, x), 1 - keep));
}
static tj_tensor *squares(const char *site, tj_tensor *x, tj_tensor *g, double keep)
{
	return tj_add(by(site, x, keep), by(site, tj_square(g), 1 - keep));
}
static void decay_gradient(const char *site, move *m)
{
	if (m->r->weight_decay != 0) m->g = tj_add(m->g, by(site, m->p, m->r->weight_decay));
}
static void decay_parameter(const char *site, move *m)
{
	if (m->r->weight_decay != 0) m->p = tj_mul(m->p, scalar(site, m, tj_sub(tj_f(1), tj_mul(m->s->lr, tj_f(m->r->weight_decay)))));
}

static tj_tensor *sgd(const char *site, move *m)
{
	const tjnn_rule *r = m->r;
	decay_gradient(site, m);
	if (r->momentum != 0) {
		tj_tensor *next = tj_add(by(site, m->state[0], r->momentum), by(site, m->g, 1 - r->dampening));
		/* the first one is the gradient, without dampening */
		m->state[0] = r->dampening != 0 ? tj_where(tj_eq(m->s->t, tj_f(1)), m->g, next) : next;
		m->g = r->nesterov ? tj_add(m->g, by(site, m->state[0], r->momentum)) : m->state[0];
	}
	return tj_sub(m->p, tj_mul(m->g, scalar(site, m, m->s->lr)));
}

static tj_tensor *adam(const char *site, move *m, bool decoupled)
{
	const tjnn_rule *r = m->r;
	if (decoupled)
		decay_parameter(site, m);
	else
		decay_gradient(site, m);
	m->state[0] = toward(site, m->state[0], m->g, r->beta1);
	m->state[1] = squares(site, m->state[1], m->g, r->beta2);
	tj_tensor *v = m->state[1];
	if (r->amsgrad && r->method != TJNN_MUON) v = m->state[2] = tj_maximum(m->state[2], v);
	tj_tensor *size = tj_add(tj_div(tj_sqrt(v), scalar(site, m, m->s->b)), tj_f(r->eps));
	return tj_sub(m->p, tj_div(tj_mul(m->state[0], scalar(site, m, m->s->a)), size));
}

static tj_tensor *adamax(const char *site, move *m)
{
	const tjnn_rule *r = m->r;
	decay_gradient(site, m);
	m->state[0] = toward(site, m->state[0], m->g, r->beta1);
	m->state[1] = tj_maximum(by(site, m->state[1], r->beta2), tj_add(tj_abs(m->g), tj_f(r->eps)));
	return tj_sub(m->p, tj_div(tj_mul(m->state[0], scalar(site, m, m->s->a)), m->state[1]));
}

static tj_tensor *nadam(const char *site, move *m)
{
	const tjnn_rule *r = m->r;
	if (r->decoupled)
		decay_parameter(site, m);
	else
		decay_gradient(site, m);
	m->state[0] = toward(site, m->state[0], m->g, r->beta1);
	m->state[1] = squares(site, m->state[1], m->g, r->beta2);
	tj_tensor *size = tj_add(tj_sqrt(tj_div(m->state[1], scalar(site, m, m->s->c))), tj_f(r->eps));
	tj_tensor *p = tj_sub(m->p, tj_div(tj_mul(m->g, scalar(site, m, m->s->a)), size));
	return tj_sub(p, tj_div(tj_mul(m->state[0], scalar(site, m, m->s->b)), size));
}

static tj_tensor *rmsprop(const char *site, move *m)
{
	const tjnn_rule *r = m->r;
	const int mean = r->momentum > 0 ? 2 : 1;
	decay_gradient(site, m);
	m->state[0] = squares(site, m->state[0], m->g, r->alpha);
	tj_tensor *size = m->state[0];
	if (r->centered) {
		m->state[mean] = toward(site, m->state[mean], m->g, r->alpha);
		size = tj_sub(size, tj_square(m->state[mean]));
	}
	tj_tensor *step = tj_div(m->g, tj_add(tj_sqrt(size), tj_f(r->eps)));
	if (r->momentum > 0) step = m->state[1] = tj_add(by(site, m->state[1], r->momentum), step);
	return tj_sub(m->p, tj_mul(step, scalar(site, m, m->s->lr)));
}

static tj_tensor *adagrad(const char *site, move *m)
{
	decay_gradient(site, m);
	m->state[0] = tj_add(m->state[0], tj_square(m->g));
	return tj_sub(m->p, tj_div(tj_mul(m->g, scalar(site, m, m->s->a)), tj_add(tj_sqrt(m->state[0]), tj_f(m->r->eps))));
}

static tj_tensor *adadelta(const char *site, move *m)
{
	const tjnn_rule *r = m->r;
	decay_gradient(site, m);
	m->state[0] = squares(site, m->state[0], m->g, r->alpha);
	tj_tensor *size = tj_sqrt(tj_add(m->state[0], tj_f(r->eps)));
	tj_tensor *step = tj_mul(tj_div(tj_sqrt(tj_add(m->state[1], tj_f(r->eps))), size), m->g);
	m->state[1] = squares(site, m->state[1], step, r->alpha);
	return tj_sub(m->p, tj_mul(step, scalar(site, m, m->s->lr)));
}

/* Chen and others, "Symbolic Discovery of Optimization Algorithms", 2023 */
static tj_tensor *lion(const char *site, move *m)
{
	const tjnn_rule *r = m->r;
	tj_tensor *step = tj_sign(tj_add(by(site, m->g, 1 - r->beta1), by(site, m->state[0], r->beta1)));
	m->state[0] = tj_add(by(site, m->g, 1 - r->beta2), by(site, m->state[0], r->beta2));
	if (r->weight_decay != 0) step = tj_add(step, by(site, m->p, r->weight_decay));
	return tj_sub(m->p, tj_mul(step, scalar(site, m, m->s->lr)));
}

/* An orthogonal matrix near x, by a polynomial of fifth degree; Jordan and others, "Muon", 2024. x: f32 or f64 [rows,columns]. */
static tj_tensor *orthogonalized(const char *site, tj_tensor *x, int turns, double eps)
{
	const double a = 3.4445, b = -4.7750, c = 2.0315;
	const bool turned = tj_dim(x, 0) > tj_dim(x, 1);
	if (turned) x = tj_transpose(x, 0, 1);
	x = tj_div(x, tj_maximum(tj_sqrt(tj_sum(tj_square(x), TJ_ALL, false)), tj_f(eps)));
	for (int i = 0; i < turns; i++) {
		tj_tensor *gram = tj_matmul(x, tj_transpose(x, 0, 1));
		tj_tensor *poly = tj_add(by(site, gram, b), by(site, tj_matmul(gram, gram), c));
		x = tj_add(by(site, x, a), tj_matmul(poly, x));
	}
	return turned ? tj_transpose(x, 0, 1) : x;
}

static tj_tensor *muon(const char *site, move *m)
{
	const tjnn_rule *r = m->r;
	const double rows = (double)tj_dim(m->p, 0), columns = (double)tj_dim(m->p, 1);
	m->state[0] = toward(site, m->state[0], m->g, r->momentum);
	tj_tensor *step = r->nesterov ? tj_add(m->g, by(site, tj_sub(m->state[0], m->g), r->momentum)) : m->state[0];
	step = orthogonalized(site, m->dtype == TJ_F64 ? step : tj_cast(step, TJ_F32), r->newton_schulz, r->eps);
	decay_parameter(site, m);
	tj_tensor *lr = tj_mul(m->s->lr, tj_f(sqrt(fmax(1, rows / columns))));
	return tj_sub(m->p, tj_mul(tj_cast(step, m->dtype), scalar(site, m, lr)));
}

tj_tensor *nn_rule_move(const char *site, const nn_scalars *s, tj_tensor *p, tj_tensor *g, tj_tensor **state)
{
	move m = { s, s->rule, tj_dtype_of(p), p, s->rule->maximize ? tj_neg(g) : g, state };
	switch (method_of(s->rule, tj_rank(p))) {
	case TJNN_SGD: return sgd(site, &m);
	case TJNN_ADAM: return adam(site, &m, false);
	case TJNN_ADAMW: return adam(site, &m, true);
	case TJNN_ADAMAX: return adamax(site, &m);
	case TJNN_NADAM: return nadam(site, &m);
	case TJNN_RMSPROP: return rmsprop(site, &m);
	case TJNN_ADAGRAD: return adagrad(site, &m);
	case TJNN_ADADELTA: return adadelta(site, &m);
	case TJNN_LION: return lion(site, &m);
	case TJNN_MUON: return muon(site, &m);
	}
	return p;
}
