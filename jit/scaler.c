/* SPDX-License-Identifier: MIT */
/* Loss scaling: ops that a user could have written. */
#include "jit/claim.h"

#include <math.h>

enum { INTERVAL = 2000 };
static const double INIT = 65536, GROWTH = 2, BACKOFF = 0.5;

/* What is wrong with the options; NULL: nothing. NaN is wrong everywhere. */
static const char *mistake(const tj_scaler_opts *o)
{
	if (!(o->init > 0) || !isfinite((float)o->init)) return ".init is not a positive f32";
	if (!(o->growth >= 1) || !isfinite((float)o->growth)) return ".growth is below 1, or no f32";
	if (!(o->backoff > 0 && o->backoff < 1)) return ".backoff is not between 0 and 1";
	return o->interval < 1 ? ".interval is negative" : NULL;
}

tj_status tj_scaler_init_at(const char *site, tj_ctx *c, tj_scaler *s, const tj_scaler_opts *opts)
{
	JIT_OPTIONS(tj_scaler_opts, o, opts);
	if (!c) return TJ_ERR_STATE;
	if (s) *s = (tj_scaler){ .scale = &c->rt.poison, .good = &c->rt.poison };
	if (jit_refuses(c, site, "scaler_init")) return TJ_ERR_STATE;
	if (!s) return jit_error(c, site, TJ_ERR_ARG, "scaler_init", NULL, "the scaler is NULL"), TJ_ERR_ARG;
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "scaler_init", JIT_SIZES, o.size), TJ_ERR_ARG;
	if (o.init == 0) o.init = INIT;
	if (o.growth == 0) o.growth = GROWTH;
	if (o.backoff == 0) o.backoff = BACKOFF;
	if (o.interval == 0) o.interval = INTERVAL;
	*s = (tj_scaler){ &c->rt.poison, &c->rt.poison, o.growth, o.backoff, o.interval };
	const char *wrong = mistake(&o);
	if (wrong) return jit_error(c, site, TJ_ERR_ARG, "scaler_init", "0 means the default", "%s", wrong), TJ_ERR_ARG;
	const float init = (float)o.init;
	tj_tensor *scale = tj_param_at(site, c, TJ_F32, TJ_0D), *good = tj_is_poison(scale) ? scale : tj_param_at(site, c, TJ_I64, TJ_0D);
	tj_status st = tj_is_poison(good) ? c->rt.err.code : tj_write_at(site, scale, &init, sizeof init);
	if (st != TJ_OK) {
		if (!tj_is_poison(good)) tj_release_at(site, good);
		if (!tj_is_poison(scale)) tj_release_at(site, scale);
		return st;
	}
	s->scale = scale;
	s->good = good;
	return TJ_OK;
}

static bool is_scaler(tj_ctx *c, const char *site, const char *name, const tj_scaler *s)
{
	if (s && s->scale && s->good) return true;
	jit_error(c, site, TJ_ERR_ARG, name, "make it with tj_scaler_init()", "the scaler is %s", s ? "not made" : "NULL");
	return false;
}

/* f16 and bf16 as f32: a gradient that was divided by the scale may be 0 in f16. */
static tj_tensor *wide(const char *site, tj_tensor *t) { return rt_is_narrow(tj_dtype_of(t)) ? tj_cast_at(site, t, TJ_F32) : t; }

tj_tensor *tj_scale_loss_at(const char *site, const tj_scaler *s, tj_tensor *loss)
{
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context(site, "scale_loss");
	if (jit_refuses(c, site, "scale_loss") || !is_scaler(c, site, "scale_loss", s)) return &c->rt.poison;
	return tj_mul_at(site, wide(site, loss), s->scale);
}

tj_tensor *tj_unscale_at(const char *site, const tj_scaler *s, tj_tensor **grad, int n)
{
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context(site, "unscale");
	if (jit_refuses(c, site, "unscale") || !is_scaler(c, site, "unscale", s)) return &c->rt.poison;
	if (!grad || n < 1)
		return jit_error(c, site, TJ_ERR_ARG, "unscale", "pass the array that tj_grad() has filled",
		                 grad ? "there are %d gradients" : "the array of gradients is NULL", n);
	tj_tensor *by = tj_reciprocal_at(site, s->scale), *finite = NULL;
	for (int i = 0; i < n && !tj_is_poison(by); i++) {
		tj_tensor *g = tj_mul_at(site, wide(site, grad[i]), by), *all = tj_all_at(site, tj_isfinite_at(site, g), TJ_ALL, false);
		finite = finite ? tj_logical_and_at(site, finite, all) : all;
		if (tj_is_poison(finite)) return finite;
		grad[i] = g;
	}
	return finite ? finite : by;
}

tj_status tj_scaler_update_at(const char *site, const tj_scaler *s, tj_tensor *finite)
{
	JIT_CURRENT(c, site);
	if (!c) return TJ_ERR_STATE;
	if (jit_refuses(c, site, "scaler_update")) return TJ_ERR_STATE;
	if (!is_scaler(c, site, "scaler_update", s)) return TJ_ERR_ARG;
	tj_tensor *ok = tj_reshape_at(site, finite, TJ_0D), *good = tj_add_at(site, s->good, tj_i(1));
	tj_tensor *grows = tj_ge_at(site, good, tj_i(s->interval)), *more = tj_mul_at(site, s->scale, tj_f(s->growth));
	tj_tensor *kept = tj_where_at(site, tj_logical_and_at(site, grows, tj_isfinite_at(site, more)), more, s->scale);
	tj_tensor *scale = tj_where_at(site, ok, kept, tj_mul_at(site, s->scale, tj_f(s->backoff)));
	tj_tensor *count = tj_where_at(site, tj_logical_and_at(site, ok, tj_logical_not_at(site, grows)), good, tj_i(0));
	tj_status st = tj_assign_at(site, s->scale, scale);
	return st == TJ_OK ? tj_assign_at(site, s->good, count) : st;
}
