#!/bin/sh
# SPDX-License-Identifier: MIT
# Applies each bug of test/mutants/*.patch to a copy of the tree, and runs the tests until one fails.
#   test/mutants.sh build-folder [regex]
# The first line of a patch describes the bug. Fails when the tests do not find a bug, or when a patch does not apply or does
# not build. The build is copied, too, so that only files that depend on the patch are built again.
set -u
cd "$(dirname "$0")/.." || exit 2
build=$1 regex=${2:-.} found=0 missed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 2' INT TERM
tree=$tmp/tree log=$tmp/log
mkdir "$tree"
tar -cf - --exclude=./.git --exclude="./$build-*" . | tar -xf - -C "$tree" || exit 2

# Prints the program that failed, from the log of run.sh.
finder() { awk '/^\[ *[0-9]+\/[0-9]+\] FAILED/ { print $(NF - 3); exit }' "$log"; }

one() { # patch
	name=$(basename "$1" .patch) start=$(date +%s) by=
	tar -cf "$tmp/clean" -C "$tree" $(sed -n 's|^+++ b/||p' "$1") || exit 2
	if ! patch -d "$tree" -p1 -s -f -F0 <"$1" >"$log" 2>&1; then
		by='FAIL does not apply'
	elif ! make -C "$tree" -s -j2 BUILD="$build" test-build >"$log" 2>&1; then
		by='FAIL does not build'
	elif make -C "$tree" -s BUILD="$build" find-bug >"$log" 2>&1; then
		by='FAIL not found'
	fi
	case $by in
	'') found=$((found + 1)) && by=$(finder) ;;
	*) missed=$((missed + 1)) && tail -20 "$log" ;;
	esac
	rm -rf "$tree/test/fuzz-found" # else the goldens would report failures of this bug for the next one
	printf '%-22s %-20s %4s s  %s\n' "$name" "$by" $(($(date +%s) - start)) "$(head -1 "$1")"
	tar -xmf "$tmp/clean" -C "$tree" # not patch -R: a patch without context may change another line
}

for p in "$tree"/test/mutants/*.patch; do # the patches of the copy: the tree may change meanwhile
	basename "$p" | grep -qE "$regex" || continue
	one "$p"
done
echo "$found passed, $missed failed, 0 skipped"
[ $missed -eq 0 ] && [ $found -gt 0 ]
