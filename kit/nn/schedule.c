/* SPDX-License-Identifier: MIT */
/* Rates as functions of the step: PyTorch's schedulers in closed form. */
#include "kit/nn/nn.h"

#include <math.h>

static const double pi = 3.141592653589793;

tjnn_schedule tjnn_keep(void) { return (tjnn_schedule){ .kind = TJNN_RATE_KEEP }; }
tjnn_schedule tjnn_factor(double factor, int64_t steps) { return (tjnn_schedule){ .kind = TJNN_RATE_FACTOR, .a = factor, .steps = steps }; }
tjnn_schedule tjnn_steps(int64_t every, double gamma) { return (tjnn_schedule){ .kind = TJNN_RATE_STEPS, .a = gamma, .steps = every }; }
tjnn_schedule tjnn_exponential(double gamma) { return (tjnn_schedule){ .kind = TJNN_RATE_EXPONENTIAL, .a = gamma }; }
tjnn_schedule tjnn_cosine(int64_t steps, double min) { return (tjnn_schedule){ .kind = TJNN_RATE_COSINE, .steps = steps, .a = min }; }
tjnn_schedule tjnn_restarts(int64_t first, int64_t times, double min)
{
	return (tjnn_schedule){ .kind = TJNN_RATE_RESTARTS, .steps = first, .a = min, .b = (double)times };
}
tjnn_schedule tjnn_linear_from(double from, double to, int64_t steps)
{
	return (tjnn_schedule){ .kind = TJNN_RATE_LINEAR, .a = from, .b = to, .steps = steps };
}
tjnn_schedule tjnn_polynomial(int64_t steps, double power)
{
	return (tjnn_schedule){ .kind = TJNN_RATE_POLYNOMIAL, .a = power, .steps = steps };
}
tjnn_schedule tjnn_one_cycle(int64_t steps)
{
	return (tjnn_schedule){ .kind = TJNN_RATE_ONE_CYCLE, .a = 25, .b = 1e4, .c = 0.3, .steps = steps };
}
tjnn_schedule tjnn_milestones(const int64_t *at, int n, double gamma)
{
	tjnn_schedule s = { .kind = TJNN_RATE_MILESTONES, .a = gamma };
	for (; at && s.milestones < n && s.milestones < TJNN_MOST_MILESTONES; s.milestones++) s.milestone[s.milestones] = at[s.milestones];
	return s;
}

/* From `from` at 0 to `to` at 1, along half a cosine. */
static double cosine(double from, double to, double part) { return to + (from - to) * (1 + cos(pi * part)) / 2; }

/* Where the step is in its period of CosineAnnealingWarmRestarts, from 0 to below 1. Periods are first, first * times, ... */
static double in_period(int64_t first, double times, int64_t step)
{
	double length = (double)first, at = (double)step;
	if (times == 1) return fmod(at, length) / length;
	for (; at >= length; length *= times) at -= length;
	return at / length;
}

/* OneCycleLR: up until `top`, down until `steps` - 1; there it stays. */
static double one_cycle(const tjnn_schedule *s, double lr, int64_t step)
{
	const double first = lr / s->a, last = first / s->b, top = s->c * (double)s->steps - 1, end = (double)s->steps - 1,
		     at = (double)step;
	if (at <= top) return cosine(first, lr, top > 0 ? at / top : 1);
	return at >= end ? last : cosine(lr, last, (at - top) / (end - top));
}

static double passed(const tjnn_schedule *s, int64_t step)
{
	int n = 0;
	for (int i = 0; i < s->milestones; i++) n += s->milestone[i] <= step;
	return n;
}

static double scheduled(const tjnn_schedule *s, double lr, int64_t step)
{
	const int64_t length = s->steps > 0 ? s->steps : 1;
	const double part = step < length ? (double)step / (double)length : 1;
	switch (s->kind) {
	case TJNN_RATE_KEEP: return lr;
	case TJNN_RATE_FACTOR: return step < s->steps ? lr * s->a : lr;
	case TJNN_RATE_STEPS: return lr * pow(s->a, (double)(step / length));
	case TJNN_RATE_MILESTONES: return lr * pow(s->a, passed(s, step));
	case TJNN_RATE_EXPONENTIAL: return lr * pow(s->a, (double)step);
	case TJNN_RATE_COSINE: return cosine(lr, s->a, (double)step / (double)length);
	case TJNN_RATE_RESTARTS: return cosine(lr, s->a, in_period(length, s->b < 1 ? 1 : s->b, step));
	case TJNN_RATE_LINEAR: return lr * (s->a + (s->b - s->a) * part);
	case TJNN_RATE_POLYNOMIAL: return lr * pow(1 - part, s->a);
	case TJNN_RATE_ONE_CYCLE: return one_cycle(s, lr, step);
	}
	return lr;
}

double tjnn_schedule_at(const tjnn_schedule *s, double lr, int64_t step)
{
	if (!s) return lr;
	if (step < 0) step = 0;
	if (step >= s->warmup) return scheduled(s, lr, step - s->warmup);
	return scheduled(s, lr, 0) * (s->warmup_from + (1 - s->warmup_from) * (double)step / (double)s->warmup);
}

tj_status tjnn_schedule_set_at(const char *site, const tjnn_schedule *s, tjnn_optim *o, int64_t step)
{
	return nn_optim_schedule(site, o, s, step);
}

/* ---- plateaus ---- */
static bool better(const tjnn_plateau *p, double metric, double threshold)
{
	const double by = p->absolute ? threshold : fabs(p->best) * threshold;
	/* PyTorch: best * (1 -+ threshold), which is this for a best above 0 */
	return p->larger_is_better ? metric > p->best + by : metric < p->best - by;
}

tj_status tjnn_plateau_look_at(const char *site, tjnn_plateau *p, tjnn_optim *o, double metric)
{
	if (!p) return tj_fail(TJ_ERR_ARG, "tjnn_plateau_look", "", "no plateau"), TJ_ERR_ARG;
	const double factor = p->factor == 0 ? 0.1 : p->factor, threshold = p->threshold == 0 ? 1e-4 : p->threshold;
	const int64_t patience = p->patience == 0 ? 10 : p->patience;
	if (isnan(metric)) {
		tj_fail(TJ_ERR_ARG, "tjnn_plateau_look", "look at the loss before it becomes NaN", "the metric is NaN");
		return TJ_ERR_ARG;
	}
	if (!p->looks++ || better(p, metric, threshold))
		p->best = metric, p->bad = 0;
	else
		p->bad++;
	if (p->cooling > 0) p->cooling--, p->bad = 0;
	if (p->bad <= patience) return TJ_OK;
	p->cooling = p->cooldown;
	p->bad = 0;
	return nn_optim_reduce(site, o, factor, p->min);
}
