/* SPDX-License-Identifier: MIT */
/* <tj.hpp> with exceptions. */
#include "test.hpp"
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

using tj::tensor;
using floats = std::vector<float>;

// The error that f throws is a tj::error of this code, at this line.
template <class F> static bool throws(tj_status code, int line, F &&f)
{
	try {
		f();
	} catch (const tj::error &e) {
		if (e.code() == code && (!line || e.line() == line) && std::string(e.what()).find(e.message()) != std::string::npos) return true;
		std::printf("code %d, line %d: %s\n", e.code(), e.line(), e.what());
		return false;
	}
	std::printf("nothing is thrown\n");
	return false;
}

static void data(tj::context &)
{
	const float c[] = { 1, 2, 3, 4 };
	const std::array<int64_t, 2> shape = { 2, 2 };
	CHECK(tj::from_data(c, shape).shape() == std::vector<int64_t>({ 2, 2 }));
	CHECK(tj::from_data(c, 4).to_vector<float>() == floats({ 1, 2, 3, 4 }));
	CHECK(tj::from_data(floats{ 5, 6 }).dtype() == TJ_F32);
	CHECK(tj::from_data({ 1.0, 2.0 }).dtype() == TJ_F64 && tj::from_data<int64_t>({ 1, 2 }).dtype() == TJ_I64);
	CHECK(tj::from_data({ true, false, true }).to_vector<bool>()[2]);
	CHECK(tj::from_data(std::vector<std::uint8_t>{ 1, 2 }).dtype() == TJ_U8 && tj::from_data<int8_t>({ -1 }).item<int>() == -1);
	CHECK(tj::from_data({ tj_to_bf16(2) }).dtype() == TJ_BF16 && tj::dtype_of<short>() == TJ_I16);
	CHECK(tj::from_data({ 7.0f }, {}).rank() == 0 && tj::from_data(floats{}).numel() == 0);
	tensor x = tj::wrap(floats{ 1, 2, 3, 4, 5, 6 }, { 2, 3 });
	CHECK(x.rank() == 2 && x.dim(-1) == 3 && x.numel() == 6 && x.device() == TJ_CPU && !x.is_poison());
	float back[6];
	x.read(back, 6);
	CHECK(back[5] == 6);
	const auto seen = x.data<float>();
	CHECK(seen.size() == 6 && seen[1] == 2 && *(seen.end() - 1) == 6);
	CHECK(tj::sum(x).item() == 21 && tj::sum(x, 0).to_vector<float>() == floats({ 5, 7, 9 }));
	CHECK(tj::sum(x, { 0, 1 }, true).rank() == 2 && tj::sum(x, 1).dim(0) == 2);
	CHECK(tj::cast<int32_t>(x).to_vector<int32_t>()[3] == 4 && tj::sum(x).item<int64_t>() == 21 && tj::sum(x).item<bool>());
	CHECK(throws(TJ_ERR_DTYPE, __LINE__, [&] { x.to_vector<double>(); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { tj::from_data({ 1.0f, 2.0f }, { 3 }); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { tj::wrap(floats{ 1 }, { 3 }); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { x.read(back, 5); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { x.item(); }));
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tensor().item(); }));
}

static void lists(tj::context &)
{
	const std::size_t n = 2;
	tensor x = tj::from_data({ 1.0f, 2.0f, 3.0f, 4.0f });
	CHECK(tj::reshape(x, { n, 2 }).dim(0) == 2 && tj::reshape(x, std::vector<int>{ 4, 1 }).rank() == 2);
	CHECK(tj::expand(1.0f, {}).rank() == 0);
	std::vector<int64_t> many(100, 1);
	CHECK(tj::split(tj::arange(TJ_F32, 0, 100), many, 0).size() == 100);
	CHECK(throws(TJ_ERR_LIMIT, __LINE__, [&] { tj::reshape(x, many); }));
	CHECK(tj::cat({ x, x }).numel() == 8 && tj::stack({ x, x, x }, 1).dim(1) == 3);
	CHECK(tj::cat(tj::unbind(tj::reshape(x, { 2, 2 }), 0)).numel() == 4 && tj::chunk(x, 2, 0).size() == 2);
	CHECK(tj::cat(std::array<tensor, 2>{ x, x }).numel() == 8);
	CHECK(tj::meshgrid({ x, x }).size() == 2 && tj::broadcast_tensors({ x, tj::reshape(x, { 4, 1 }) })[0].rank() == 2);
	CHECK(tj::unravel_index(5, { 2, 3 })[1].item() == 2 && tj::bucketize(x, tj::from_data({ 2.0f })).to_vector<int64_t>()[3] == 1);
	CHECK(tj::sum(tj::zeros_like(x) + tj::ones_like(x)).item() == 4 && tj::ravel(tj::ones(TJ_F32, { 2, 2 })).rank() == 1);
	auto [values, places] = tj::topk(x, 2);
	CHECK(values.to_vector<float>() == floats({ 4, 3 }) && places.to_vector<int64_t>()[0] == 3);
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { tj::cat({ x, tj::reshape(x, { 2, 2 }) }); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { tj::split(x, { 1, 2 }, 0); }));
}

static void operators(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f, 3.0f }), i = tj::from_data<int32_t>({ 1, 2, 3 });
	auto is = [](const tensor &t, const floats &want) { return tj::cast<float>(t).to_vector<float>() == want; };
	CHECK(is(x + x, { 2, 4, 6 }) && is(x + 1, { 2, 3, 4 }) && is(1 + x, { 2, 3, 4 }) && is(+x, { 1, 2, 3 }));
	CHECK(is(x - 0.5, { 0.5, 1.5, 2.5 }) && is(3.0f - x, { 2, 1, 0 }) && is(-x, { -1, -2, -3 }) && is(x * x, { 1, 4, 9 }));
	CHECK(is(6 / x, { 6, 3, 2 }) && is(i / 2, { 0.5, 1, 1.5 }) && (x + 1).dtype() == TJ_F32 && (i + 1L).dtype() == TJ_I32);
	CHECK(is(i << 1, { 2, 4, 6 }) && is(i >> 1, { 0, 1, 1 }) && is(i & 1, { 1, 0, 1 }) && is(i | 4, { 5, 6, 7 }) && is(i ^ i, { 0, 0, 0 }));
	CHECK(is(~i, { -2, -3, -4 }) && is(x == 2, { 0, 1, 0 }) && is(x != 2, { 1, 0, 1 }) && is(2 < x, { 0, 0, 1 }) && is(x <= 2, { 1, 1, 0 }));
	CHECK(is(x > x, { 0, 0, 0 }) && is(x >= 3, { 0, 0, 1 }) && is(tj::where(x > 1, x, 0.0f), { 0, 2, 3 }));
	tensor y = x;
	y += 1;
	y *= x;
	y -= 1.0f;
	y /= 2;
	CHECK(is(y, { 0.5, 2.5, 5.5 }) && is(x, { 1, 2, 3 }));
	tj::cell w(ctx, x);
	w += 1;
	w *= 2;
	w -= x;
	w /= 1;
	CHECK(is(w, { 3, 4, 5 }) && is(w + x, { 4, 6, 8 }) && is(2 * w, { 6, 8, 10 }));
	bool taken = false;
	if (tj::sum(x) > 5) taken = true;
	CHECK(taken && !(tj::sum(x) > 7) && (tj::sum(x) == 6 && tj::sum(x) != 7));
	CHECK(throws(TJ_ERR_SHAPE, 0, [&] { if (x > 1) taken = false; }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { x + tj::from_data({ 1.0f, 2.0f }); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { x += tj::from_data({ 1.0f, 2.0f }); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { w += tj::from_data({ 1.0f, 2.0f }); }));
	CHECK(throws(TJ_ERR_LIMIT, __LINE__, [&] { tj::exp(INT64_MAX); }));
}

static void lifetimes(tj::context &ctx)
{
	tj::kept k;
	tensor escaped;
	{
		tj::scope s;
		tensor t = tj::from_data({ 1.0f, 2.0f });
		k = tj::keep(t);
		tj::scope inner;
		escaped = inner.leave(t * 2);
	}
	CHECK(k.to_vector<float>()[1] == 2);
	CHECK(throws(TJ_ERR_DEAD, __LINE__, [&] { tj::neg(escaped); }));
	tj::kept other = std::move(k);
	CHECK(!k.get() && tj::sum(other).item() == 3);
	k = std::move(other);
	CHECK(tj::sum(k).item() == 3 && tj::sum(tensor(k)).item() == 3);
	tj::cell zeros(ctx, TJ_F64, { 2, 2 });
	CHECK(zeros.dtype() == TJ_F64 && tj::sum(zeros).item() == 0);
	zeros.write(std::vector<double>{ 1, 2, 3, 4 });
	CHECK(tj::sum(zeros).item() == 10);
	zeros.assign(1.0);
	CHECK(tj::sum(zeros).item() == 4);
	CHECK(throws(TJ_ERR_DTYPE, __LINE__, [&] { zeros.write(floats{ 1, 2, 3, 4 }); }));
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { zeros.write(std::vector<double>{ 1 }); }));
	tj::cell moved = std::move(zeros);
	CHECK(!zeros.get() && tj::sum(moved).item() == 4);
	tj::context a, b = std::move(a);
	CHECK(!a && b && tj_ctx_current() == b.get());
	ctx.use();
	static_assert(!std::is_copy_constructible_v<tj::context> && !std::is_copy_constructible_v<tj::cell>);
	static_assert(!std::is_copy_constructible_v<tj::kept> && !std::is_copy_assignable_v<tj::kept>);
	static_assert(!std::is_copy_constructible_v<tj::fn<tensor(tensor)>> && !std::is_move_constructible_v<tj::scope>);
	static_assert(std::is_trivially_copyable_v<tensor> && sizeof(tensor) == sizeof(void *));
}

static tensor plain(tensor x) { return x * 3; }
struct callable {
	float by;
	tensor operator()(const tensor &x) const noexcept { return x * by; }
};

static void functions(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f });
	auto sum = [](const tensor &t) { return tj::sum(t).item(); };
	auto one = tj::compile(ctx, [](tensor a) { return a + 1; });
	static_assert(std::is_same_v<decltype(one), tj::fn<tensor(tensor)>>);
	CHECK(sum(one(x)) == 5 && one.stats().calls == 1 && one);
	auto none = tj::compile(ctx, [] { return tj::full(TJ_F32, { 2 }, 4); });
	CHECK(sum(none()) == 8);
	auto two = tj::compile(ctx, [](tensor a, const tensor &b) { return std::array{ a + b, a - b }; });
	auto [plus, minus] = two(x, 1);
	CHECK(sum(plus) == 5 && sum(minus) == 1);
	auto pair = tj::compile(ctx, [](tensor a) { return std::make_pair(a, a * a); });
	CHECK(sum(pair(x).second) == 5);
	auto tuple = tj::compile(ctx, [](tensor a) { return std::make_tuple(a, a * 2, a * 3); });
	CHECK(sum(std::get<2>(tuple(x))) == 9);
	tj::options o;
	o.name = "any";
	o.inputs = 3;
	o.outputs = 2;
	auto any = tj::compile(ctx, [](const tj::tensors &in) { return tj::tensors{ in[0] + in[1], in[2] }; }, o);
	CHECK(sum(any({ x, x, x })[0]) == 6 && any({ x, x, x }).size() == 2);
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { any({ x, x }); }));
	o.outputs = 3;
	auto wrong = tj::compile(ctx, [](tj::tensors in) { return tj::tensors{ in[0] }; }, o);
	CHECK(throws(TJ_ERR_ARG, 0, [&] { wrong({ x, x, x }); }));
	auto scalars = tj::compile(ctx, [](tensor a, tj::real r, int n, tensor b) {
		for (int k = 0; k < n; k++) a = a * r;
		return a + b;
	});
	CHECK(sum(scalars(x, 2, 3, x)) == 27 && sum(scalars(x, 0.5, 1, x)) == 4.5 && sum(scalars(x, 3.0, 1, x)) == 12);
	CHECK(scalars.stats().recordings == 2);
	tj::cell state(ctx, x);
	auto nothing = tj::compile(ctx, [&](tensor a) { state += a; });
	nothing(x);
	nothing(x);
	CHECK(sum(state) == 9);
	CHECK(sum(tj::compile(ctx, plain)(x)) == 9 && sum(tj::compile(ctx, &plain)(x)) == 9 && sum(tj::compile(ctx, callable{ 5 })(x)) == 15);
	auto owned = tj::compile(ctx, [w = tj::cell(ctx, x)](tensor a) { return a * w; }); // a capture that only moves
	CHECK(sum(owned(x)) == 5);
	auto generic = tj::compile_as<tensor(tensor, tensor)>(ctx, [](auto a, auto b) { return a - b; });
	CHECK(sum(generic(x, 1)) == 1);
	tj::fn<tensor(tensor)> later;
	CHECK(!later);
	later = std::move(one);
	CHECK(sum(later(x)) == 5 && !one);
}

static void settings(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f });
	tj::cell w(ctx, x);
	tj::options o;
	int runs = 0, why = 0, opts = 0;
	o.name = "direct";
	o.mode = TJ_DIRECT;
	o.state = { w };
	o.more = [&](tj_compile_opts &c) { opts++, c.max_entries = 4; };
	o.on_recompile = [&](const tj_reason &r) { why += r.text != nullptr; };
	auto f = tj::compile(ctx, [&](tensor a) {
		runs++;
		return a * w;
	}, o);
	for (int i = 0; i < 5; i++) {
		CHECK(tj::sum(f(x)).item() == 5 + 3 * i);
		w += 1;
	}
	CHECK(runs == 1 && opts == 1 && why == 0);
	CHECK(tj::sum(f(tj::from_data({ 1.0, 1.0, 1.0, 1.0 }, { 2, 2 }))).item() == 26 && why > 0);
	tj::options bad;
	bad.shapes = "x: f32[";
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tj::compile(ctx, plain, bad); }));
	tj_settings s = {};
	s.products = TJ_PRODUCTS_OWN;
	ctx.set(s);
	ctx.seed(3);
	const auto a = tj::uniform(TJ_F32, { 4 }).to_vector<float>();
	ctx.seed(3);
	CHECK(a == tj::uniform(TJ_F32, { 4 }).to_vector<float>());
	ctx.sync();
	// Functions of <tj.h> on the same tensors
	CHECK(tj_item(tj_sum(x.get(), TJ_ALL, false)) == 3 && tensor(tj_neg(x.get())).to_vector<float>()[0] == -1);
	tj_neg(nullptr);
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { ctx.check(); }));
}

static void exceptions(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f });
	int kind = 0, line = 0;
	tj::cell w(ctx, x);
	auto f = tj::compile(ctx, [&](tensor a) {
		w += 1;
		if (kind == 1) throw std::runtime_error("mine");
		if (kind == 2) throw 7;
		if (kind == 3) line = __LINE__, tj::matmul(a, tj::reshape(a, { 2, 1, 1 }) + tj::full(TJ_F32, { 5 }, 1));
		return a + w;
	});
	for (int turn = 0; turn < 3; turn++) {
		std::string caught;
		kind = 1;
		try {
			f(x);
		} catch (const std::runtime_error &e) {
			caught = e.what();
		}
		CHECK(caught == "mine");
		kind = 2;
		int number = 0;
		try {
			f(x);
		} catch (int n) {
			number = n;
		}
		CHECK(number == 7);
		kind = 3;
		bool body = false;
		try {
			f(x);
		} catch (const tj::error &e) {
			body = e.line() == line && std::string(e.file()) == __FILE__ && e.op() == "matmul" && !e.message().empty();
		}
		CHECK(body && tj_check(ctx.get()) == TJ_OK);
		kind = 0;
		CHECK(tj::sum(f(x)).item() == 6 + 2 * (turn + 1) + 0.0 && tj::sum(w).item() == 3 + 2 * (turn + 1)); // failed calls commit nothing
	}
	// A call of C, which knows no exceptions, gets the error; nothing is thrown later.
	kind = 1;
	CHECK(tj_is_poison(tj_call1(f.get(), TJ_LIST(x.get()))) && tj_check(ctx.get()) == TJ_ERR_BODY);
	kind = 0;
	CHECK(tj::sum(f(x)).item() > 0);
	// Through a function in a function. An outer body that catches it goes on, and the inner call has committed nothing.
	kind = 2;
	auto outer = tj::compile(ctx, [&](tensor a) { return f(a) * 2; });
	int number = 0;
	try {
		outer(x);
	} catch (int n) {
		number = n;
	}
	CHECK(number == 7);
	auto swallows = tj::compile(ctx, [&](tensor a) {
		try {
			return f(a);
		} catch (int) {
			return a;
		}
	});
	const double w_before = tj::sum(w).item();
	CHECK(tj::sum(swallows(x)).item() == 3 && tj::sum(w).item() == w_before);
	kind = 0;
	CHECK(tj::sum(outer(x)).item() == 2 * (5 + w_before) && tj::sum(swallows(x)).item() == 7 + w_before);
	// A scope that an exception leaves is closed.
	auto scoped = tj::compile(ctx, [&](tensor a) {
		tj::scope s;
		if (kind) throw 8;
		return s.leave(a * 2);
	});
	for (kind = 1; kind >= 0; kind--) {
		try {
			CHECK(tj::sum(scoped(x)).item() == 6 && !kind);
		} catch (int n) {
			CHECK(n == 8 && kind);
		}
	}
	tj::options o;
	o.on_recompile = [](const tj_reason &) { throw 9; };
	auto tells = tj::compile(ctx, [](tensor a) { return a + 1; }, o);
	tells(x);
	number = 0;
	try {
		tells(tj::from_data({ 1.0 }, { 1, 1 }));
	} catch (int n) {
		number = n;
	}
	CHECK(number == 9 && tj::sum(tells(x)).item() == 5);
}

static void control(tj::context &ctx)
{
	tensor x = tj::from_data({ 1.0f, 2.0f, 3.0f });
	auto f = tj::compile(ctx, [](tensor a) {
		tensor b = tj::cond(tj::sum(a) > 5, [&] { return a * 2; }, [&] { return -a; });
		auto [i, y] = tj::while_loop([](tensor n, tensor) { return n < 3; },
		                             [](tensor n, tensor v) { return std::array{ n + 1, v * 2 }; }, { 0, b });
		return std::array{ b, y };
	});
	CHECK(tj::sum(f(x)[1]).item() == 96 && tj::sum(f(x * 0.5)[0]).item() == -3);
	tj::scanned s = tj::scan([](tensor carry, tensor slice) { return std::array{ carry + slice, carry * slice }; }, { 0.0f }, { x });
	CHECK(s.carry[0].item() == 6 && s.slices[0].to_vector<float>() == floats({ 0, 2, 9 }));
	CHECK(tj::vmap([](tensor v) { return v * v; }, { x }).to_vector<float>() == floats({ 1, 4, 9 }));
	auto g = tj::compile(ctx, [](tensor w, tensor b) {
		tensor h = tj::checkpoint([](tensor v) { return tj::square(v); }, { w });
		tensor y = tj::custom_grad([](tensor v) { return v * v; }, [](tensor, tensor, tensor d) { return d * 10; }, { b });
		auto [gw, gb] = tj::grads(tj::sum(h) + tj::sum(y), w, b);
		return std::array{ gw, gb, tj::jvp(tj::sum(h), { w }, { w }), tj::grad(tj::sum(h), { w })[0] };
	});
	auto r = g(x, x);
	CHECK(tj::sum(r[0]).item() == 12 && tj::sum(r[1]).item() == 30 && r[2].item() == 28 && tj::sum(r[3]).item() == 12);
	// Callbacks that do not fit, and exceptions that leave them
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tj::vmap([](tensor a, tensor b) { return a + b; }, { x }); }));
	CHECK(throws(TJ_ERR_ARG, 0, [&] { tj::while_loop([](tensor n) { return n < 3; }, [](tensor n) { return std::array{ n, n }; }, { x }); }));
	CHECK(throws(TJ_ERR_ARG, 0, [&] {
		tj::custom_grad([](tensor n) { return n; }, [](tensor n, tensor, tensor) { return std::array{ n, n }; }, { x });
	}));
	int caught = 0;
	auto h = tj::compile(ctx, [&](tensor a) { return tj::cond(tj::sum(a) > 0, [&]() -> tensor { throw 5; }, [&] { return a; }); });
	for (int i = 0; i < 2; i++) {
		try {
			h(x);
		} catch (int n) {
			caught += n;
		}
	}
	try {
		tj::vmap([](tensor a) -> tensor { throw a.rank(); }, { x });
	} catch (int n) {
		caught += n;
	}
	CHECK(caught == 10 && tj::sum(f(x)[1]).item() == 96);
}

static void exports(tj::context &ctx)
{
	const std::string file = "/tmp/tj-hpp-" + std::to_string(getpid()) + ".tjx";
	const char *path = file.c_str();
	tensor x = tj::from_data({ 1.0f, 2.0f });
	bool fail = false;
	tj::options o;
	o.shapes = "x: f32[N]; N in 1..4";
	auto f = tj::compile(ctx, [&](tensor a) {
		if (fail) throw 7;
		return a * 2 + 1;
	}, o);
	CHECK(tj::sum(f(x)).item() == 8);
	f.export_to(path);
	auto g = tj::import_as<tensor(tensor)>(ctx, path);
	CHECK(g(x).to_vector<float>() == floats({ 3, 5 }) && g(tj::from_data({ 4.0f })).item() == 9);
	CHECK(throws(TJ_ERR_SHAPE, __LINE__, [&] { g(tj::from_data(floats(5))); }));
	std::remove(path);
	CHECK(throws(TJ_ERR_IO, __LINE__, [&] { tj::import_as<tensor(tensor)>(ctx, path); }));
	fail = true;
	int number = 0;
	try {
		f.export_to(path);
	} catch (int n) {
		number = n;
	}
	CHECK(number == 7);
	fail = false;
	CHECK(throws(TJ_ERR_IO, __LINE__, [&] { f.export_to("/nowhere/at/all.tjx"); }) && tj::sum(f(x)).item() == 8);
}

static std::string bytes_of(const char *path)
{
	std::string all;
	std::FILE *f = std::fopen(path, "rb");
	for (int c; f && (c = std::getc(f)) != EOF;) all += static_cast<char>(c);
	if (f) std::fclose(f);
	return all;
}

// A function with state, whose variables the program that imports it reads and writes by their names.
static void imports(tj::context &ctx)
{
	const std::string file = "/tmp/tj-hpp-" + std::to_string(getpid()) + ".state.tjx";
	const char *path = file.c_str();
	const char *const names[] = { "sum", "w", nullptr };
	const tj_scalar scalars[] = { TJ_F(1), TJ_I(3), tj_scalar_end() };
	tensor x = tj::from_data({ 1.0f, 2.0f });
	tj::cell sum(ctx, tj::from_data({ 0.0f, 0.0f })), w(ctx, tj::from_data({ 2.0f, 3.0f }));
	tj::options o;
	o.mode = TJ_DIRECT, o.state = { sum }, o.freeze = { w };
	using body = tj::fn<std::pair<tensor, tensor>(tensor, tj::real, int)>;
	auto f = tj::compile_as<std::pair<tensor, tensor>(tensor, tj::real, int)>(ctx, [&](tensor a, tj::real r, int n) {
		sum += a * w;
		return std::make_pair(sum * r, a * n);
	}, o);
	f(x, 1, 3);
	tj_export_opts e = {};
	e.names = names, e.scalars = scalars;
	f.export_to(path, e);
	const std::string bytes = bytes_of(path);
	tj::cell later;
	{
		body g = tj::import_as<std::pair<tensor, tensor>(tensor, tj::real, int)>(ctx, path);
		auto [s, y] = g(x, 0.5, 3);
		CHECK(s.to_vector<float>() == floats({ 2, 6 }) && y.to_vector<float>() == floats({ 3, 6 })); // its state was { 2, 6 }
		tj::cell state = g.variable("sum");
		CHECK(state.to_vector<float>() == floats({ 4, 12 }) && sum.to_vector<float>() == floats({ 2, 6 }));
		state.write(floats{ 0, 0 });
		g.variable("w").write(floats{ 1, 1 });
		CHECK(g(x, 1, 3).first.to_vector<float>() == floats({ 1, 2 }));
		CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { g.variable("v"); }) && throws(TJ_ERR_ARG, __LINE__, [&] { f.variable("sum"); }));
		CHECK(throws(TJ_ERR_ARG, 0, [&] { g(x, 1, 4); }));
		later = std::move(state);
	}
	CHECK(later.to_vector<float>() == floats({ 1, 2 })); // it outlives the function
	auto h = tj::import_memory_as<tj::tensors(tj::tensors, tj::real, int)>(ctx, bytes.data(), bytes.size());
	CHECK(h({ x }, 1, 3)[0].to_vector<float>() == floats({ 4, 12 }));
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tj::import_as<tj::tensors(tensor, tensor, tj::real, int)>(ctx, path); }));
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tj::import_as<tj::tensors(tensor, tensor, tj::tensors)>(ctx, path); }));
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tj::import_as<tensor(tensor, tj::real, int)>(ctx, path); }));
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tj::import_as<tj::tensors(tensor, int, tj::real)>(ctx, path); }));
	CHECK(throws(TJ_ERR_ARG, __LINE__, [&] { tj::import_as<tj::tensors(tensor, tj::real)>(ctx, path); }));
	CHECK(throws(TJ_ERR_PARSE, __LINE__, [&] { tj::import_memory_as<tensor(tensor)>(ctx, "no file", 7); }));
	std::remove(path);
}

static void traces(tj::context &ctx)
{
	tj::cell w(ctx, tj::from_data({ 1.0f, 2.0f }));
	auto step = [&](bool leave) {
		tj::tracing t(ctx);
		tensor loss = tj::sum(tj::square(w));
		w -= 0.25 * tj::grad(loss, { w })[0];
		if (leave) throw 1;
		t.end(loss);
		return loss.item();
	};
	CHECK(step(false) == 5 && step(false) == 1.25);
	bool left = false;
	try {
		step(true);
	} catch (int) {
		left = true;
	}
	CHECK(left && tj::sum(w).item() == 0.75 && step(false) == 0.3125); // what was left has assigned nothing
}

static void threads(tj::context &ctx)
{
	tj::kept x = tj::keep(tj::from_data({ 1.0f, 2.0f }));
	auto f = tj::compile(ctx, [](tensor a, int n) {
		if (n < 0) throw n;
		return a * n;
	});
	double sums[4] = {};
	int caught[4] = {};
	std::vector<std::thread> team;
	std::vector<tj::context> contexts;
	for (int i = 0; i < 4; i++) contexts.push_back(ctx.clone());
	for (int i = 0; i < 4; i++)
		team.emplace_back([&, i] {
			contexts[static_cast<std::size_t>(i)].use();
			for (int k = 0; k < 50; k++) {
				tj::scope s;
				try {
					sums[i] += tj::sum(f(x, k % 5 == 4 ? -i - 1 : i)).item();
				} catch (int n) {
					caught[i] -= n;
				}
			}
		});
	for (auto &t : team) t.join();
	for (int i = 0; i < 4; i++) CHECK(sums[i] == 120 * i && caught[i] == 10 * (i + 1));
}

static void sites(tj::context &)
{
	CHECK(tj::caller("a.cpp", 7).site() == tj::caller("a.cpp", 7).site() && std::string(tj::caller("a.cpp", 7).site()) == "a.cpp:7");
	std::vector<std::thread> team;
	const char *got[4][500] = {};
	for (int i = 0; i < 4; i++)
		team.emplace_back([&got, i] {
			for (int k = 0; k < 500; k++) got[i][k] = tj::caller("b.cpp", k).site();
		});
	for (auto &t : team) t.join();
	bool same = true;
	for (int i = 1; i < 4; i++)
		for (int k = 0; k < 500; k++) same = same && got[i][k] == got[0][k];
	CHECK(same && std::string(got[3][499]) == "b.cpp:499");
	tj_ctx *c = tj_ctx_use(nullptr);
	CHECK(throws(TJ_ERR_STATE, __LINE__, [] { tj::full(TJ_F32, { 1 }, 1); }));
	tj_ctx_use(c);
}

#ifdef ALSO // the main() of results.cpp
int ALSO();
#else
#define ALSO() 0
#endif
int main()
{
	static const test::named list[] = {
		{ "data", data },         { "lists", lists },           { "operators", operators }, { "lifetimes", lifetimes },
		{ "functions", functions }, { "settings", settings },   { "exceptions", exceptions }, { "control", control },
		{ "exports", exports },   { "imports", imports },       { "traces", traces },         { "threads", threads },
		{ "sites", sites },
	};
	return test::run(list) | ALSO();
}
