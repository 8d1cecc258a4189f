#!/bin/sh
# Sows each bug of test/mutants/*.patch into a copy of the tree and runs the tests until one fails.
#   test/mutants.sh build-folder [regex]
# A patch begins with a line that says what is wrong. Fails when a bug is not found, when a patch does not apply or does
# not build. The copy takes the build along, so that only what a patch touches is built again.
set -u
cd "$(dirname "$0")/.." || exit 2
build=$1 regex=${2:-.} found=0 missed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 2' INT TERM
tree=$tmp/tree log=$tmp/log
mkdir "$tree"
tar -cf - --exclude=./.git --exclude="./$build-*" . | tar -xf - -C "$tree" || exit 2

# Which program failed, out of the log of run.sh.
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
	rm -rf "$tree/test/fuzz-found" # or the goldens would find the next one
	printf '%-22s %-20s %4s s  %s\n' "$name" "$by" $(($(date +%s) - start)) "$(head -1 "$1")"
	tar -xmf "$tmp/clean" -C "$tree" # and not the patch backwards: without context it may put a line elsewhere
}

for p in "$tree"/test/mutants/*.patch; do # of the copy, so that one may go on working here
	basename "$p" | grep -qE "$regex" || continue
	one "$p"
done
echo "$found passed, $missed failed, 0 skipped"
[ $missed -eq 0 ] && [ $found -gt 0 ]
