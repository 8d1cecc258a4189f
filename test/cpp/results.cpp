/* SPDX-License-Identifier: MIT */
/* <tj.hpp> without exceptions: results, and poison. Compiled with -fno-exceptions, and with TJ_HPP_NO_EXCEPTIONS alone. */
#ifdef __cpp_exceptions
#define TJ_HPP_NO_EXCEPTIONS
#endif
#include "test.hpp"
#include <string>

using tj::tensor;

static void values(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f });
	tj::result<double> sum = tj::sum(x).item();
	CHECK(sum && sum.has_value() && *sum == 3 && sum.value() == 3 && sum.value_or(7) == 3);
	tj::result<std::vector<float>> v = x.to_vector<float>();
	CHECK(v && v->size() == 2 && (*v)[1] == 2);
	const std::vector<float> moved = *std::move(v);
	CHECK(moved[0] == 1 && x.data<float>()->size() == 2);
	tj::result<void> written = tj::cell(ctx, x).write(std::vector<float>{ 3, 4 });
	CHECK(written && written.has_value() && ctx.check() && ctx.sync());
	CHECK(ctx.clone().has_value());
	if (tj::sum(x) > 2) CHECK(true);
	else CHECK(false);
}

static void failures(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f }), bad = x + tj::from_data({ 1.0f, 2.0f, 3.0f });
	const int line = __LINE__;
	CHECK(bad.is_poison() && (bad * 2).is_poison());
	tj::result<double> sum = tj::sum(bad).item();
	CHECK(!sum && sum.error().code() == TJ_ERR_SHAPE && sum.error().op() == "add" && sum.value_or(7) == 7);
	CHECK(sum.error().site() == std::string(__FILE__ ":") + std::to_string(line - 1) && sum.error().line() == line + 2);
	CHECK(x.to_vector<double>().error().code() == TJ_ERR_DTYPE && x.data<int>().error().code() == TJ_ERR_DTYPE);
	float f[1];
	CHECK(x.read(f, 1).error().code() == TJ_ERR_SHAPE && bad.data<float>().error().code() == TJ_ERR_DEAD);
	CHECK(tj::from_data({ 1.0f }, { 2 }).is_poison() && ctx.check().error().code() == TJ_ERR_SHAPE);
	tj::cell w(ctx, x);
	CHECK(w.assign(tj::from_data({ 1.0f, 2.0f, 3.0f })).error().code() == TJ_ERR_SHAPE);
	w += tj::from_data({ 1.0f, 2.0f, 3.0f });
	CHECK(!ctx.check() && *tj::sum(w).item() == 3);
}

static void functions(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f });
	bool fail = false;
	auto made = tj::compile(ctx, [&](tensor a, tj::real r) {
		if (fail) return a + tj::from_data({ 1.0f, 2.0f, 3.0f });
		return a * r;
	});
	CHECK(made);
	tj::fn<tensor(tensor, tj::real)> f = *std::move(made);
	CHECK(*tj::sum(*f(x, 2)).item() == 6);
	fail = true;
	auto r = f(x, 2);
	CHECK(!r && r.error().code() == TJ_ERR_SHAPE && r.error().line() == __LINE__ - 1 && ctx.check());
	fail = false;
	CHECK(*tj::sum(*f(x, 3)).item() == 9);
	auto g = tj::import_as<tensor(tensor)>(ctx, "/nowhere/at/all.tjx");
	CHECK(!g && g.error().code() == TJ_ERR_IO && f.variable("w").error().code() == TJ_ERR_ARG && ctx.check());
	tj::cell w(ctx, x);
	auto step = tj::compile(ctx, [&](tensor a) {
		tensor loss = tj::sum(tj::square(w - a));
		w -= 0.5 * tj::grads(loss, w)[0];
	});
	CHECK((*step)(x * 2) && *tj::sum(w).item() == 6);
	tj::options o;
	o.shapes = "x: f32[";
	CHECK(!tj::compile(ctx, [](tensor a) { return a; }, o));
	CHECK(tj::cond(1.0f, [&] { return x; }, [&] { return x; }).numel() == 2);
	CHECK(tj::vmap([](tensor a, tensor) { return a; }, { x }).is_poison() && ctx.check().error().code() == TJ_ERR_ARG);
	tj::tracing t(ctx);
	tensor loss = tj::sum(tj::square(w));
	w.assign(w - tj::grad(loss, { w })[0]);
	CHECK(t.end(loss) && *loss.item() == 20 && *tj::sum(w).item() == -6);
}

int main()
{
	static const test::named list[] = { { "values", values }, { "failures", failures }, { "functions", functions } };
	return test::run(list);
}
