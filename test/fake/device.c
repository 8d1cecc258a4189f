/* SPDX-License-Identifier: MIT */
/* device: the part of every object of the fake NVRTC that is compiled once. The compiler reports each access to memory here, because
 * the programs are compiled for the thread sanitizer, whose functions these are; and what C++ leaves undefined, likewise. */
#include "test/fake/fake.h"

#define OWN __attribute__((visibility("default")))
OWN struct fake_place fake_place;
OWN struct fake_hooks fake_hooks;
OWN __attribute__((aligned(128))) char tj_shared[(228 << 10) + 64];

/* Most accesses are to local variables, or read the thread's place. */
static inline void use(const void *p, size_t bytes, int writes)
{
	if ((size_t)((const char *)p - fake_place.stack) >= FAKE_STACK &&
	    (writes || (size_t)((const char *)p - (const char *)&fake_place) >= sizeof fake_place))
		fake_hooks.access(p, bytes, writes);
}

#define ACCESS(bytes)                                                                                                                   \
	OWN void __tsan_read##bytes(void *p);                                                                                               \
	OWN void __tsan_write##bytes(void *p);                                                                                              \
	void __tsan_read##bytes(void *p) { use(p, bytes, 0); }                                                                \
	void __tsan_write##bytes(void *p) { use(p, bytes, 1); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
#undef ACCESS
OWN void __tsan_read_range(void *p, size_t bytes);
OWN void __tsan_write_range(void *p, size_t bytes);
OWN void __tsan_init(void);
void __tsan_read_range(void *p, size_t bytes) { use(p, bytes, 0); }
void __tsan_write_range(void *p, size_t bytes) { use(p, bytes, 1); }
void __tsan_init(void) {}

struct where { const char *file; unsigned line, column; };
#define UNDEFINED(name, what)                                                                                                           \
	OWN void __ubsan_handle_##name##_abort(struct where *at);                                                                           \
	void __ubsan_handle_##name##_abort(struct where *at) { fake_hooks.undefined(what, at->line); }
UNDEFINED(shift_out_of_bounds, "a shift by more than the width, or by less than 0")
UNDEFINED(add_overflow, "an addition overflows")
UNDEFINED(sub_overflow, "a subtraction overflows")
UNDEFINED(mul_overflow, "a product overflows")
UNDEFINED(negate_overflow, "a negation overflows")
UNDEFINED(divrem_overflow, "a division by 0, or of the least integer by -1")
UNDEFINED(out_of_bounds, "an index beyond an array")
UNDEFINED(float_cast_overflow, "a float beyond the range of an integer is converted")
