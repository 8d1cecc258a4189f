#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles include/tj.h as strict users do: test/use.c, and a call of every function through its macro, as each C since C11 and each C++
# since C++11, with gcc and clang. A warning is a failure. Also: the major version is that of the soname.   test/header.sh [folder]
set -u
folder=${1:-build}/header
rm -rf "$folder"
mkdir -p "$folder"
passed=0 failed=0 skipped=0
verdict() { # name, text ("" passes)
	if [ -z "$2" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL %s\n%s\n' "$1" "$(printf '%s\n' "$2" | head -12)"
	fi
}

# For each "TJ_API result name_at(const char *site, parameters);" a function that passes its parameters to the macro. Those with "..." are
# in use.c. In C++ a function pointer is a parameter like any other.
awk '
	/^TJ_API / { inside = 1; text = "" }
	inside {
		line = $0
		gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
		sub(/\/\*.*/, "", line)
		text = text " " line
		if (line !~ /;/) next
		inside = 0
		sub(/;.*/, "", text)
		if (text !~ /_at\(const char \*site/ || text ~ /\.\.\./) next
		sub(/^ *TJ_API /, "", text)
		match(text, /tj_[a-z0-9_]+_at\(const char \*site(, )?/)
		name = substr(text, RSTART, RLENGTH)
		result = substr(text, 1, RSTART - 1)
		list = substr(text, RSTART + RLENGTH)
		sub(/_at\(.*/, "", name)
		sub(/\)[ \t]*$/, "", list)
		gsub(/[ \t]+/, " ", list)
		n = split(list, part, /, */)
		args = ""
		for (i = 1; i <= n; i++) {
			arg = part[i]
			if (match(arg, /\(\*[a-z_]+\)/)) arg = substr(arg, RSTART + 2, RLENGTH - 3)
			sub(/\[.*| +$/, "", arg)
			sub(/.*[ *]/, "", arg)
			args = args (i > 1 ? ", " : "") arg
		}
		printf "%suse_%s(%s);\n", result, name, list
		printf "%suse_%s(%s) { %s%s(%s); }\n", result, name, list, result ~ /^void $/ ? "" : "return ", name, args
	}' include/tj.h >"$folder/calls.inc"
sed -n 's/^.*{ \(return \)*\(tj_[a-z0-9_]*\)(.*/\2/p' "$folder/calls.inc" | sort >"$folder/called"
sed -e :a -e '/\\$/N; s/ *\\\n[ \t]*/ /; ta' include/tj.h |
	sed -n 's/^#define \(tj_[a-z0-9_]*\)(.*) \1_at(TJ_SITE.*/\1/p' | grep -vx tj_fail | sort >"$folder/macros"
verdict 'each macro has a prototype, which is called' "$(diff "$folder/macros" "$folder/called")"
{
	echo '#include <tj.h>'
	cat "$folder/calls.inc"
} >"$folder/each.c"

strict='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror -Iinclude -fsyntax-only'
for compiler in gcc clang; do
	if ! command -v $compiler >/dev/null || ! command -v ${compiler%cc}++ >/dev/null; then
		echo "SKIPPED $compiler: it is not installed"
		skipped=$((skipped + 14))
		continue
	fi
	[ $compiler = gcc ] && plus=g++ || plus=clang++
	for file in test/use.c "$folder/each.c"; do
		for std in c11 c17 c2x; do
			verdict "$compiler -std=$std $file" "$($compiler -std=$std $strict -Wold-style-definition "$file" 2>&1)"
		done
		for std in c++11 c++14 c++17 c++20; do
			verdict "$plus -std=$std $file" "$($plus -x c++ -std=$std $strict -Wold-style-cast -Wzero-as-null-pointer-constant "$file" 2>&1)"
		done
	done
done
major=$(sed -n 's/^#define TJ_VERSION_MAJOR //p' include/tj.h)
named=$(sed -n 's/.*-soname,\([^ ]*\) .*/\1/p' Makefile)
verdict 'the soname has the major version' "$([ "$named" = libtj.so.$major ] || echo "the Makefile names $named, not libtj.so.$major")"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
