#!/bin/sh
# SPDX-License-Identifier: MIT
# Debian's own gdb, perf and valgrind look at generated code; tj top watches a process.
#   test/tools.sh build-folder gdb|gdb_more|perf|valgrind|ranges|top|odd
set -u
build=$1 subject=$2 passed=0 failed=0 skipped=0
seen=$build/test/seen tmp=$(mktemp -d) process=
trap '[ -z "$process" ] || kill "$process" 2>/dev/null; rm -rf "$tmp"' EXIT
verdict() { # result, name; what was said is in $tmp/said
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -20 "$tmp/said"; fi
}
skip() { echo "SKIPPED $1" && skipped=$((skipped + $2)); } # why, how many
says() { grep -q -- "$1" "$tmp/said"; }
line() { grep -n -- "$1" test/seen.c | cut -d: -f1; } # of seen.c
unset TJ_CPU TJ_LOADER TJ_BACKEND TJ_PERF TJ_GDB TJ_LIVE TJ_CODEGEN
export TJ_CACHE="$tmp/cache" JITDUMPDIR="$tmp" TJ_THREADS=1 LC_ALL=C
exp=$(line 'tj_exp(') sin=$(line 'tj_sin(') div=$(line 'tj_div(') product=$(line 'tj_matmul(')

# ---- gdb ----
debug() { # commands of gdb
	set -- -ex 'set debuginfod enabled off' -ex 'set breakpoint pending on' "$@"
	TJ_GDB=1 gdb -nx -batch "$@" --args "$seen" 2 >"$tmp/said" 2>&1
}
gdb_runs() {
	for run in "$@"; do # the second one finds code on disk
		[ $run = orc ] && export TJ_LOADER=orc
		debug -ex 'break tj_seen_k0' -ex run -ex bt -ex "info line seen.c:$div" -ex 'info symbol $pc' -ex 'info breakpoints'
		says "^#0  tj_seen_k0 () at test/seen.c:$exp" && says '^#.* in main (.*) at test/seen.c' && says '^#.* run_kernel '
		verdict $? "gdb: a backtrace through a kernel, $run:"
		says "Line $div of \"test/seen.c\" starts at address .*<tj_seen_k0+[0-9]*>" && says '^tj_seen_k0 in section .text of <in-memory'
		verdict $? "gdb: lines of a kernel, $run:"
	done
	unset TJ_LOADER
}
gdb_few() {
	gdb_runs first warm
	TJ_GDB=1 "$seen" 2 >"$tmp/said" 2>&1
	verdict $? 'no breakpoint got into the code on disk:'
	debug -ex "break tj_seen_k1" -ex run -ex 'maint info jit' -ex 'delete' -ex 'break exit' -ex c -ex 'maint info jit'
	[ "$(grep -c '^0x[0-9a-f]* *0x' "$tmp/said")" = 2 ] && says '^Breakpoint .*, tj_seen_k1 () at test/seen.c:'"$product"
	verdict $? 'gdb: two kernels are listed, and none when the context is closed:'
}
gdb_more() {
	gdb_runs orc
	debug -ex 'break tj_seen_k1' -ex run -ex 'rbreak ^tj_seen_k1.part' -ex c -ex bt
	says '^#0  tj_seen_k1.part[0-9] () at test/seen.c:'"$product" && says '^#1 .* in tj_seen_k1 ()' && says '^#.* in main '
	verdict $? 'gdb: a function that a kernel calls:'
}

# ---- perf ----
perf_works() {
	command -v perf >/dev/null || { echo 'perf is missing (package linux-perf)' && return 1; }
	perf record -q -e cpu-clock -o "$tmp/try" true >"$tmp/said" 2>&1 || {
		echo "perf cannot record here, perf_event_paranoid is $(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null)" && return 1
	}
}
report() { perf report -i "$1" --stdio --no-children --percent-limit 0.5 --sort "$2" >"$tmp/said" 2>&1; } # file, what by
kernel='tj_seen_k0:exp+sin+mul+sum+div'
perf_all() {
	TJ_PERF=map perf record -q -e cpu-clock -F 4000 -o "$tmp/map" sh -c "echo \$\$ >'$tmp/pid'; exec $seen 400" >"$tmp/said" 2>&1
	report "$tmp/map" sym
	says "$kernel" && says 'tj_seen_k1.part[0-9]:matmul'
	verdict $? 'perf names kernels by TJ_PERF=map:'
	TJ_PERF=jitdump perf record -q -k mono -e cpu-clock -F 2000 --call-graph dwarf,16384 -o "$tmp/dump" "$seen" 100 >"$tmp/said" 2>&1 &&
		perf inject --jit -i "$tmp/dump" -o "$tmp/jit" >"$tmp/said" 2>&1
	verdict $? 'perf inject reads the file of TJ_PERF=jitdump:'
	report "$tmp/jit" sym
	says "$kernel" && says 'tj_seen_k1.part[0-9]:matmul'
	verdict $? 'perf names kernels by TJ_PERF=jitdump:'
	perf report -i "$tmp/jit" --stdio -g none --no-children --sort srcline >"$tmp/said" 2>&1
	says "seen.c:$sin" && says "seen.c:$product"
	verdict $? 'perf knows lines of C:'
	perf annotate -i "$tmp/jit" --stdio -l "$kernel" >"$tmp/said" 2>&1
	says "seen.c:$sin" && says 'tj_mul(h, tj_sin(h))' && says 'ymm\|zmm'
	verdict $? 'perf annotate shows C and instructions:'
	perf script -i "$tmp/jit" -F comm,ip,sym >"$tmp/said" 2>&1
	awk -v k="$kernel" 'index($0, k) { in_kernel = 1 } in_kernel && $2 == "main" { found = 1 } NF == 0 { in_kernel = 0 } END { exit !found }' \
		"$tmp/said"
	verdict $? 'perf unwinds from a kernel to main:'
	rm -f "/tmp/perf-$(cat "$tmp/pid").map"
}

# ---- valgrind ----
valgrind_all() {
	for set in '' TJ_GDB=1 TJ_CPU=128; do
		env $set valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$seen" 2 >"$tmp/said" 2>&1
		verdict $? "valgrind finds nothing; $set:"
	done
}

# ---- Intel's ranges ----
ranges_all() {
	export TJ_PROFILE=1
	INTEL_LIBITTNOTIFY64=$build/test/collector.so "$seen" 6 >"$tmp/out" 2>"$tmp/said"
	[ "$(grep -c '^begin seen' "$tmp/said")" = 6 ] && [ "$(grep -c '^  begin tj_seen_k0' "$tmp/said")" = 6 ] && says '^  begin tj_seen_k1' &&
		! says ODD && [ "$(grep -c begin "$tmp/said")" = "$(grep -c end "$tmp/said")" ]
	verdict $? 'ranges of calls and kernels for VTune:'
	INTEL_LIBITTNOTIFY64=/nowhere.so "$seen" 2 >"$tmp/out" 2>"$tmp/said" && [ "$(grep -c 'INTEL_LIBITTNOTIFY64=/nowhere.so' "$tmp/said")" = 1 ]
	verdict $? 'a collector that is not there is told of once:'
}

# ---- tj top ----
tj=$build/tj
top_all() {
	TJ_LIVE=1 "$seen" 100000000 >"$tmp/out" &
	process=$!
	for i in 1 2 3 4 5 6 7 8 9 10; do
		"$tj" top -d 0.1 "$process" >"$tmp/said" 2>&1 && grep -q '^seen ' "$tmp/said" && break
		sleep 0.1
	done
	grep -q '^seen .* test/seen.c:' "$tmp/said" && ! grep -q "$(printf '\033')" "$tmp/said"
	verdict $? 'tj top shows a function:'
	"$tj" top >"$tmp/said" 2>&1 && says "^ *$process  seen "
	verdict $? 'tj top lists processes:'
	"$tj" top -n 2 -d 0.1 --json "$process" >"$tmp/said" 2>&1 && [ "$(wc -l <"$tmp/said")" = 2 ] && says '"calls_per_s":[1-9]'
	verdict $? 'tj top --json:'
	file=/dev/shm/tjit.$(id -u).$process
	chmod 644 "$file" && ! "$tj" top "$process" >"$tmp/said" 2>&1 && says 'is none that it can be watched by'
	verdict $? 'tj top believes no file that others may read:'
	chmod 600 "$file" && kill -STOP "$process" && ! "$tj" top "$process" >"$tmp/said" 2>&1 && says 'does not answer\|has ended, or is stopped'
	verdict $? 'tj top says that a process does not answer:'
	kill -CONT "$process" && kill "$process" && wait "$process" 2>/dev/null
	! "$tj" top "$process" >"$tmp/said" 2>&1 && says "process $process has ended"
	verdict $? 'tj top says that a process has ended:'
	touch -d '1 minute ago' "$file" && ! "$tj" top 1 >"$tmp/said" 2>&1 && [ ! -e "$file" ]
	verdict $? 'tj top removes what a killed process left:'
	process=
}

# Files that say what is not so, while tj top waits for the process, which is stopped.
odd_text() { # what the file becomes: bytes of the head from 24 on, then the text; what tj top may say
	cp "$tmp/whole" "$file"
	(sleep 0.1 && printf '%b' "$1" | dd of="$file" bs=1 seek=24 conv=notrunc 2>/dev/null &&
		printf '%b' "$2" | dd of="$file" bs=1 seek=64 conv=notrunc 2>/dev/null &&
		printf '\002\001\000\000' | dd of="$file" bs=1 seek=12 conv=notrunc 2>/dev/null) &
	"$tj" top -d 0.05 "$process" >"$tmp/said" 2>&1
	[ $? = 1 ] && says 'does not answer\|is none that\|has ended'
	verdict $? "tj top believes $3:"
}
odd_all() {
	TJ_LIVE=1 "$seen" 100000000 >"$tmp/out" &
	process=$! file=/dev/shm/tjit.$(id -u).$process
	for i in 1 2 3 4 5 6 7 8 9 10; do
		"$tj" top -d 0.1 "$process" >"$tmp/said" 2>&1 && grep -q '^seen ' "$tmp/said" && break
		sleep 0.1
	done
	kill -STOP "$process"
	cp "$file" "$tmp/whole"
	odd_text '\377\377\377\377\377\377\377\177' x 'a text of 8 EiB'
	odd_text '\010\000\000\000\000\000\000\000' '{"pid":1' 'a text that is cut off'
	odd_text '\012\000\000\000\000\000\000\000' '{"pid": 1}' 'an object without functions'
	truncate -s 20 "$file" && ! "$tj" top "$process" >"$tmp/said" 2>&1
	verdict $? 'tj top believes a head that is cut off:'
	kill -KILL "$process"
	wait "$process" 2>/dev/null
	rm -f "$file"
	process=
}

case $subject in
gdb) if command -v gdb >/dev/null; then gdb_few; else skip 'gdb is missing (package gdb)' 6; fi ;;
gdb_more) if command -v gdb >/dev/null; then gdb_more; else skip 'gdb is missing (package gdb)' 3; fi ;;
perf) if why=$(perf_works); then perf_all; else skip "$why" 6; fi ;;
valgrind) if command -v valgrind >/dev/null; then valgrind_all; else skip 'valgrind is missing (package valgrind)' 3; fi ;;
ranges) ranges_all ;;
odd) if [ -x "$tj" ]; then odd_all; else skip 'build/tj was not built (package libjansson-dev)' 4; fi ;;
top) if [ -x "$tj" ]; then top_all; else skip 'build/tj was not built (package libjansson-dev)' 7; fi ;;
esac
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
