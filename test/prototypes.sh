#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints each prototype that is not in the section of the file that defines the function: header, function, file.
# A section of a header begins with a comment `/* ---- ...` or `/* plan.c */`. It is for the files that the comment names. If it names none,
# and before the first section, it is for the .c file with the name of the header.
set -u
for h in runtime/*.h ir/*.h guards/*.h lower/*.h codegen_llvm/*.h jit/*.h; do
	awk -v own="$(basename "$h" .h).c" '
		BEGIN { files = own }
		/^\/\* ---- / { files = own }
		/^\/\* (---- .*)?[a-z_0-9]+\.c[ ,:.]/ {
			files = ""
			line = $0
			while (match(line, /[a-z_0-9]+\.c[ ,:.]/)) {
				files = files " " substr(line, RSTART, RLENGTH - 1)
				line = substr(line, RSTART + RLENGTH)
			}
		}
		/^[a-z].*[ *](rt|ir|gd|lo|cg|jit)_[a-z_0-9]+\(.*;/ && !/^(static|typedef|enum|#)/ && !/= / {
			match($0, /(rt|ir|gd|lo|cg|jit)_[a-z_0-9]+\(/)
			print substr($0, RSTART, RLENGTH - 1), files
		}' "$h" | while read -r name files; do
		found=$(grep -lE "^[a-z_].*[ *]$name\(" "$(dirname "$h")"/*.c | while read -r c; do
			grep -qE "^[a-z_].*[ *]$name\(.*[^;]$" "$c" && basename "$c"
		done)
		for f in $found; do
			case " $files " in *" $f "*) continue 2 ;; esac
		done
		[ -z "$found" ] || echo "$h $name" $found # not found: a macro defines it
	done
done
