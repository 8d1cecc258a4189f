/* SPDX-License-Identifier: MIT */
/* C++: a small network learns which arm of a double spiral a point is on. Layers and the optimiser are classes; forward, gradients and Adam
 * are one lambda, which is compiled and then skipped (direct mode). */
#include <cmath>
#include <cstdio>
#include <tj.hpp>

using tj::tensor;

/* x W + b: two cells, which live as long as the layer. */
struct linear {
	tj::cell w, b;
	linear(const tj::context &c, int64_t in, int64_t out)
		: w(c, tj::normal(TJ_F32, { in, out }) * (1 / std::sqrt(static_cast<double>(in)))), b(c, TJ_F32, { out })
	{
	}
	tensor operator()(tensor x) const { return tj::matmul(x, w) + b; }
};

struct network {
	linear first, second, last;
	explicit network(const tj::context &c) : first(c, 2, 32), second(c, 32, 32), last(c, 32, 2) {}
	tensor operator()(tensor x) const { return last(tj::tanh(second(tj::tanh(first(x))))); }
	std::vector<tj::cell *> cells() { return { &first.w, &first.b, &second.w, &second.b, &last.w, &last.b }; }
};

/* Adam for a list of cells. */
class adam {
	std::vector<tj::cell *> list_;
	std::vector<tj::cell> mean_, square_;
	tj::cell step_;

public:
	adam(const tj::context &c, std::vector<tj::cell *> list) : list_(std::move(list)), step_(c, TJ_F32, {})
	{
		for (const tj::cell *p : list_) {
			mean_.emplace_back(c, p->dtype(), p->shape());
			square_.emplace_back(c, p->dtype(), p->shape());
		}
	}
	void update(tensor loss, tensor rate)
	{
		tj::tensors by;
		for (const tj::cell *p : list_) by.push_back(*p);
		const tj::tensors g = tj::grad(loss, by);
		step_ += 1;
		tensor scale = rate * tj::sqrt(1 - tj::pow(0.999, step_)) / (1 - tj::pow(0.9, step_));
		for (std::size_t i = 0; i < g.size(); i++) {
			mean_[i].assign(0.9 * mean_[i] + 0.1 * g[i]);
			square_[i].assign(0.999 * square_[i] + 0.001 * tj::square(g[i]));
			*list_[i] -= scale * mean_[i] / (tj::sqrt(square_[i]) + 1e-8);
		}
	}
	/* All cells that a step uses, for a function in direct mode. */
	tj::declared state() const
	{
		tj::declared d;
		for (const tj::cell *p : list_) d.add(*p);
		for (const tj::cell &m : mean_) d.add(m);
		for (const tj::cell &s : square_) d.add(s);
		d.add(step_);
		return d;
	}
};

/* n points on each of two arms, as [2 n, 2], and the number of their arm. */
static std::pair<std::vector<float>, std::vector<int64_t>> spiral(int n)
{
	std::vector<float> points;
	std::vector<int64_t> arm;
	for (int i = 0; i < 2 * n; i++) {
		const double t = (0.25 + 2.5 * (i / 2) / n) * 3.14159265358979, sign = i % 2 ? -1 : 1;
		points.push_back(static_cast<float>(sign * t * std::cos(t) / 8));
		points.push_back(static_cast<float>(sign * t * std::sin(t) / 8));
		arm.push_back(i % 2);
	}
	return { points, arm };
}

int main()
{
	try {
		tj::context ctx;
		ctx.seed(1);
		const auto [points, arms] = spiral(200);
		tensor x = tj::from_data(points, { 400, 2 }), y = tj::from_data(arms);
		network net(ctx);
		adam optimiser(ctx, net.cells());

		tj::options o;
		o.name = "step";
		o.mode = TJ_DIRECT;
		o.state = optimiser.state();
		auto step = tj::compile(ctx, [&](tensor in, tensor target, tj::real rate) {
			tensor loss = tj::cross_entropy_loss(net(in), target);
			optimiser.update(loss, rate);
			return loss;
		}, o);
		auto accuracy = tj::compile(ctx, [&](tensor in, tensor target) {
			return tj::mean(tj::cast<float>(tj::argmax(net(in), 1) == target));
		});

		for (int i = 0; i <= 600; i++) {
			tj::scope turn;
			const double loss = step(x, y, 0.01).item();
			if (i % 150 == 0) std::printf("step %3d  loss %.4f  right %.1f %%\n", i, loss, 100 * accuracy(x, y).item());
		}
		const tj_stats s = step.stats();
		std::printf("%d calls, %d of them skipped the body\n", static_cast<int>(s.calls), static_cast<int>(s.direct));

		try {
			step(y, x, 0.01); // in the wrong order
		} catch (const tj::error &e) {
			std::printf("line %d of this program: %s: %s\n", e.line(), e.op().c_str(), e.message().c_str());
		}
	} catch (const tj::error &e) {
		std::fprintf(stderr, "%s\n", e.what());
		return 1;
	}
	return 0;
}
