#!/bin/sh
# SPDX-License-Identifier: MIT
# Exported functions elsewhere: three models are traced and exported, then run in a root that has the C library, libtj and the files alone:
# no compiler, no bodies, no home. At each width of vectors, with the bits of the traced functions.
#   test/export.sh build-folder
set -u
build=$1 passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
verdict() { # result, name; what was said is in $tmp/said
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -5 "$tmp/said"; fi
}
skip() { echo "SKIPPED $1" && skipped=$((skipped + $2)); } # why, how many
bits() { cut -d' ' -f1,2 "$1"; }
unset TJ_CPU TJ_BACKEND
export TJ_CACHE=off

mkdir "$tmp/files"
"$build/test/exported" write "$tmp/files" >"$tmp/traced" 2>"$tmp/said"
verdict $? 'three models are exported:'
"$build/test/exported" run "$tmp/files" >"$tmp/said" 2>&1 && [ "$(bits "$tmp/said")" = "$(bits "$tmp/traced")" ]
verdict $? 'they run here without a compiler:'

# ---- a root with nothing else ----
root=$tmp/root
mkdir -p "$root/files" "$root/proc"
cp "$tmp"/files/*.tjx "$root/files"
cp "$build/test/exported" "$root/"
for f in $(ldd "$build/test/exported" | grep -o '/[^ ]*'); do
	mkdir -p "$root$(dirname "$f")" && cp "$f" "$root$f"
done
cp "$build/libtj.so" "$root/lib/libtj.so.0"
if chroot "$root" /exported nothing 2>/dev/null; [ $? = 2 ]; then
	for cpu in 128 256 512; do
		TJ_CPU=$cpu LD_LIBRARY_PATH=/lib chroot "$root" /exported run /files >"$tmp/said" 2>&1 &&
			[ "$(bits "$tmp/said")" = "$(bits "$tmp/traced")" ]
		case $cpu in
		128) [ $? -ne 0 ] && grep -q 'has no code for this CPU, 128 bits; it has code for: 256 bits, 512 bits' "$tmp/said" ;;
		esac
		verdict $? "in a root of its own, TJ_CPU=$cpu:"
	done
	find "$root" -name '*llvm*' -o -name '*LLVM*' -o -name '*.c' >"$tmp/said"
	[ ! -s "$tmp/said" ]
	verdict $? 'there is no compiler in that root:'
else
	skip 'a root of its own: chroot is not allowed' 4
fi
# ---- as object files, without libtj ----
"$build/test/exported" objects "$tmp/files" >"$tmp/said" 2>&1
verdict $? 'three models become object files:'
[ "$(wc -c <"$build/libtjrt.a")" -lt 307200 ] &&
	! nm -u "$build/libtjrt.a" | grep -vE 'memcpy|__cpu_|_GLOBAL_OFFSET_TABLE_|:$|^$' >"$tmp/said"
verdict $? 'libtjrt.a is small, and has no heap:'
for how in 'gcc -std=c11' 'clang -std=c11' 'g++ -x c++ -std=c++17' 'clang++ -x c++ -std=c++17'; do
	if command -v ${how%% *} >/dev/null; then
		$how -O1 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L -Iinclude -I"$tmp/files" -c -o "$tmp/main.o" test/embedded.c >"$tmp/said" 2>&1 &&
			${how%% *} -o "$tmp/embedded" "$tmp/main.o" "$tmp"/files/*.o "$build/libtjrt.a" -lpthread >"$tmp/said" 2>&1 &&
			"$tmp/embedded" >"$tmp/said" 2>&1 && [ "$(bits "$tmp/said")" = "$(bits "$tmp/traced")" ]
		verdict $? "$how:"
	else
		skip "${how%% *} is not installed" 1
	fi
done
"$build/test/exported" time "$tmp/files" | sed 's/^/  /'
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
