#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints each prototype that is not in the section of the file that defines the function: header, function, file.
# A section of a header begins with a comment `/* ---- ...` or `/* plan.c */`. It is for the files that the comment names. If it names none,
# and before the first section, it is for the .c file with the name of the header. A function that is not found is defined by a macro.
for d in runtime ir guards lower codegen_llvm jit kit/files kit/data; do
	awk '
		FNR == 1 { file = FILENAME; sub(/.*\//, "", file); header = file ~ /\.h$/; files = file; sub(/\.h$/, ".c", files); own = files }
		!match($0, /(rt|ir|gd|lo|cg|jit|kit)_[a-z_0-9]+\(/) || !/^[a-z_].*[ *](rt|ir|gd|lo|cg|jit|kit)_[a-z_0-9]+\(/ { name = "" }
		match($0, /[ *](rt|ir|gd|lo|cg|jit|kit)_[a-z_0-9]+\(/) && /^[a-z_]/ { name = substr($0, RSTART + 1, RLENGTH - 2) }
		!header { if (name != "" && !/;$/ && !/^(static|typedef)/) home[name] = home[name] " " file; next }
		/^\/\* ---- / { files = own }
		/^\/\* (---- .*)?[a-z_0-9]+\.c[ ,:.]/ {
			files = ""
			line = $0
			while (match(line, /[a-z_0-9]+\.c[ ,:.]/)) {
				files = files " " substr(line, RSTART, RLENGTH - 1)
				line = substr(line, RSTART + RLENGTH)
			}
			next
		}
		name != "" && !/^(static|typedef|enum|#)/ && !/= / && (/\(.*;/ || /,$/) { n++; where[n] = FILENAME; what[n] = name; of[n] = files }
		END {
			for (i = 1; i <= n; i++) {
				k = split(home[what[i]], at, " ")
				ok = !k
				for (j = 1; j <= k; j++) ok = ok || index(" " of[i] " ", " " at[j] " ")
				if (!ok) print where[i], what[i], home[what[i]]
			}
		}' "$d"/*.c "$d"/*.h
done
