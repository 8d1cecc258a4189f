#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the mutable globals of the library and its plug-in as lines "file name":  test/globals.sh build
for o in $(find "$1"/runtime "$1"/guards "$1"/ir "$1"/lower "$1"/jit "$1"/codegen_llvm "$1"/codegen_cuda "$1"/kit -name '*.o'); do
	objdump -t "$o" | awk -v file="${o#"$1"/}" '/ \.(t?bss|t?data)[ \t]/ && $NF !~ /^\./ {
		sub(/\.[0-9]+$/, "", $NF)
		sub(/\.o$/, ".c", file)
		print file, $NF
	}'
done | sort
