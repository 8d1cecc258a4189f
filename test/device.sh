#!/bin/sh
# SPDX-License-Identifier: MIT
# The first hour with a GPU, in at most eight minutes: a ladder of tests, which stops at the first broken rung, and the benchmarks. In the
# tree of `make pack`:
#   test/device.sh [-f] [-t seconds] [-o file]     -f: small, for the CUDA that runs on the CPU (test/fake)     -t: for all rungs (480)
#                                                  -o: the report, one JSON (device.json); it is written anew after each rung
set -u
from=$PWD fake= report=device.json left=480
while getopts ft:o: option; do
	case $option in
	f) fake=1 ;;
	t) left=$OPTARG ;;
	o) report=$OPTARG ;;
	*) exit 2 ;;
	esac
done
case $report in /*) ;; *) report=$from/$report ;; esac
cd "$(dirname "$0")/.." || exit 2
B=${BUILD:-.} end=$(($(date +%s) + left))
export LD_LIBRARY_PATH="$PWD/$B:$PWD/lib:${LD_LIBRARY_PATH:-}"
unset TJ_DEVICE
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
if [ -n "$fake" ]; then
	LD_LIBRARY_PATH=$PWD/$B/test/fake:$LD_LIBRARY_PATH
	chunks=1 matrix='-n 40' graphs=30 steps=20 cases='relu|tiny|linear|compile' bench='--small --json --seconds 0.01'
else
	chunks=4096 matrix='-n 20' graphs=200 steps=2000 cases= bench='--json --seconds 0.2'
	if [ -z "${TJ_CUDA_PATH:-}" ]; then # NVRTC and cuBLASLt of a toolkit, or of Python's wheels
		for at in /usr/local/cuda "$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0] + "/..")' 2>"$dir/none")"; do
			[ -n "$at" ] && [ -d "$at" ] && export TJ_CUDA_PATH="$at" && break
		done
	fi
fi
rungs= broken= gpu=$(nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader 2>"$dir/none" | head -1)

write_report() {
	{
		printf '{"date": "%s", "fake": %s, "broken": "%s",\n "gpu": "%s", "cuda_path": "%s",\n "rungs": [%s],\n "bench": [\n' \
			"$(date -u +%FT%TZ)" "$([ -n "$fake" ] && echo true || echo false)" "$broken" "$gpu" "${TJ_CUDA_PATH:-}" "$rungs"
		grep '^{.*}$' "$dir/bench.log" 2>"$dir/none" | sed '$!s/$/,/; s/^/  /'
		printf ' ]}\n'
	} >"$report"
}

note() { # name, ok | broken | unfinished | skipped, seconds, what
	printf '%-14s %-10s %6s s  %s\n' "$1" "$2" "$3" "$4"
	rungs="$rungs${rungs:+,}
  {\"rung\": \"$1\", \"status\": \"$2\", \"seconds\": $3, \"last\": \"$4\"}"
	write_report
}

# Runs a rung: name, seconds at most, command. One that takes too long is unfinished, and the ladder goes on,
# unless it is a test: then it hangs, and the rung is broken.
rung() {
	[ -n "$broken" ] && return
	name=$1 limit=$2 rest=$((end - $(date +%s))) start=$(date +%s.%N)
	shift 2
	full=$limit
	[ "$rest" -lt "$limit" ] && limit=$rest
	[ "$limit" -lt 5 ] && note "$name" skipped 0 'no time is left' && return
	timeout "$limit" sh -c "$*" >"$dir/$name.log" 2>&1
	rc=$?
	took=$(echo "$(date +%s.%N) $start" | awk '{ printf "%.1f", $1 - $2 }')
	last=$(grep -v '^[[:space:]]*$' "$dir/$name.log" | tail -1 | tr -d '"\\\000-\037' | cut -c1-200)
	case $rc in
	0) note "$name" ok "$took" "$last" ;;
	124)
		case $name in device | prelude | cases | test_*) [ "$limit" -eq "$full" ] && broken=$name last="it hangs: $last" ;; esac
		note "$name" unfinished "$took" "$last"
		;;
	*)
		broken=$name
		note "$name" broken "$took" "$last"
		tail -40 "$dir/$name.log"
		;;
	esac
}

rung device 60 "$B/tj-bench --device cuda --quick 'relu'"
rung prelude 60 "$B/test/prelude -d cuda:0 -n $chunks"
for t in test_cuda test_streams test_graphs test_scatter test_lines test_tiles test_undo test_cublas; do
	[ -x "$B/test/unit/$t" ] && rung "$t" 60 "$B/test/unit/$t"
done
rung cases 60 "$B/tj-bench --device cuda --quick '$cases'"
rung examples 30 "TJ_DEVICE=cuda:0 test/examples.sh $B/examples hello toy branch newton"
rung demo 60 "$B/examples/char_lm test/device.sh $steps cuda"
rung bench 150 "$B/tj-bench --device cuda $bench '$cases'"
rung matrix 90 "$B/test/matrix -q -d cuda:0 $matrix"
rung fuzz 90 "$B/test/fuzz -d cuda:0 -n $graphs"
# It also shows whether a product has the same bits with a bias and without, which NVIDIA does not promise.
[ -x "$B/test/unit/test_epilogues" ] && rung test_epilogues 60 "$B/test/unit/test_epilogues"
if [ -z "$fake" ] && [ -z "$broken" ]; then
	for tool in memcheck racecheck; do
		if timeout 60 compute-sanitizer --tool $tool "$B/tj-bench" --device cuda --quick relu 2>&1 | grep -qi 'ERROR SUMMARY: 0'; then
			rung $tool 60 "compute-sanitizer --tool $tool --error-exitcode 9 $B/tj-bench --device cuda --quick 'softmax_1k|sum|transpose'"
		else note $tool skipped 0 'compute-sanitizer is not there, or does not work on this machine'; fi
	done
fi
echo "the report is in $report"
[ -z "$broken" ]
