#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares a header with the baseline, a list of all that compiled programs rely on:
#   install/abi.sh [-w] [include/tj.h [install/abi.txt]]
#   install/abi.sh -k [-w] [include [install/abi-kit.txt]]        the headers of the kit in that folder
# What the baseline has must be in the header, unchanged; more may be there. A struct that begins with .size, or that only the library
# makes, may grow at its end, but not into the padding that it had: a library cannot tell such a field from what older programs left there.
# -w: writes the baseline.
set -eu
write= kit=
[ "${1:-}" = -k ] && kit=1 && shift
[ "${1:-}" = -w ] && write=1 && shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ -n "$kit" ]; then
	folder=${1:-include} baseline=${2:-install/abi-kit.txt} header=$tmp/kit.h
	for h in tj tjfiles tjdlpack tjmodel tjdata tjdist tjnn; do sed '/^#include <tj[a-z]*\.h>/d' "$folder/$h.h"; done >"$header"
	"$0" -w "$folder/tj.h" "$tmp/base" # what is tj.h's own is in its list
else
	header=${1:-include/tj.h} baseline=${2:-install/abi.txt}
	: >"$tmp/base"
fi
cc=${CC:-cc}
sed '/^#include/d; /^#define TJ_\(API\|PRINTF\)/d' "$header" | $cc -std=c11 -E -P -xc -DTJ_API= -D'TJ_PRINTF(f,a)=' - |
	awk -f install/abi.awk >"$tmp/abi.c"
mkdir "$tmp/include"
cp "$header" "$tmp/include/tj.h"
$cc -std=c11 -I"$tmp/include" -o "$tmp/abi" "$tmp/abi.c"
"$tmp/abi" | LC_ALL=C sort -u | LC_ALL=C comm -23 - "$tmp/base" >"$tmp/now"
if [ -n "$write" ]; then
	cp "$tmp/now" "$baseline"
	exit 0
fi
awk '
	FNR == NR { if ($0 ~ / or more$/) size[$2] = $4; else old[$0]; next }
	/ or more$/ { if ($2 in size && $4 < size[$2]) print "smaller: " $0; delete_[$2]; next }
	{
		now[$0]
		if (!($0 in old) && $1 == "struct" && $4 == "at" && $2 in size && $5 + 0 < size[$2])
			print "within the " size[$2] " bytes of an earlier version: " $0
		if (!($0 in old)) added++
	}
	END {
		for (s in size) if (!(s in delete_)) print "gone: struct " s
		for (line in old) if (!(line in now)) print "gone or changed: " line
		if (added) print added " additions" | "cat >&2"
	}' "$baseline" "$tmp/now" | LC_ALL=C sort >"$tmp/broken"
[ -s "$tmp/broken" ] || exit 0
cat "$tmp/broken"
exit 1
