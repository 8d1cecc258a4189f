#!/bin/sh
# SPDX-License-Identifier: MIT
# The first program of README.md must compile as shown, without a warning, and run:  test/readme.sh build
# The lines on export are put into a program of their own: they must export and import a function.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
block() { awk -v n="$1" '/^```c$/ { p = ++k == n; next } /^```$/ { p = 0 } p' README.md; } # the n-th one of C
block 1 >"$dir/first.c"
{
	echo '#include <tj.h>'
	echo 'static void body(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_exp(in[0]); }'
	echo 'int main(void) { tj_ctx *c = tj_open(NULL); tj_tensor *out[1];'
	echo 'tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2), (float[]){ 1, 2 });'
	echo 'tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1)); tj_call(f, out, TJ_LIST(x));'
	block 2
	echo 'if (tj_call(g, out, TJ_LIST(x)) != TJ_OK) return 1;'
	echo 'return (int)(1000 * ((const float *)tj_data(out[0]))[1]) != 7389; }'
} >"$dir/second.c"
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$dir/first.c" -Iinclude -L"$1" -ltj -Wl,-rpath,"$PWD/$1" -o "$dir/first"
"$dir/first" >"$dir/out"
grep -q '3 calls, 2 hits' "$dir/out" || { cat "$dir/out"; exit 1; }
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$dir/second.c" -Iinclude -L"$1" -ltj -Wl,-rpath,"$PWD/$1" -o "$dir/second"
(cd "$dir" && ./second)
echo "2 passed, 0 failed, 0 skipped"
