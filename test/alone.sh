#!/bin/sh
# SPDX-License-Identifier: MIT
# What the library needs, and what it says where there is no GPU.
#   test/alone.sh build-folder
build=$1 passed=0 failed=0
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
verdict() { # result, name
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && cat "$tmp"; fi
}

# Nothing of CUDA, and no compiler: both are opened by name.
readelf -d "$build/libtj.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort >"$tmp"
[ "$(tr '\n' ' ' <"$tmp")" = 'ld-linux-x86-64.so.2 libc.so.6 libgcc_s.so.1 libm.so.6 libxxhash.so.0 ' ]
verdict $? 'libtj.so links other libraries than xxHash and those of C:'

skipped=0
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
	echo 'SKIP the demo without a GPU: there is a driver' && skipped=1
else
	"$build/examples/char_lm" README.md 2 cuda >"$tmp" 2>&1
	[ $? -eq 1 ] && grep -q 'libcuda' "$tmp"
	verdict $? 'without a GPU the demo does not exit with 1, or does not say what is missing:'
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
