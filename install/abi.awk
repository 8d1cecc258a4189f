# SPDX-License-Identifier: MIT
# Reads the preprocessed include/tj.h, with the headers of the kit or without, and writes a C program that prints what a compiled program
# relies on, a line each: prototypes, values of constants, offsets and types of fields, sizes of structs. install/abi.sh runs it.

function squeezed(s) {
	gsub(/[ \t\n]+/, " ", s)
	sub(/^ /, "", s)
	sub(/ $/, "", s)
	return s
}
function said(s) { # a line of text
	gsub(/"/, "\\\"", s)
	printf "\tputs(\"%s\");\n", s
}
function parts(s, sep, list,    i, c, n, depth) { # s, cut at each sep that stands in no brackets
	n = 1
	list[1] = ""
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c ~ /[({[]/) depth++
		if (c ~ /[])}]/) depth--
		if (c == sep && !depth) list[++n] = ""
		else list[n] = list[n] c
	}
	return n
}
function unnamed(p) { # a parameter without its name, and those of a pointer to a function
	p = squeezed(p)
	if (p == "void" || p == "...") return p
	if (match(p, /\(\*[a-z_0-9]*\)\(/)) {
		sub(/\(\*[a-z_0-9]*\)/, "(*)", p)
		return listed(p, index(p, ")(") + 1)
	}
	sub(/[A-Za-z_0-9]+$/, "", p)
	return squeezed(p)
}
function listed(s, open,    n, list, i, text) { # s, whose parameters begin at open, without their names
	text = substr(s, 1, open)
	sub(/\)$/, "", s)
	n = parts(substr(s, open + 1), ",", list)
	for (i = 1; i <= n; i++) text = text (i > 1 ? ", " : "") unnamed(list[i])
	return text ")"
}
function enum_(s,    name, n, list, i, one) {
	name = squeezed(substr(s, index(s, "}") + 1))
	sub(/^[^{]*\{/, "", s)
	sub(/\}.*/, "", s)
	n = parts(s, ",", list)
	for (i = 1; i <= n; i++) {
		one = squeezed(list[i])
		sub(/ *=.*/, "", one)
		if (one != "" && one !~ /_COUNT$/) printf "\tprintf(\"enum %s%s = %%d\\n\", (int)%s);\n", name == "" ? "" : name " ", one, one
	}
}
# One declarator: `*b` of `const char *a, *b`, `f[3]`, or `(*run)(void *env)`.
function field(struct, base, d,    name, type) {
	d = squeezed(d)
	name = d
	if (d ~ /^\(\*/) { sub(/^\(\*/, "", name); sub(/\).*/, "", name) }
	else { sub(/\[.*/, "", name); gsub(/[* ]|const/, "", name) }
	if (d ~ /^\(\*/) type = unnamed(d)
	else { type = d; sub(name, "", type) }
	printf "\tprintf(\"struct %s .%s at %%zu: %s\\n\", offsetof(%s, %s));\n", struct, name, squeezed(base " " type), struct, name
}
function struct_(s,    name, n, list, i, m, d, k, text, base, grows) {
	name = squeezed(substr(s, match(s, /\}[^}]*$/) + 1))
	sub(/^[^{]*\{/, "", s)
	sub(/\}[^}]*$/, "", s)
	n = parts(s, ";", list)
	grows = squeezed(list[1]) == "size_t size" || name in made_by_library
	printf "\tprintf(\"struct %s has %%zu bytes%s\\n\", sizeof(%s));\n", name, grows ? " or more" : "", name
	for (i = 1; i <= n; i++) {
		text = squeezed(list[i])
		if (text == "") continue
		m = parts(text, ",", d)
		base = d[1] = squeezed(d[1])
		if (base ~ /\(\*/) sub(/ *\(\*.*/, "", base)
		else { sub(/\[.*/, "", base); sub(/[A-Za-z_0-9]+$/, "", base); sub(/ *\**(const)? *$/, "", base) }
		d[1] = substr(d[1], length(base) + 1)
		for (k = 1; k <= m; k++) field(name, squeezed(base), d[k])
	}
}
function statement(s) {
	s = squeezed(s)
	if (s == "" || s ~ /^static /) return
	if (s ~ /^(typedef )?enum/) enum_(s)
	else if (s ~ /^typedef struct [a-z_0-9]+ \{/) struct_(s)
	else if (s ~ /^typedef struct/) return
	else if (s ~ /^typedef .*\(/) said(listed(s, index(s, "(")))
	else if (s ~ /^typedef|^extern/) said(s)
	else if (s ~ /\)$/) said(listed(s, index(s, "(")))
	else { print "cannot read: " s | "cat >&2"; bad = 1 }
}

BEGIN {
	# Structs that programs neither make nor have in arrays: fields may be appended.
	split("tj_error tj_guard tj_machine tj_reason tjnn_slot tj_safetensors_entry tj_gguf_entry", list, " ")
	for (i in list) made_by_library[list[i]]
	print "#include <tj.h>\n#include <stddef.h>\nint main(void)\n{"
}
{ text = text $0 "\n" }
END {
	for (i = 1; i <= length(text); i++) {
		c = substr(text, i, 1)
		if (c == "{") depth++
		if (c == "}" && !--depth && one ~ /^[ \n]*static /) { one = ""; continue }
		if (c == ";" && !depth) { statement(one); one = "" }
		else one = one c
	}
	split("TJ_MAX_RANK TJ_UNMAPPED TJ_END_DIM", constant, " ")
	for (i = 1; i in constant; i++) printf "\tprintf(\"%s = %%lld\\n\", (long long)%s);\n", constant[i], constant[i]
	print "\tprintf(\"TJ_END = %zu\\n\", (size_t)TJ_END);\n\treturn 0;\n}"
	exit bad
}
