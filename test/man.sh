#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages: mandoc finds no fault; they name functions that exist, and every environment variable that the library reads; the
# program of tjit(7) runs.   test/man.sh build-folder
set -u
build=$1 passed=0 failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for tool in scdoc mandoc; do
	command -v $tool >/dev/null && continue
	echo "SKIPPED $tool is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
done
verdict() { # name, violations ("" passes)
	if [ -z "$2" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && printf 'FAIL %s\n%s\n' "$1" "$2"; fi
}
make -s --no-print-directory BUILD="$build" man >"$tmp/said" 2>&1 || cat "$tmp/said"
for page in "$build"/man/*.[1-9]; do
	verdict "mandoc -Tlint $page" "$(mandoc -Tlint -Wwarning "$page" 2>&1)"
	mandoc -Tascii "$page" | col -b >>"$tmp/pages"
done
verdict 'functions that tj.h does not have' "$(grep -o 'tj_[a-z0-9_]*(' "$tmp/pages" | tr -d '(' | sort -u | while read -r f; do
	grep -q "\\b$f(" include/tj.h || echo "$f"
done)"
verdict 'variables that tjit(7) does not have' "$(grep -rhE '(getenv|env_[a-z]*)\([^"]*"TJ_|switches\[\] = ' --include='*.c' \
	runtime guards ir lower jit codegen_llvm codegen_cuda | grep -o '"TJ_[A-Z_]*"' | tr -d '"' | sort -u | while read -r v; do
	mandoc -Tascii "$build/man/tjit.7" | col -b | grep -q "^ *$v=" || echo "$v"
done)"
# ".nf" and ".fi" enclose the program.
sed -n '/^\.nf/,/^\.fi/p' "$build/man/tjit.7" | grep -v '^\.' | sed 's/\\&//g; s/\\\\/\\/g' >"$tmp/first.c"
verdict 'the program of tjit(7)' "$(cc -std=c11 -Wall -Wextra -Werror "$tmp/first.c" -Iinclude -L"$build" -ltj \
	-Wl,-rpath,"$(realpath "$build")" -o "$tmp/first" 2>&1 && "$tmp/first" 2>&1 | grep -vxE '[0-9.]+ [0-9.]+')"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
