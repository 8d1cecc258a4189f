#!/bin/sh
# SPDX-License-Identifier: MIT
# The first program of README.md must compile as shown, without a warning, and run:  test/readme.sh build
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk '/^```c$/ { p = 1; next } /^```$/ { p = 0 } p' README.md >"$dir/first.c"
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$dir/first.c" -Iinclude -L"$1" -ltj -Wl,-rpath,"$PWD/$1" -o "$dir/first"
"$dir/first" >"$dir/out"
grep -q '3 calls, 2 hits' "$dir/out" || { cat "$dir/out"; exit 1; }
echo "1 passed, 0 failed, 0 skipped"
