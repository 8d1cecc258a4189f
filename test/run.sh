#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the programs of a tier of test/suite, two at a time, and adds their counts up:
#   BUILD=build test/run.sh [-x] [-r] [-t seconds] [-o names] [-m regex] c|t|a
# -x: stops at the first failure; -o: runs only the named programs, in that order; -m: only those whose names match.
# -r: goes on where an earlier run was stopped: programs that passed with the same library are not run again.
# The counts of a program are the last lines of cmocka, or its own line "N passed, N failed, N skipped".
# The last line printed is "N passed, N failed, N skipped"; the reason of each skip is printed, too.
set -u
limit=900 stop=0 order= match= done=
B=${BUILD:-build}

# prints "passed failed skipped" from a log
counts() {
	awk '/^\[  PASSED  \] [0-9]+ test/ { p += $4 }
	     /^\[  FAILED  \] [0-9]+ test/ { f += $4 }
	     /^\[  SKIPPED \] [0-9]+ test/ { s += $4 }
	     /^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; s += $5 }
	     END { print p + 0, f + 0, s + 0 }' "$1"
}

# Runs one program: prints a line with its verdict, writes its counts to a file of the folder.
one() { # folder limit 'name command'
	dir=$1 limit=$2 name=${3%% *} command=${3#* } start=$(date +%s)
	log=$dir/$name.log
	timeout "$limit" sh -c "$command" >"$log" 2>&1
	rc=$?
	# gcc 12's leak sanitizer crashes in its own tracer for some builds and environments, each time that they run. This says nothing about
	# the program, which runs again without it.
	if grep -q 'LeakSanitizer has encountered a fatal error' "$log"; then
		ASAN_OPTIONS=detect_leaks=0 timeout "$limit" sh -c "$command" >"$log" 2>&1
		rc=$?
		printf '%s\n' "SKIP leaks of $name: gcc's leak sanitizer crashed in its own tracer" '0 passed, 0 failed, 1 skipped' >>"$log"
	fi
	set -- $(counts "$log")
	failed=$2 verdict=ok
	if [ $rc -ne 0 ] || [ "$2" -gt 0 ] || [ $(($1 + $3)) -eq 0 ]; then
		verdict=FAILED
		[ "$failed" -gt 0 ] || failed=1
	fi
	echo "$1 $failed $3" >"$dir/$name.count"
	[ $verdict = ok ] && [ -n "$DONE" ] && cp "$dir/$name.count" "$DONE/"
	n=$(ls "$dir" | grep -c '\.count$')
	{
		printf '[%2d/%s] %-7s %-24s %6s passed  %4ss\n' "$n" "$(cat "$dir/total")" "$verdict" "$name" "$1" "$(($(date +%s) - start))"
		grep -E '^SKIP' "$log" || true
		if [ $verdict = FAILED ]; then
			[ $rc -eq 124 ] && echo "stopped after $limit s"
			echo "exit status $rc; the end of its output:"
			grep -vE '^\[ (RUN|      OK)' "$log" | tail -40
		fi
	} >"$dir/$name.out"
	cat "$dir/$name.out"
	[ $verdict = ok ] || return "$stop"
}

if [ "${1:-}" = --one ]; then
	stop=$4
	one "$2" "$3" "$5"
	exit $?
fi
while :; do
	case ${1:-} in
	-x) stop=255 && shift ;; # xargs starts no more programs after this status
	-r) done=yes && shift ;;
	-t) limit=$2 && shift 2 ;;
	-o) order=$2 && shift 2 ;;
	-m) match=$2 && shift 2 ;;
	*) break ;;
	esac
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# What tests compile with gcc and tcc is kept for the next ones.
TEST_OBJECTS=$PWD/$B/test/objects
mkdir -p "$TEST_OBJECTS"
export TEST_OBJECTS
if [ "$1" != a ]; then # most of the time goes into code generation: half of it will do
	export TJ_CODEGEN=fast TEST_SAMPLE=1
fi
# Each program compiles what it tests; test/cache.sh and test_store are about the disk cache.
export TJ_CACHE=off
DONE=
if [ -n "$done" ]; then
	what="$B/libtj.a $B/libtj-llvm.so test examples bench docs include README.md"
	DONE=$B/test/passed-$(find $what -type f | sort | xargs cat | cksum | tr ' ' -)
	mkdir -p "$DONE"
fi
export DONE
test/suite.sh "$@" | grep -E "^[^ ]*($match)" |
	while read -r name command; do
		cp "$DONE/$name.count" "$dir/" 2>/dev/null || echo "$name $command"
	done >"$dir/all"
for n in $order; do grep "^$n " "$dir/all"; done >"$dir/ordered"
[ -n "$order" ] || mv "$dir/all" "$dir/ordered"
echo $(($(wc -l <"$dir/ordered") + $(ls "$dir" | grep -c '\.count$'))) >"$dir/total"
tr '\n' '\0' <"$dir/ordered" | xargs -0 -n 1 -P 2 "$0" --one "$dir" "$limit" "$stop" 2>/dev/null
set -- $(cat "$dir"/*.count | awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }')
left=$(($(cat "$dir/total") - $(ls "$dir" | grep -c '\.count$')))
[ $left -eq 0 ] || [ $stop -ne 0 ] || echo "$left programs did not run"
echo "$1 passed, $2 failed, $3 skipped"
[ "$2" -eq 0 ] && [ "$1" -gt 0 ] && [ $left -eq 0 ]
