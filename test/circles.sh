#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the files of a folder that call each other in a circle:  test/circles.sh build lower
# Objects of files that are gone do not count.
for c in "$2"/*.c; do
	[ ! -f "$1/${c%.c}.o" ] || echo "$1/${c%.c}.o"
done | xargs nm -PA |
	awk -v build="$1/" '{ file = $1; sub(build, "", file); sub(/\.o:$/, ".c", file) }
	     $3 == "U" { user[NR] = file; name[NR] = $2 }
	     $3 ~ /^[TDRB]$/ { home[$2] = file }
	     END { for (i in user) if (name[i] in home) print user[i], home[name[i]] }' |
	tsort 2>&1 >/dev/null | sed -n 's/^tsort: \(.*\.c\)$/\1/p' | sort -u
