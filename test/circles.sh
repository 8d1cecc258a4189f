#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the files of a folder that call each other in a circle:  test/circles.sh build lower
for c in "$2"/*.c; do
	o=$1/${c%.c}.o
	[ ! -f "$o" ] || nm -P "$o" | awk -v file="$c" '{ print file, $2, $1 }'
done |
	awk '$2 == "U" { user[NR] = $1; name[NR] = $3 }
	     $2 ~ /^[TDRB]$/ { home[$3] = $1 }
	     END { for (i in user) if (name[i] in home) print user[i], home[name[i]] }' |
	tsort 2>&1 >/dev/null | sed -n 's/^tsort: \(.*\.c\)$/\1/p' | sort -u
