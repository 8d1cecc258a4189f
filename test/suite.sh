#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the programs of these tiers of test/suite, each as a line `name command`:  BUILD=build test/suite.sh tier...
set -u
B=${BUILD:-build}
# Programs of more than 8 s on a quiet core. `make test` runs them once: with sanitizers, or plain where these would check little but
# numbers; `make check` if they are asked for. test_codegen runs in both ways: with sanitizers it compiles one width of each kernel only.
slow=' test_alloc test_attention test_checkpoint test_codegen test_cuda test_epilogues test_grad test_inside test_lines test_math test_pairs test_scatter test_tiles test_turns test_vmap '
plain=' test_attention test_math test_pairs test_vmap '
# gcc 12's leak sanitizer sometimes crashes in its own tracer after threads have ended; the tests without threads look for leaks.
threaded=' test_classes test_codegen test_contexts test_devices test_dynamic test_matmul test_lower test_team test_threads test_wrap '

line() { # name, command
	name=$1 && shift
	case $name in
	san_test_cuda | san_test_cublas | san_test_driver_fails | san_test_epilogues | san_test_fake | san_test_graphs | san_test_lines | san_test_programs | san_test_scatter | san_test_streams | san_test_tiles | san_test_undo) # the sanitizer's dlopen() knows no rpath; the fakes keep what they were given
		set -- "LD_LIBRARY_PATH=\$B-san/test/fake ASAN_OPTIONS=detect_leaks=0 $*"
		;;
	san_*) case $threaded in *" ${name#san_} "*) set -- "ASAN_OPTIONS=detect_leaks=0 $*" ;; esac ;;
	esac
	echo "$name $*" | sed "s|\$B|$B|g"
}

each() { # tier, name, command
	case $2 in
	*%*)
		for t in test/unit/test_*.c; do
			t=$(basename "$t" .c)
			case "$1 $2" in
			'check %') case $slow in *" $t "*) continue ;; esac ;;
			'slow %') case $slow in *" $t "*) ;; *) continue ;; esac ;;
			'long %') case $plain' test_codegen ' in *" $t "*) ;; *) continue ;; esac ;;
			*) case $plain in *" $t "*) continue ;; esac ;;
			esac
			line $(echo "$2 $3" | sed "s|%|$t|g")
		done
		;;
	*) line "$2" "$3" ;;
	esac
}

for tier; do
	grep "^$tier " test/suite | while read -r t name command; do each "$t" "$name" "$command"; done
done
