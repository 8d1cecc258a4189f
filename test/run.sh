#!/bin/sh
# Runs test programs and adds their counts up:  test/run.sh [-t seconds] 'name command...' ...
# A program's counts are cmocka's closing lines, or a line "N passed, N failed, N skipped" of its own.
# The last line is "N passed, N failed, N skipped"; a skip says why.
set -u
limit=600
[ "${1:-}" = -t ] && limit=$2 && shift 2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0 n=0 total=$#

add() { # passed failed skipped out of the log
	awk '/^\[  PASSED  \] [0-9]+ test/ { p += $4 }
	     /^\[  FAILED  \] [0-9]+ test/ { f += $4 }
	     /^\[  SKIPPED \] [0-9]+ test/ { s += $4 }
	     /^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; s += $5 }
	     END { print p + 0, f + 0, s + 0 }' "$log"
}

for test in "$@"; do
	n=$((n + 1))
	name=${test%% *}
	command=${test#* }
	start=$(date +%s)
	timeout "$limit" sh -c "$command" >"$log" 2>&1
	rc=$?
	set -- $(add)
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
	verdict=ok
	if [ $rc -ne 0 ] || [ "$2" -gt 0 ] || [ $(($1 + $3)) -eq 0 ]; then
		verdict=FAILED
		[ "$2" -eq 0 ] && failed=$((failed + 1))
	fi
	printf '[%2d/%d] %-7s %-28s %5s passed  %ss\n' "$n" "$total" "$verdict" "$name" "$1" "$(($(date +%s) - start))"
	grep -E '^SKIP' "$log" || true
	if [ $verdict = FAILED ]; then
		[ $rc -eq 124 ] && echo "stopped after $limit s"
		echo "exit status $rc; the end of its output:"
		grep -vE '^\[ (RUN|      OK)' "$log" | tail -40
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
