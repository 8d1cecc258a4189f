#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples of docs/GUIDE.md must compile without a warning and print the text that follows them:  test/guide.sh build
set -u
dir=$(mktemp -d) passed=0 failed=0
trap 'rm -rf "$dir"' EXIT

# N/guide.c: the part at file scope, then main; N/want: the expected output.
awk -v dir="$dir" '
	/^```c$/ {
		n++
		in_c = 1
		system("mkdir " dir "/" n)
		file = dir "/" n "/guide.c"
		print "#include <tj.h>\n#include <stdint.h>\n#include <stdio.h>" > file
		next
	}
	/^```text$/ { want = n && !(n in done); file = dir "/" n "/want"; if (want) printf "" > file; next }
	/^```$/ {
		if (in_c) print "if (tj_check(c) != TJ_OK) tj_perror(c, stderr);\ntj_close(c);\n}" > file
		if (want) done[n]
		in_c = want = 0
		next
	}
	in_c && /^\/\* main \*\/$/ { print "int main(void)\n{\ntj_ctx *c = tj_open(NULL);" > file; next }
	in_c || want { print > file }' docs/GUIDE.md

build=$(cd "$1" && pwd) include=$PWD/include
for example in "$dir"/*; do
	if (cd "$example" && cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror guide.c -I"$include" \
		-L"$build" -ltj -lpthread -Wl,-rpath,"$build" -o guide &&
		./guide >out && diff want out); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL example $(basename "$example") of docs/GUIDE.md"
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
