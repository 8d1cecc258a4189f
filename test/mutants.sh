#!/bin/sh
# SPDX-License-Identifier: MIT
# Applies each bug of test/mutants/*.patch to a copy of the tree, and runs programs of `make test` until one fails.
#   test/mutants.sh build-folder [regex]
# The first line of a patch describes the bug. test/mutants/finders.txt says which program finds which bug: that one is tried first, then
# FINDERS in their order; only the program that is tried is built. Fails when no program finds a bug, or when a patch does not apply or does
# not build. Prints a line `name finder seconds what`; the lines of the table that are new are printed at the end.
set -u
cd "$(dirname "$0")/.." || exit 2
build=$1 regex=${2:-.} found=0 missed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 2' INT TERM
tree=$tmp/tree log=$tmp/log
mkdir "$tree"
tar -cf - --exclude=./.git --exclude="./$build-*" . | tar -xf - -C "$tree" || exit 2
: >"$tmp/new"

target() { # the file to build for a program
	case $1 in
	test_*) echo "$build/test/unit/$1" ;;
	kit_test_*) echo "$build/test/kit/${1#kit_}" ;;
	goldens) echo "$build/tjc" ;;
	examples) for e in examples/*.c; do echo "$build/${e%.c}"; done ;;
	products_*) echo "$build/test/products" ;;
	hpp | install) echo lib ;;
	tools_gdb) echo "$build/test/seen" ;;
	ulp_more_few) echo "$build/test/ulp_more" ;;
	ulp_few | stress_few) echo "$build/test/${1%_few}" ;;
	matrix_*) echo "$build/test/matrix" ;;
	fuzz_*) echo "$build/test/fuzz" ;;
	*) echo test-build ;;
	esac
}

# Sets by to the program that finds the bug of the tree, or to what went wrong.
search() { # name of the bug
	by='FAIL not found'
	for f in $(sed -n "s/^$1 //p" test/mutants/finders.txt) ${FINDERS:-}; do
		if ! make -C "$tree" -s -j2 BUILD="$build" "$build/libtj-llvm.so" "$build/libtj.so" $(target "$f") >"$log" 2>&1; then
			by='FAIL does not build'
			return
		fi
		(cd "$tree" && BUILD="$build" test/run.sh -x -t 180 -o "$f" t) >"$log" 2>&1
		if grep -q ' FAILED ' "$log"; then
			by=$f
			return
		fi
	done
}

one() { # patch
	name=$(basename "$1" .patch) start=$(date +%s)
	tar -cf "$tmp/clean" -C "$tree" $(sed -n 's|^+++ b/||p' "$1") || exit 2
	if patch -d "$tree" -p1 -s -f -F0 <"$1" >"$log" 2>&1; then search "$name"; else by='FAIL does not apply'; fi
	case $by in
	FAIL*) missed=$((missed + 1)) && tail -20 "$log" ;;
	*) found=$((found + 1)) && { grep -qx "$name $by" test/mutants/finders.txt || echo "$name $by" >>"$tmp/new"; } ;;
	esac
	rm -rf "$tree/test/fuzz-found" # else the goldens would report failures of this bug for the next one
	printf '%-22s %-20s %4s s  %s\n' "$name" "$by" $(($(date +%s) - start)) "$(head -1 "$1")"
	tar -xmf "$tmp/clean" -C "$tree" # not patch -R: a patch without context may change another line
}

for p in "$tree"/test/mutants/*.patch; do # the patches of the copy: the tree may change meanwhile
	basename "$p" | grep -qE "$regex" || continue
	one "$p"
done
[ ! -s "$tmp/new" ] || sed 's/^/new in finders.txt: /' "$tmp/new"
echo "$found passed, $missed failed, 0 skipped"
[ $missed -eq 0 ] && [ $found -gt 0 ]
