#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds a tree that runs without installing anything: programs, libraries without their symbols, and the tests for a GPU:
#   test/pack.sh build folder
set -eu
cd "$(dirname "$0")/.."
build=$1 to=$2
rm -rf "$to"
mkdir -p "$to/lib" "$to/test/unit" "$to/test/examples" "$to/examples"
put() { strip -o "$to/$2" "$build/$1"; }
put libtj.so.0 lib/libtj.so.0
put libtj-llvm.so lib/libtj-llvm.so
put tj-gpu tj-bench
for t in prelude matrix fuzz; do put "test/$t" "test/$t"; done
for t in test_cuda test_streams test_graphs test_scatter test_lines test_tiles test_undo test_cublas test_epilogues; do
	[ ! -x "$build/test/unit/$t" ] || put "test/unit/$t" "test/unit/$t"
done
for e in hello toy branch newton char_lm; do put "examples/$e" "examples/$e"; done
cp test/examples/*.out "$to/test/examples"
cp test/device.sh test/examples.sh "$to/test"
# Libraries that another Linux may lack; the C library and the loader are those of the machine.
for f in "$to"/lib/* "$to"/tj-bench "$to"/test/fuzz "$to"/test/unit/*; do ldd "$f"; done | awk '$3 ~ /^\// { print $3 }' | sort -u |
	grep -vE '/(libc|libm|libpthread|libdl|librt|libtj)\.so|/ld-linux' | while read -r lib; do cp -L "$lib" "$to/lib"; done
size=$(du -sm "$to" | cut -f1)
echo "$to: $size MiB; run test/device.sh there"
[ "$size" -le 50 ]
