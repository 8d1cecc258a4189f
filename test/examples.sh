#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the examples NAME (default: all with a .out file) and compares their output with test/examples/NAME.out:
#   test/examples.sh [-w] folder [NAME...]
set -u
write=
[ "$1" = -w ] && write=1 && shift
folder=$1
shift
[ $# -gt 0 ] || set -- $(cd test/examples && ls -- *.out | sed "s/\.out$//")
passed=0 failed=0 skipped=0
for name in "$@"; do
	if [ -f "examples/$name.cpp" ] && [ ! -x "$folder/$name" ]; then
		echo "SKIPPED $name: no C++ compiler"
		skipped=$((skipped + 1))
		continue
	fi
	want=test/examples/$name.out
	got=$("$folder/$name" 2>&1)
	rc=$?
	# Times differ, those of tjnn_run()'s progress too, and with TJ_DEVICE=cuda:0 the shapes name it; nothing else may.
	got=$(printf '%s\n' "$got" | sed '/^time: /d; /^step [0-9]*\/[0-9]* /d; s/@cuda:0//g')
	[ -n "$write" ] && printf '%s\n' "$got" >"$want"
	if [ $rc -eq 0 ] && [ "$got" = "$(cat "$want")" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $name (exit status $rc)"
		printf '%s\n' "$got" | diff "$want" - | head -20
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
