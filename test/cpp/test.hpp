/* SPDX-License-Identifier: MIT */
/* The little that the tests of <tj.hpp> need: each is a function, and a CHECK() that fails says where. */
#ifndef TEST_HPP
#define TEST_HPP
#include <cstdio>
#include <tj.hpp>

namespace test {
namespace { // programs with and without exceptions, whose contexts are different types, are linked together
int failed_checks;
[[maybe_unused]] bool check(bool ok, const char *what, const char *file, int line)
{
	if (!ok) std::printf("FAIL %s:%d: %s\n", file, line, what), failed_checks++;
	return ok;
}
struct named {
	const char *name;
	void (*run)(tj::context &);
};
/// Runs each test in a context of its own, and prints the counts. What a test leaves to tj_check() is a failure.
template <std::size_t N> int run(const named (&list)[N])
{
	int failed = 0;
	for (const named &t : list) {
		const int before = failed_checks;
		{
			tj::context ctx;
			t.run(ctx);
			if (tj_check(ctx.get()) != TJ_OK) check(false, tj_last_error(ctx.get())->message, t.name, 0);
		}
		if (failed_checks != before) failed++, std::printf("FAIL %s\n", t.name);
	}
	std::printf("%d passed, %d failed, 0 skipped\n", static_cast<int>(N) - failed, failed);
	return failed != 0;
}
} // namespace
} // namespace test
#define CHECK(...) test::check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

#endif
