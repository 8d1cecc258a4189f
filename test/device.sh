#!/bin/sh
# The first hour with a GPU, in at most eight minutes: a ladder of tests, which stops at the first broken rung, and the benchmarks. In the
# tree of `make pack`:
#   test/device.sh [-f] [-o file]     -f: small, for the CUDA that runs on the CPU (test/fake)     -o: the report, one JSON (device.json)
set -u
cd "$(dirname "$0")/.." || exit 2
fake= report=device.json
while getopts fo: option; do
	case $option in
	f) fake=1 ;;
	o) report=$OPTARG ;;
	*) exit 2 ;;
	esac
done
B=${BUILD:-.}
export LD_LIBRARY_PATH="$PWD/$B:$PWD/lib:${LD_LIBRARY_PATH:-}" TJ_DEVICE=
if [ -n "$fake" ]; then
	LD_LIBRARY_PATH=$PWD/$B/test/fake:$LD_LIBRARY_PATH
	chunks=1 matrix='-n 40' graphs=30 seconds=0.001 steps=20 cases='relu|tiny'
else
	chunks=4096 matrix= graphs=2000 seconds=0.2 steps=4000 cases=
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rungs= broken=

# Runs a rung: name, seconds at most, command. Its last line, and the time, go into the report.
rung() {
	[ -n "$broken" ] && return
	name=$1 limit=$2 start=$(date +%s.%N)
	shift 2
	timeout "$limit" sh -c "$*" >"$dir/$name.log" 2>&1
	rc=$?
	took=$(echo "$(date +%s.%N) $start" | awk '{ printf "%.1f", $1 - $2 }')
	last=$(grep -v '^$' "$dir/$name.log" | tail -1 | tr -d '"\\' | cut -c1-200)
	[ $rc -eq 124 ] && last="stopped after $limit s"
	printf '%-12s %s %6s s  %s\n' "$name" "$([ $rc -eq 0 ] && echo ok || echo BROKEN)" "$took" "$last"
	rungs="$rungs${rungs:+,
  }{\"rung\": \"$name\", \"status\": $rc, \"seconds\": $took, \"last\": \"$last\"}"
	[ $rc -eq 0 ] && return
	broken=$name
	tail -40 "$dir/$name.log"
}

rung device 60 "$B/tj-bench --device cuda --quick 'relu'"
rung prelude 120 "$B/test/prelude -d cuda:0 -n $chunks"
for t in test_cuda test_streams test_graphs test_cublas; do
	[ -x "$B/test/unit/$t" ] && rung "$t" 120 "$B/test/unit/$t"
done
rung cases 120 "$B/tj-bench --device cuda --quick '$cases'"
rung matrix 120 "$B/test/matrix -q -d cuda:0 $matrix"
rung fuzz 120 "$B/test/fuzz -d cuda:0 -n $graphs"
if command -v compute-sanitizer >/dev/null && [ -z "$fake" ]; then
	rung sanitizer 90 "compute-sanitizer --error-exitcode 9 $B/tj-bench --device cuda --quick 'softmax_1k|sum|transpose'"
	rung races 90 "compute-sanitizer --tool racecheck --error-exitcode 9 $B/tj-bench --device cuda --quick 'softmax_1k|sum|transpose'"
fi
rung examples 60 "TJ_DEVICE=cuda:0 test/examples.sh $B/examples hello toy branch newton"
rung demo 120 "$B/examples/char_lm test/device.sh $steps cuda"
rung bench 240 "$B/tj-bench --device cuda --json --seconds $seconds '$cases' | tee $dir/bench.json"
# The last one: it also shows whether a product has the same bits with a bias and without, which NVIDIA does not promise.
[ -x "$B/test/unit/test_epilogues" ] && rung test_epilogues 120 "$B/test/unit/test_epilogues"

{
	printf '{"date": "%s", "fake": %s, "broken": "%s",\n "gpu": "%s",\n "rungs": [\n  %s],\n "bench": [\n' "$(date -u +%FT%TZ)" "${fake:+true}${fake:-false}" "$broken" \
		"$(nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv,noheader 2>/dev/null | head -1)" "$rungs"
	sed '$!s/$/,/; s/^/  /' "$dir/bench.json" 2>/dev/null
	printf ' ]}\n'
} | sed 's/true1/true/' >"$report"
echo "the report is in $report"
[ -z "$broken" ]
