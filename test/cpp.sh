#!/bin/sh
# SPDX-License-Identifier: MIT
# <tj.hpp>: its tests as C++17 and C++20 by gcc and clang, with exceptions and without, and with sanitizers; what must not compile; the
# programs of docs/CPP.md; that it has every function of <tj.h>.   test/cpp.sh [-q] build-folder
# -q: only one compiler and one C++, and no page.
set -u
quick=
[ "$1" = -q ] && quick=1 && shift
build=$(realpath "$1") passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
strict='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor -Werror -Iinclude'
link="-L$build -ltj -pthread -Wl,-rpath,$build"

verdict() { # result, name; what the command said is in $tmp/said
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -20 "$tmp/said"; fi
}
program() { # name, sources and flags: builds and runs it, and adds its counts up
	name=$1
	shift
	if ! $compiler $strict "$@" $link -o "$tmp/program" >"$tmp/said" 2>&1; then
		verdict 1 "$name: it does not compile"
		return
	fi
	"$tmp/program" >"$tmp/said" 2>&1
	rc=$?
	set -- $(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p' "$tmp/said" | awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
	passed=$((passed + $1)) failed=$((failed + $2))
	[ $rc -eq 0 ] && [ "$1" -gt 0 ] && return
	[ "$2" -gt 0 ] || failed=$((failed + 1))
	echo "FAIL $name (exit status $rc)" && tail -30 "$tmp/said"
}

compilers='g++ clang++' standards='c++17 c++20'
[ -n "$quick" ] && compilers=${CXX:-g++} standards=c++17
for compiler in $compilers; do
	if ! command -v "$compiler" >/dev/null; then
		echo "SKIPPED $compiler is not installed"
		skipped=$((skipped + 45))
		continue
	fi
	for std in $standards; do
		program "$compiler -std=$std" -std=$std test/cpp/throwing.cpp
		program "$compiler -std=$std -fno-exceptions" -std=$std -fno-exceptions -O1 test/cpp/results.cpp
	done
	[ -n "$quick" ] && continue
	# Both in one program
	$compiler -std=c++17 -Iinclude -Dmain=results -c test/cpp/results.cpp -o "$tmp/results.o" 2>"$tmp/said"
	program "$compiler, both modes in one program" -std=c++17 -DALSO=results test/cpp/throwing.cpp "$tmp/results.o"
	[ $compiler = clang++ ] && continue
	for source in throwing results; do
		program "$compiler -fsanitize=address,undefined $source" -std=c++17 -g -fsanitize=address,undefined \
			-fno-sanitize-recover=undefined test/cpp/$source.cpp
	done
done
compiler=${CXX:-g++}
if ! command -v "$compiler" >/dev/null; then
	echo "SKIPPED $compiler is not installed"
	echo "$passed passed, $failed failed, $((skipped + 7)) skipped"
	exit $((failed > 0))
fi

refused() { # what the compiler says, a function body that it refuses
	printf '#include <tj.hpp>\n#include <string>\nvoid f(tj::context &c, tj::tensor x) { (void)c, (void)x; %s }\n' "$2" >"$tmp/bad.cpp"
	! $compiler -std=c++17 -Iinclude -fsyntax-only "$tmp/bad.cpp" >"$tmp/said" 2>&1 && grep -q "$1" "$tmp/said"
	verdict $? "it compiles, or the message is not \"$1\": $2"
}
# What must not compile; each program of docs/CPP.md, the body of a main(), prints the text that follows it.
if [ -z "$quick" ]; then
	refused 'no dtype for this type' 'tj::from_data({ 1u, 2u });'
	refused 'a parameter of a body is' 'tj::compile(c, [](tj::tensor a, float b) { return a * b; });'
	refused 'a body returns' 'tj::compile(c, [](tj::tensor) { return std::string(); });'
	refused 'a callback has no numbers' 'tj::vmap([](tj::tensor a, int n) { return a * n; }, { x });'
	refused 'deleted function' 'tj::cell w(c, x), v(w);'
	refused 'no match for' 'x % 2;'
	awk -v dir="$tmp" '
		/^```cpp$/ { file = dir "/page" ++n ".cpp"; getline; if (/NO_EXCEPTIONS/) print "#define TJ_HPP_NO_EXCEPTIONS" >file
			print "#include <cstdio>\n#include <stdexcept>\n#include <tj.hpp>\nint main()\n{" >file; code = 1 }
		/^```text$/ { file = dir "/page" n ".want"; text = 1; next }
		/^```$/ { if (code) print "}" >file; code = text = 0 }
		code || text { print >file }' docs/CPP.md
	for page in "$tmp"/page*.cpp; do
		$compiler -std=c++17 -Wall -Wextra -Werror -Iinclude "$page" $link -o "$tmp/program" >"$tmp/said" 2>&1 &&
			(cd "$tmp" && ./program) >"$tmp/out" 2>&1 && diff "${page%.cpp}.want" "$tmp/out" >"$tmp/said"
		verdict $? "$(basename "$page") of docs/CPP.md:"
	done
fi

# Those that give no tensor are not asked for, and those on a device: x.to() does it
other='full_on arange_on eye_on uniform_on normal_on'
for name in $(sed -n '/^\/\* >>> ops/,$s/^#define tj_\([a-z0-9_]*\)(.*/\1/p' include/tj.h); do
	grep -q "^TJ_API [a-z_]* tj_${name}_at(" include/tj.h && continue
	grep -q "^\(inline\|template\).* $name(" include/tj.hpp || echo " $other " | grep -q " $name " || echo "tj::$name() is not there"
done >"$tmp/said"
[ ! -s "$tmp/said" ]
verdict $? 'functions of <tj.h> are missing in <tj.hpp>:'
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
