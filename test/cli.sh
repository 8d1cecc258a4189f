#!/bin/sh
# SPDX-License-Identifier: MIT
# The command tj: each subcommand, its JSON read by a parser, exit codes, no colours in a pipe, colours on a terminal, a stdout that takes
# nothing.   test/cli.sh build-folder
set -u
build=$(cd "$1" && pwd) tj=$build/tj passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ ! -x "$tj" ]; then
	echo 'SKIPPED tj is not built: jansson is missing' && echo '0 passed, 0 failed, 1 skipped'
	exit 0
fi
unset NO_COLOR TJ_LOG TJ_DUMP
verdict() { # result, name; what the command said is in $tmp/out and $tmp/err
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -20 "$tmp/out" "$tmp/err"; fi
}
skip() { echo "SKIPPED $1" && skipped=$((skipped + 1)); }
gives() { # exit code, words of the command line
	want=$1 && shift
	"$tj" "$@" >"$tmp/out" 2>"$tmp/err"
	rc=$?
	[ $rc -eq "$want" ]
	verdict $? "tj $*: exit code $rc, not $want"
}
says() { # out or err, text
	grep -qF -- "$2" "$tmp/$1"
	verdict $? "no \"$2\" in $1"
}
silent() { [ ! -s "$tmp/$1" ]; verdict $? "$2: $1 is not empty"; }
plain() { ! grep -q "$(printf '\033')" "$tmp/out" "$tmp/err"; verdict $? "$1 prints colours into a file"; }
parses() { # file
	if command -v python3 >/dev/null; then python3 -m json.tool "$1" >/dev/null 2>"$tmp/err"; else jq . "$1" >/dev/null 2>"$tmp/err"; fi
}

# ---- the frame ----
gives 2
says out 'tj help COMMAND'
gives 0 help
silent err 'tj help'
for c in info show compile convert run report cache top help; do
	says out "  $c "
	"$tj" help $c >"$tmp/help" && "$tj" $c --help >"$tmp/out" 2>"$tmp/err"
	[ $c = help ] || cmp -s "$tmp/help" "$tmp/out"
	verdict $? "tj help $c and tj $c --help differ"
	gives 0 help
done
gives 0 --help
gives 0 --version
says out "tj $(sed -n 's/^#define TJ_VERSION "\(.*\)"/\1/p' include/tj.h)"
gives 2 inof
says err 'there is no command inof; did you mean info?'
silent out 'tj inof'
gives 2 qqqqqqq
! grep -q 'did you mean' "$tmp/err"
verdict $? 'a word that is like no command has a suggestion'
gives 2 help shwo
says err 'did you mean show?'
gives 2 info --jsno
says err 'there is no option jsno; did you mean json?'
gives 2 info -x
says err 'there is no option -x'
gives 2 info --json=3
says err 'json takes no value'

# ---- info ----
gives 0 info
silent err 'tj info'
plain 'tj info'
for s in Version CPU Libraries Devices 'Settings of a new context' Environment 'LLVM  ' 'products  ' 'TJ_THREADS  '; do says out "$s"; done
gives 0 info --json
parses "$tmp/out"
verdict $? 'tj info --json does not parse'
plain 'tj info --json'
if command -v jq >/dev/null; then
	TJ_ONEDNN=off TJ_CPU=256 TJ_THREADS=3 TJ_DUMP="$(printf 'a\377')" "$tj" info --json >"$tmp/out" 2>"$tmp/err"
	jq -e '.cpu.capability != "AVX512" and .cpu.threads == 3 and .environment.TJ_CPU == "256" and .environment.TJ_LOG == null
		and .environment.TJ_DUMP == "a?" and .settings.products == "auto" and .settings.threads == 0 and (.cpu.cache | length) == 3
		and (.libraries | map(.name)) == ["LLVM", "oneDNN", "CUDA driver", "NVRTC", "cuBLASLt", "LAPACK"] and .settings.linalg != ""
		and ([.libraries[] | (.version == null) != (.why == null)] | all) and .devices[0] == {"name": "cpu", "there": true, "why": null}' \
		"$tmp/out" >/dev/null
	verdict $? 'tj info --json has other values'
else
	skip 'the values of tj info --json: jq is missing'
fi
gives 0 info cpu version
says out capability
! grep -q Libraries "$tmp/out"
verdict $? 'tj info cpu prints more'
if [ -e "$build/test/fake/libcuda.so.1" ]; then
	LD_LIBRARY_PATH=$build/test/fake "$tj" info devices >"$tmp/out" 2>"$tmp/err" &&
		grep -q 'cuda:0  *there; .* GiB of .* GiB are free' "$tmp/out"
	verdict $? 'tj info devices with a GPU'
else
	skip 'a GPU: the CUDA that computes on the CPU is not built'
fi
gives 2 info setings
says err 'there is no section setings; did you mean settings?'

# ---- show ----
cat >"$tmp/f.c" <<'END'
#include <tj.h>
static void small(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_lt(tj_sum(in[0], TJ_ALL, false), tj_f(3));
}
static void twice(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(2)); }
static void f(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_while(out, small, twice, TJ_LIST(tj_add(in[0], tj_full(TJ_F32, TJ_0D, tj_f(0.375)))), self, NULL);
}
int main(void)
{
	tj_ctx *c = tj_open(NULL);
	tj_fn *fn = tj_compile(c, f, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1));
	tj_call1(fn, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(2, 3), tj_f(1))));
	tj_dump(fn, TJ_DUMP_GRAPH, stdout);
	tj_dump(fn, TJ_DUMP_KERNELS, stdout);
	tj_explain(fn, stdout);
	tj_close(c);
	return 0;
}
END
(cd "$tmp" && cc -std=c11 f.c -I"$OLDPWD/include" -L"$build" -ltj -Wl,-rpath,"$build" -o f &&
	TJ_DUMP=dumps TJ_LOG=graph,kernels,guards ./f >dump 2>log) 2>"$tmp/err"
verdict $? 'the program that dumps'
gives 0 show "$tmp/dump"
silent err 'tj show'
plain 'tj show'
for s in '  %0  f32[2,3]  input slot=0  # f.c:10' 'while' '      cond:' '        ret %4' '  ret %' 'kernel tj_f_k0' '  dims      ' \
	'load f32 b0 [' 'guards of trace 0' '  argument 0 is f32[2,3]'; do says out "$s"; done
! grep -q '0x[0-9]' "$tmp/out"
verdict $? 'tj show prints floats in hex'
"$tj" show - <"$tmp/dump" 2>"$tmp/err" | cmp -s - "$tmp/out"
verdict $? 'tj show of stdin differs'
gives 0 show "$tmp/log"
for s in '# f/0/0' '  ret %' 'kernel tj_f_k0' 'guards of f/0'; do says out "$s"; done
gives 0 show "$tmp/dumps"
says out 'kernel tj_f_k0'
gives 0 show --json "$tmp/dump" "$tmp/log"
parses "$tmp/out"
verdict $? 'tj show --json does not parse'
if command -v jq >/dev/null; then
	jq -e 'length == 2 and ([.[0].parts[].kind] | index("graph") != null and index("kernel") != null and index("guards") != null)
		and ([.[0].parts[] | select(.kind == "graph")][0] | [.nodes[] | select(.op == "input")][0] == {"name": "%2", "op": "input",
		"type": "f32[2,3]", "args": [], "attributes": {"slot": "0"}, "site": "f.c:10"}
		and ([.nodes[] | select(.op == "while")][0].regions | keys) == ["body", "cond"]
		and (.outputs | length) == 1)' "$tmp/out" >/dev/null
	verdict $? 'tj show --json has other values'
else
	skip 'the values of tj show --json: jq is missing'
fi
gives 2 show
says err 'show needs a FILE'
gives 1 show "$tmp/nowhere"
says err 'No such file or directory'
silent out 'tj show of a file that is not there'
gives 1 show include/tj.h
says err 'no graph, kernel or guard'
gives 1 show "$build/libtj.so"
says err 'it is no text'
mkdir "$tmp/empty"
gives 1 show "$tmp/empty"
says err 'TJ_DUMP=folder makes them'

# ---- compile ----
mkdir "$tmp/models"
"$build/test/exported" write "$tmp/models" >"$tmp/out" 2>"$tmp/err"
verdict $? 'three models are exported'
gives 0 compile "$tmp/models/digits.tjx" -o "$tmp/digits.o" --header "$tmp/digits.h"
silent err 'tj compile'
says out "$tmp/digits.o: "
says out "$tmp/digits.h: "
(cd "$tmp" && printf '#include "digits.h"\nint main(void) { return digits_workspace_bytes(3) == 0; }\n' >main.c &&
	cc -std=c11 -I"$OLDPWD/include" main.c digits.o "$build/libtjrt.a" -o main && ./main) >"$tmp/out" 2>"$tmp/err"
verdict $? 'a program with the object of tj compile'
cp "$tmp/models/options.tjx" "$tmp/models/2 options.v1.tjx"
gives 0 compile "$tmp/models/2 options.v1.tjx" --output="$tmp/o.o" --json
parses "$tmp/out"
verdict $? 'tj compile --json does not parse'
says out '"name": "_2_options_v1"'
says out '"header": null'
gives 0 compile "$tmp/models/options.tjx" -o "$tmp/o.o" --header "$tmp/o.h" --name priced
grep -q 'priced_run(' "$tmp/o.h"
verdict $? 'tj compile --name'
gives 1 compile "$tmp/models/options.tjx" -o "$tmp/o.o" --name 'two words'
says err 'export_object: .name is no name in C (letters, digits and _)'
gives 1 compile "$tmp/f.c" -o "$tmp/o.o"
says err 'it is no exported function'
gives 1 compile "$tmp/nowhere.tjx" -o "$tmp/o.o"
says err 'No such file or directory'
gives 1 compile "$tmp/models/options.tjx" -o "$tmp/nowhere/o.o"
says err 'No such file or directory'
gives 2 compile "$tmp/models/options.tjx"
says err 'compile needs an output, -o FILE'
gives 2 compile -o "$tmp/o.o"
says err 'compile needs a FILE'
gives 2 compile one two -o "$tmp/o.o"
says err 'takes one FILE'

# ---- convert ----
gives 0 convert "$tmp/models/digits.tjx" "$tmp/digits.onnx"
silent err 'tj convert'
says out "$tmp/digits.onnx: "
gives 0 show "$tmp/digits.onnx"
gives 0 convert "$tmp/digits.onnx" "$tmp/weights.safetensors" --json
parses "$tmp/out"
verdict $? 'tj convert --json does not parse'
says out '"to_format": "safetensors"'
gives 0 convert "$tmp/weights.safetensors" "$tmp/weights.npz"
gives 0 convert "$tmp/weights.npz" "$tmp/weights.gguf" --type Q8_0
gives 0 convert "$tmp/weights.gguf" "$tmp/again.safetensors"
gives 0 convert "$tmp/weights.safetensors" "$tmp/half.safetensors" --type F16
[ "$(stat -c%s "$tmp/half.safetensors")" -lt "$(stat -c%s "$tmp/weights.safetensors")" ]
verdict $? 'tj convert --type F16'
gives 0 convert "$tmp/digits.onnx" "$tmp/back.tjx" --cpus ''
gives 0 show "$tmp/back.tjx"
gives 1 convert "$tmp/nowhere.tjx" "$tmp/o.onnx"
says err 'No such file or directory'
gives 1 convert "$tmp/weights.npz" "$tmp/o.npy"
says err 'a .npy has one tensor'
gives 2 convert "$tmp/weights.npz" "$tmp/o.onnx"
says err 'a .npz cannot become a .onnx'
says err '.onnx becomes .tjx .onnx .safetensors .npz .npy .gguf'
gives 2 convert "$tmp/weights.npz" "$tmp/o.txt"
says err 'its name ends in none of'
gives 2 convert "$tmp/weights.npz"
says err 'convert needs two files'
gives 2 convert "$tmp/weights.npz" "$tmp/o.npz" --type Q8_0
says err '--type Q8_0 is for .gguf'
gives 2 convert "$tmp/weights.npz" "$tmp/o.npz" --sizes 'n in 1..2'
says err '--sizes is for .onnx'

# ---- run ----
cat >"$tmp/g.c" <<'END'
#include <tj.h>
static tj_tensor *calls;
static void g(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], in[1]), tj_arg_f(0));
	out[1] = tj_cast(tj_full(TJ_F32, TJ_0D, tj_f((double)tj_arg_i(1))), TJ_I32);
	tj_assign(calls, tj_add(calls, tj_f(1)));
}
int main(void)
{
	tj_ctx *c = tj_open(NULL);
	calls = tj_param(c, TJ_F32, TJ_0D);
	tj_fn *f = tj_compile(c, g, NULL, TJ_OPTS(tj_compile_opts, .name = "g", .nin = 2, .nout = 2, .mode = TJ_DIRECT,
	                                          .shapes = "x: f32[N], _; N in 1..8", .state = TJ_VARS(&calls)));
	const float x[2] = { 1, 2 };
	tj_export(f, "g.tjx", TJ_OPTS(tj_export_opts, .inputs = TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2), x), tj_f(1)),
	                              .scalars = TJ_SCALARS(TJ_F(1), TJ_I(7)), .names = (const char *[]){ "calls", NULL }));
	const bool failed = tj_check(c) != TJ_OK;
	if (failed) tj_perror(c, stderr);
	tj_close(c);
	return failed;
}
END
(cd "$tmp" && cc -std=c11 g.c -I"$OLDPWD/include" -L"$build" -ltj -Wl,-rpath,"$build" -o g && ./g) >"$tmp/out" 2>"$tmp/err"
verdict $? 'the program that exports'
npy() { # type, shape; the elements come from stdin
	printf "\\223NUMPY\\1\\0\\166\\0%-117s\\n" "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }" && cat
}
printf '\0\0\200?\0\0\0@\0\0@@' | npy '<f4' 3, >"$tmp/x.npy"    # 1 2 3
printf '\0\0@@\0\0\240@\0\0\340@' | npy '<f4' 3, >"$tmp/y.npy" # 3 5 7: 2 * x + 1
printf '\7\0\0\0' | npy '<i4' '' >"$tmp/seven.npy"
g=$tmp/g.tjx x=$tmp/x.npy
npy_of() { tail -c "+$((10 + $(od -An -tu1 -j8 -N1 "$1")))" "$1"; } # from the end of the header on
same() { npy_of "$1" | cmp -s - "$tmp/want"; verdict $? "$1 has other elements"; }
gives 0 run "$g" -i "$x" -i 2 --scalar 1 --scalar 7 -o "$tmp/o0.npy" -o "$tmp/o1.npy" --save-state "calls=$tmp/calls.npy"
silent err 'tj run'
plain 'tj run'
says out '  out0                       f32[3] '
says out '  out1                       i32[] '
says out '  calls                      f32[] '
npy_of "$tmp/y.npy" >"$tmp/want" && same "$tmp/o0.npy"
npy_of "$tmp/seven.npy" >"$tmp/want" && same "$tmp/o1.npy"
printf '\n\0\0\200?' >"$tmp/want" && same "$tmp/calls.npy"
gives 0 run "$g" -i in1=2 -i "0=$x" --scalar 1 --scalar 7 -o "out1=$tmp/o1.npy" --time 20 --save-state "calls=$tmp/calls.npy" --json
parses "$tmp/out"
verdict $? 'tj run --json does not parse'
for s in '"calls": 20' '"best_us": ' '"type": "f32[3]"' '"file": null'; do says out "$s"; done
same "$tmp/calls.npy" # of the first call
gives 0 run "$g" -i "$x" -i 2 --scalar 1 --scalar 7 --time 5
says out ' us of 5 calls'
"$tj" run "$g" -i - -i 2 --scalar 1 --scalar 7 -o - <"$x" >"$tmp/piped.npy" 2>"$tmp/err"
npy_of "$tmp/y.npy" >"$tmp/want" && same "$tmp/piped.npy"
args="-i $x -i 2 --scalar 1 --scalar 7"
for n in 2 3; do # the state goes on from call to call
	gives 0 run "$g" $args -s "calls=$tmp/calls.npy" -S "calls=$tmp/calls.npy" --time 3
	if [ $n = 2 ]; then printf '\n\0\0\0@'; else printf '\n\0\0@@'; fi >"$tmp/want"
	same "$tmp/calls.npy"
done
# a model: y = x + x
printf '\10\10::\12\24\12\1x\12\1x\22\1y\32\4/add\42\3AddZ\20\12\1x\22\13\12\11\10\1\22\5\12\3\22\1nb\20' >"$tmp/m.onnx"
printf '\12\1y\22\13\12\11\10\1\22\5\12\3\22\1nB\2\20\15' >>"$tmp/m.onnx"
gives 0 show "$tmp/m.onnx"
says out '  model                      opset 13, IR version 8'
! grep -q ', by' "$tmp/out"
verdict $? 'a producer without a name is printed'
says out '  input x                    f32[n]'
says out '    Add                      1'
gives 0 show --json "$tmp/m.onnx"
parses "$tmp/out"
verdict $? 'tj show --json of a model does not parse'
gives 0 run "$tmp/m.onnx" -i "x=$x" -o "y=$tmp/m.npy" --time 3 --profile --timeline "$tmp/m.json"
says out '  y                          f32[3] '
says out ' us of 3 calls'
says out 'm.onnx:/add (Add) '
says out 'work of the host'
parses "$tmp/m.json"
verdict $? 'the timeline does not parse'
printf '\n\0\0\0@\0\0\200@\0\0\300@' >"$tmp/want" && same "$tmp/m.npy" # 2 4 6
gives 0 run "$tmp/m.onnx" -i "x=$x" --quantise i4:64 # which has no weight
says out '  quantised                  0 weights, 0.0 KiB instead of 0.0'
says out '  y                          largest 0, mean 0, relative 0, cosine 1.000000, same largest element in 100.00 % of 1 row'
gives 0 run "$tmp/m.onnx" -i "x=$x" --quantise dynamic --json
parses "$tmp/out"
verdict $? 'tj run --quantise --json does not parse'
says out '"loss": "largest 0,'
gives 2 run "$tmp/m.onnx" -i "x=$x" --quantise i5
says err 'i5 is none of dynamic, i8, i4, i8:GROUP and i4:GROUP'
gives 2 run "$tmp/m.onnx" -i "x=$x" --quantise dynamic:32
gives 2 run "$g" $args --quantise i8
says err '--quantise is for models, *.onnx'
gives 2 run "$tmp/m.onnx" -i "z=$x"
says err 'z is none of in0 to in0, nor a name that tj show lists'
gives 2 run "$tmp/m.onnx"
says err 'argument 0, f32[n], is missing: -i 0=FILE'
sed 's/Add/Foo/' "$tmp/m.onnx" >"$tmp/foo.onnx"
gives 1 show "$tmp/foo.onnx"
says err 'node /add (Foo, opset 13): the op is not supported'
"$tj" run "$g" $args --state calls=- -S calls=- <"$tmp/calls.npy" >"$tmp/piped.npy" 2>"$tmp/err"
printf '\n\0\0\200@' >"$tmp/want" && same "$tmp/piped.npy"
gives 1 run "$g" $args -s "calls=$x"
says err 'x.npy is f32[3], and calls is f32[]'
gives 1 run "$g" $args -s "calls=$tmp/seven.npy"
says err 'seven.npy is i32[], and calls is f32[]'
gives 1 run "$g" $args -s "calls=$tmp/nowhere.npy"
says err 'nowhere.npy: No such file or directory'
gives 0 run "$tmp/models/options.tjx" -i "$x" -i "$x" -i "$x"
TJ_BACKEND=llvm TJ_CPU=128 "$tj" run "$tmp/models/options.tjx" -i "$x" -i "$x" -i "$x" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] && grep -qF 'import it with .recompile' "$tmp/err"
verdict $? 'tj run without code for this CPU'
TJ_BACKEND=llvm TJ_CPU=128 "$tj" run "$tmp/models/options.tjx" -i "$x" -i "$x" -i "$x" --recompile >"$tmp/out" 2>"$tmp/err"
verdict $? 'tj run --recompile'
gives 1 run "$tmp/models/options.tjx" -i "$x" -i "$x" -i "$tmp/seven.npy"
says err 'call: argument 2 is i32, not f32 ('
gives 1 run "$tmp/models/options.tjx" -i "$x" -i "$x" -i "$tmp/calls.npy"
says err 'call: argument 2 has 0 dimensions, not 1 ('
gives 1 run "$tmp/models/options.tjx" -i "$x" -i "$x" -i "$tmp/nowhere.npy"
says err 'nowhere.npy: No such file or directory'
gives 1 run "$tmp/models/options.tjx" -i "$x" -i "$x" -i "$g"
says err 'it is no .npy file'
gives 1 run "$tmp/f.c"
says err 'import: it is no exported function'
gives 1 run "$g" -i "$x" -i 2 --scalar 1 --scalar 7 -o "$tmp/nowhere/o.npy"
says err 'o.npy: No such file or directory'
fails() { # what it says, words behind "run g.tjx"
	text=$1 && shift
	gives 2 run "$g" "$@"
	says err "$text"
	silent out 'a tj run that is wrong'
}
fails 'argument 1, float, is missing: -i 1=NUMBER' -i "$x"
fails 'argument 0, f32[N], is missing: -i 0=FILE' -i 1=2
fails 'in2 is none of in0 to in1' -i "in2=$x"
fails 'x is none of in0 to in1; a file with this name is ./x=x.npy' -i x=x.npy
fails 'in0 has two files' -i "$x" -i "0=$x"
fails 'the function has only 2 of them' -i "$x" -i 2 -i 3
fails 'the function has only 2 of them' -o a -o b -o c
fails '2x is no number' -i "$x" -i 2x
fails '7.5 is no integer' -i "$x" -i 2 --scalar 1 --scalar 7.5
fails 'the function takes 2 scalars, and 1 are given' -i "$x" -i 2 --scalar 1
fails 'the function takes 2 scalars, and 3 are given' -i "$x" -i 2 --scalar 1 --scalar 7 --scalar 8
fails 'there is no variable cals; did you mean calls?' -i "$x" -i 2 --save-state cals=a.npy
fails 'there is no variable cals; did you mean calls?' -i "$x" -i 2 -s cals=a.npy
fails 'x.npy has no form NAME=FILE' -i "$x" -i 2 -s x.npy
fails 'calls has no form NAME=FILE' -i "$x" -i 2 --save-state calls
fails 'time is 1 to' -i "$x" -i 2 --time 0
fails 'stdout gets an array' -i "$x" -i 2 -o 0=- --json
fails 'run takes one FILE' another
gives 2 run
says err 'run needs a FILE'
gives 1 run "$g" -i "$x" -i 2 --scalar 1 --scalar 8
says err 'scalar 1 was the int 7 when it was exported, and is another one (an int keeps its value'

# ---- show, of an exported function ----
gives 0 show "$g"
silent err 'tj show g.tjx'
plain 'tj show g.tjx'
for s in 'function g' '  size N                     1..8' '  argument 0                 f32[N]' '  argument 1                 float' \
	'  scalar 1                   int 7' '  result 0                   f32[N]' '  result 1                   i32[]' \
	'  state calls                f32[], 4 bytes' ' kernels, ' \
	'  code for 512 bits          ' ', by tjit ' '  0 ' '  number 2 float 401c000000000000 7' '  return '; do says out "$s"; done
! grep -q '  variable ' "$tmp/out"
verdict $? 'tj show prints the head of the program'
gives 0 show --json "$g" "$tmp/dump"
parses "$tmp/out"
verdict $? 'tj show --json of an exported function does not parse'
if command -v jq >/dev/null; then
	jq -e 'length == 2 and (.[0].parts[0] | .kind == "export" and .function == {"name": "g", "results": 2} and .made_by.this_build
		and .sizes == [{"name": "N", "range": "1..8"}] and .arguments == ["f32[N]", "float"] and .scalars == ["float", "int 7"]
		and .results == ["f32[N]", "i32[]"]
		and .variables == [{"kind": "state", "name": "calls", "type": "f32[]", "bytes": 4}] and (.cpus | length) == 2
		and .program.events > 2 and (.program.text | contains("\nreturn")))' "$tmp/out" >/dev/null
	verdict $? 'tj show --json of an exported function has other values'
else
	skip 'the values of tj show --json: jq is missing'
fi
head -c 1000 "$g" >"$tmp/cut.tjx"
gives 1 show "$tmp/cut.tjx"
says err 'import: the file is damaged: its checksum differs (tj_export() writes such files)'
silent out 'tj show of a damaged file'

# ---- cache ----
gives 0 cache -f "$tmp/cache"
says out 'entries                    0, 0 bytes of at most '
(cd "$tmp" && TJ_BACKEND=llvm TJ_CACHE="$tmp/cache" ./f >/dev/null 2>"$tmp/err")
n=$(find "$tmp/cache" -name '*.code' | wc -l)
[ "$n" -gt 1 ]
verdict $? "$n kernels were kept"
gives 0 cache --folder="$tmp/cache"
says out "entries                    $n, "
gives 0 info cache
gives 0 cache ls -f "$tmp/cache"
says out ' x86-64-v'
plain 'tj cache ls'
gives 0 cache verify -f "$tmp/cache"
says out "$n whole, 0 of other builds, 0 damaged"
gives 0 cache ls --json -f "$tmp/cache"
parses "$tmp/out"
verdict $? 'tj cache ls --json does not parse'
if command -v jq >/dev/null; then
	jq -e --argjson n "$n" '.entries == $n and (.list | length) == $n and ([.list[] | .kind == "code" and .miss == null] | all)
		and (.list[0].about | contains("kernel")) and ([.list[].bytes] | add) == .bytes' "$tmp/out" >/dev/null
	verdict $? 'tj cache ls --json has other values'
else
	skip 'the values of tj cache ls --json: jq is missing'
fi
one=$(find "$tmp/cache" -name '*.code' | head -1)
head -c 100 "$one" >"$tmp/part" && cat "$tmp/part" >"$one"
gives 1 cache verify -f "$tmp/cache"
says out "$((n - 1)) whole, 0 of other builds, 1 damaged"
says out 'the file is'
gives 0 cache clear -f "$tmp/cache"
says out "removed $n entries"
[ "$(find "$tmp/cache" -name '*.code' | wc -l)" -eq 0 ]
verdict $? 'tj cache clear leaves entries'
gives 0 cache -f off
says out 'none: the cache is off'
gives 1 cache clear -f off
says err 'the disk cache is off'
gives 2 cache stast
says err 'there is no action stast; did you mean stats?'
gives 0 cache stats -f off
says out 'none: the cache is off'
gives 2 cache -f
says err 'folder needs a FOLDER behind it'

# ---- stdout ----
"$tj" info cpu 2>"$tmp/err" | head -1 >"$tmp/out" && [ ! -s "$tmp/err" ]
verdict $? 'tj info | head -1 complains'
"$tj" help >/dev/full 2>"$tmp/err"
[ $? -eq 1 ] && grep -q 'could not be written: No space left on device' "$tmp/err"
verdict $? 'tj help >/dev/full'
"$tj" info --json >/dev/full 2>"$tmp/err"
[ $? -eq 1 ] && grep -q 'could not be written: No space left on device' "$tmp/err"
verdict $? 'tj info --json >/dev/full'
"$tj" help >&- 2>"$tmp/err"
[ $? -eq 1 ] && grep -q 'could not be written' "$tmp/err"
verdict $? 'tj help with a closed stdout'
"$tj" inof >&- 2>&- <&-
[ $? -eq 2 ]
verdict $? 'tj inof without stdin, stdout and stderr'

# ---- a terminal ----
if command -v script >/dev/null; then
	on_terminal() { env TERM=xterm "$@" script -qec "$tj info cpu" /dev/null >"$tmp/out" 2>"$tmp/err" </dev/null; }
	on_terminal env && grep -q "$(printf '\033\[1m')CPU" "$tmp/out"
	verdict $? 'no colours on a terminal'
	on_terminal NO_COLOR=1 && grep -q CPU "$tmp/out" && ! grep -q "$(printf '\033\[1m')" "$tmp/out"
	verdict $? 'colours in spite of NO_COLOR'
	on_terminal TERM=dumb && grep -q CPU "$tmp/out" && ! grep -q "$(printf '\033\[1m')" "$tmp/out"
	verdict $? 'colours on a dumb terminal'
	env TERM=xterm script -qec "$tj info libraries" /dev/null >"$tmp/out" 2>"$tmp/err" </dev/null
	grep -q 'opening libraries' "$tmp/out"
	verdict $? 'no progress on a terminal'
else
	skip 'a terminal: script is missing'
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
