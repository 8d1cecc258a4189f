#!/bin/sh
# SPDX-License-Identifier: MIT
# The first program of README.md must compile as shown, without a warning, and run:  test/readme.sh build
# The lines on export, on training and on models are put into programs of their own: they must export and import a function, train a
# network, and call a model.
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
{
	printf '#include <tjnn.h>\n#include <stdio.h>\n'
	echo 'typedef struct net { tjnn_linear up, down; } net; typedef struct train { net net; tjnn_optim *optim; } train;'
	block 3
	echo 'int main(void) { tj_ctx *c = tj_open(NULL); train t = { .optim = NULL }; double loss[20];'
	echo 'tjnn_model *m = tjnn_open(c, layers, &t.net, NULL); t.optim = tjnn_optim_open(m, tjnn_adamw(1e-3), NULL);'
	echo 'tj_fn *f = tj_compile(c, step, &t, TJ_OPTS(tj_compile_opts, .nin = 2, .nout = 1));'
	echo 'tj_tensor *x = tj_uniform(TJ_F32, TJ_SHAPE(32, 784)), *y = tj_remainder(tj_arange(TJ_I64, 0, 32, 1), tj_i(10));'
	echo 'for (int i = 0; i < 20; i++) loss[i] = tj_item(tj_call1(f, TJ_LIST(x, y)));'
	echo 'if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;'
	echo 'tjnn_close(m); tj_close(c); return !(loss[19] < loss[0] / 2); }'
} >"$dir/third.c"
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$dir/third.c" -Iinclude -L"$1" -ltjkit -ltj -Wl,-rpath,"$PWD/$1" -o "$dir/third"
"$dir/third"
{
	printf '#include <tjmodel.h>\n'
	echo 'int main(void) { tj_ctx *c = tj_open(NULL); tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2), (float[]){ 1, 2 });'
	block 4
	echo 'if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;'
	echo 'return ((const float *)tj_data(y[0]))[1] != 4; }'
} >"$dir/fourth.c"
# y = x + x, x: f32[n]
printf '\10\10::\12\24\12\1x\12\1x\22\1y\32\4/add\42\3AddZ\20\12\1x\22\13\12\11\10\1\22\5\12\3\22\1nb\20' >"$dir/net.onnx"
printf '\12\1y\22\13\12\11\10\1\22\5\12\3\22\1nB\2\20\15' >>"$dir/net.onnx"
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$dir/fourth.c" -Iinclude -L"$1" -ltjkit -ltj -Wl,-rpath,"$PWD/$1" -o "$dir/fourth"
(cd "$dir" && ./fourth)
echo "4 passed, 0 failed, 0 skipped"
