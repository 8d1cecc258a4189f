#!/bin/sh
# SPDX-License-Identifier: MIT
# Trainings that are killed and go on, and that run with other numbers of workers and ranks, end with the same bits:
#   test/trained.sh build [KILLS]
set -u
B=$1 kills=${2:-12} passed=0 failed=0
verdict() { # status, what
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else
		failed=$((failed + 1))
		echo "FAILED $2"
	fi
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export TJ_CACHE="$tmp/cache" OMPI_MCA_btl_base_warn_component_unused=0
t="$B/test/kit/trained"
ranks() { # n, arguments
	n=$1 && shift
	timeout 60 mpirun --allow-run-as-root --oversubscribe -n "$n" "$t" "$@"
}

# The whole run; without a folder; with workers; with other threads.
$t "$tmp/whole" "$tmp/whole.st"
verdict $? 'a whole run'
$t - "$tmp/x.st" && cmp "$tmp/whole.st" "$tmp/x.st"
verdict $? 'without a folder'
for n in 1 4; do
	TJ_THREADS=$n $t --workers $n - "$tmp/x.st" && cmp "$tmp/whole.st" "$tmp/x.st"
	verdict $? "$n workers"
done

# Killed at any moment, again and again, until it ends.
n=0 round=0
while [ $n -lt "$kills" ]; do
	round=$((round + 1)) dir="$tmp/killed$round"
	for i in $(seq 40); do
		$t --workers 2 --sleep 2000 "$dir" "$tmp/x.st" &
		pid=$!
		# a time of its own for each kill, from 0.02 to 0.3 s
		sleep "$(awk -v k=$((n * 7919 + round * 31)) 'BEGIN { printf "%.3f", 0.02 + k % 280 / 1000 }')"
		if kill -KILL $pid 2>/dev/null; then
			wait $pid 2>/dev/null
			[ $? -eq 137 ] && n=$((n + 1))
		else wait $pid; fi
		[ $((i % 9)) -eq 0 ] && break
	done
	rm -f "$tmp/x.st"
	$t "$dir" "$tmp/x.st" && cmp "$tmp/whole.st" "$tmp/x.st"
	verdict $? "killed (round $round)"
	cut -d, -f1,3,4 "$dir/metrics.csv" | cmp - "$tmp/metrics" 2>/dev/null || {
		cut -d, -f1,3,4 "$tmp/whole/metrics.csv" >"$tmp/metrics"
		cut -d, -f1,3,4 "$dir/metrics.csv" | cmp - "$tmp/metrics"
	}
	verdict $? "its metrics (round $round)"
	[ "$(ls "$dir" | grep -c 'step-.*safetensors$')" -le 2 ]
	verdict $? "old checkpoints (round $round)"
done
echo "$n processes killed"

# A checkpoint that cannot be written ends the run with an error; the old ones are there, and it goes on from them.
(trap "" XFSZ && ulimit -f 4 && $t "$tmp/full" "$tmp/x.st") >"$tmp/out" 2>&1
[ $? -ne 0 ] && grep -q 'safetensors' "$tmp/out"
verdict $? "a full disk: $(cat "$tmp/out")"
$t "$tmp/full" "$tmp/x.st" && cmp "$tmp/whole.st" "$tmp/x.st"
verdict $? 'after a full disk'
# A damaged checkpoint is told, and the one before is taken.
$t --steps 21 "$tmp/bad" "$tmp/y.st" && rm -f "$tmp/y.st"
last=$(ls "$tmp/bad"/step-*.safetensors | tail -1)
printf 'x' | dd of="$last" bs=1 seek=3 conv=notrunc 2>/dev/null
$t --steps 60 "$tmp/bad" "$tmp/x.st" 2>"$tmp/out"
verdict $? "a damaged checkpoint: $(cat "$tmp/out")"
# Ctrl-C ends it cleanly.
$t --sleep 20000 "$tmp/int" "$tmp/y.st" &
pid=$!
sleep 0.6
kill -INT $pid
wait $pid
[ $? -eq 0 ] && [ ! -e "$tmp/y.st" ] && $t "$tmp/int" "$tmp/x.st" && cmp "$tmp/whole.st" "$tmp/x.st"
verdict $? 'interrupted, and continued'

# n ranks have the bits of one process that adds the same n gradients.
if command -v mpirun >/dev/null && [ -f "$B/libtj-mpi.so" ]; then
	export TJ_THREADS=1
	for many in 2 4; do
		for rule in adamw sgd lion; do
			$t --accumulate $many --steps $((12 * many)) --rule $rule --weights - "$tmp/one.st" &&
				ranks $many --mpi --steps 12 --rule $rule --weights - "$tmp/many.st" 2>"$tmp/err" &&
				ranks $many --mpi --spread --steps 12 --rule $rule --weights - "$tmp/spread.st" 2>>"$tmp/err" &&
				cmp "$tmp/one.st" "$tmp/many.st" && cmp "$tmp/many.st" "$tmp/spread.st"
			verdict $? "$many ranks, $rule: $(tail -2 "$tmp/err")"
		done
	done
	ranks 4 --mpi --spread --steps 6 "$tmp/ranks" "$tmp/four.st" 2>"$tmp/err" &&
		ranks 2 --mpi --spread --steps 12 "$tmp/ranks" "$tmp/two.st" 2>>"$tmp/err" &&
		ranks 1 --mpi --steps 20 "$tmp/ranks" "$tmp/one.st" 2>>"$tmp/err"
	verdict $? "another number of ranks: $(tail -2 "$tmp/err")"
else
	echo 'SKIPPED ranks: mpirun or libtj-mpi.so is not there'
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
