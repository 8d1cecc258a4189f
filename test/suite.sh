#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the programs of a tier of test/suite, each as a line `name command`:  BUILD=build test/suite.sh c|t|a
# All of them: cta.
set -u
B=${BUILD:-build}
# Unit tests that `make check` leaves to `make test`: each takes more than 1.5 s.
slow='algebra alloc apart attention autocast callbacks cells checkpoint codegen convolve cublas cuda dots driver_fails dynamic epilogues
grad graphs half indexing inside lines losses lower many math norms pairs points programs random rearrange resize scaler scatter selection
sized special states statistics threads tiles training turns undo vmap wrap'
# Unit tests that `make test` runs once more with the address and the undefined-behaviour sanitizer: of each folder of the library those
# that go through most of it in little time.
sanitized='between bpe callbacks cells classes contexts custom devices direct dlpack doc dump errors explain flow gguf gradients graphof
guards hits host image inner ir known loader messages nodes notes npy npz onnx onnxwrite passes quantise readers regions report run
safetensors store tokenizer trace undo walks winograd'
# gcc 12's leak sanitizer often crashes in its own tracer after threads have ended: the tests without threads look for leaks. Where it
# crashes all the same, run.sh says so.
threaded='classes codegen contexts devices dump dynamic explain image known loader many matmul lower readers report team threads wrap'
# The sanitizer's dlopen() knows no rpath, and the fakes keep what they were given.
on_fake='cuda cublas driver_fails epilogues fake graphs lines programs scatter streams tiles undo'

in_list() { echo " $1 " | tr '\n' ' ' | grep -q " $2 "; } # list, word

line() { # name, command
	name=$1 && shift
	case $name in
	san_test_* | san_kit_test_*)
		test=${name#*test_}
		if in_list "$on_fake" "$test"; then set -- "LD_LIBRARY_PATH=\$F ASAN_OPTIONS=detect_leaks=0 $*";
		elif in_list "$threaded" "$test"; then set -- "ASAN_OPTIONS=detect_leaks=0 $*"; fi
		;;
	esac
	echo "$name $*" | sed "s|\$B|$B|g; s|\$F|$B/test/fake|g"
}

units() { # tier, name with %, command
	case $3 in */kit/*) folder=kit ;; *) folder=unit ;; esac
	for t in test/$folder/test_*.c; do
		t=$(basename "$t" .c)
		case "$1 $2" in
		'c %') in_list "$slow" "${t#test_}" && continue ;;
		't san_%' | 't san_kit_%') in_list "$sanitized" "${t#test_}" || continue ;;
		esac
		line $(echo "$2 $3" | sed "s|%|$t|g")
	done
}

grep '^[cta]' test/suite | while read -r tiers name command; do
	[ "$1" = a ] || echo "$tiers" | grep -q "$1" || continue
	case $name in
	*%*) units "$1" "$name" "$command" ;;
	*) line "$name" "$command" ;;
	esac
done | awk '!seen[$1]++'
