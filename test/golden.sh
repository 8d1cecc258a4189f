#!/bin/sh
# SPDX-License-Identifier: MIT
# golden.sh TJC [-w] [file...]: checks every golden file, or rewrites it with -w; prints a line ok or FAIL for each.
tjc=$1; shift
mode=-g
export TJ_CPU=256 # of every machine
[ "$1" = -w ] && { mode=-w; shift; }
cd "$(dirname "$0")/.." || exit 2
[ $# -gt 0 ] || set -- $(find test -name '*.tj' | sort)
passed=0 failed=0
for f in "$@"; do
	if out=$("$tjc" $mode "$f" 2>&1); then
		passed=$((passed + 1)); echo "ok   $f"
	else
		failed=$((failed + 1)); echo "FAIL $f"; echo "$out"
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
