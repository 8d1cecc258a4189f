#!/bin/sh
# SPDX-License-Identifier: MIT
# Reads every C file as clang does, with the warnings of the Makefile: each one is a failure.   test/clang.sh build
set -u
build=$1
if ! command -v clang >/dev/null; then
	echo "SKIPPED clang: it is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
warn='-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror -fsyntax-only'
here="-D_GNU_SOURCE -Iinclude -I. -I$build/test"
llvm="-isystem $(${LLVM_CONFIG:-llvm-config-19} --includedir 2>/dev/null)"
passed=0 failed=0
group() { # flags, files
	flags=$1
	shift
	if text=$(clang $flags $warn $here "$@" 2>&1); then
		passed=$((passed + $#))
	else
		failed=$((failed + 1))
		printf '%s\n' "$text" | grep -E '(warning|error):' | head -20
	fi
}
for folder in runtime guards ir lower jit functions codegen_cuda test test/unit; do group -std=c11 "$folder"/*.c; done
group "-std=c11 $llvm" codegen_llvm/*.c
group "-std=c11 -DFAKE_SOURCE=\"\"" test/fake/*.c
group -std=c11 examples/*.c
group "-std=gnu11 -fopenmp" bench/*.c
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
