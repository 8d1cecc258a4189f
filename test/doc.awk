# SPDX-License-Identifier: MIT
# Makes C of the examples of include/tj.h:  awk -f test/doc.awk include/tj.h >doc.inc
# An example is the comment of a macro, "tj_sqrt([4., 9.]) = [2., 3.]": a call, and its results. It stands behind the macro, or below it in
# lines of its own. The call is C, but for tensors in brackets. "&i" receives a further result, `out` all of them. Each function from the
# list of ops on must have one, or "no example: why".

# The first place in s, from i on, where a tensor begins: "[" or "f16[", but not the "[" of a C array. 0: none.
function tensor_at(s, i,    j) {
	for (; i <= length(s); i++) {
		if (substr(s, i, 1) != "[") continue
		for (j = i; substr(s, j - 1, 1) ~ /[])A-Za-z0-9_]/; j--);
		if (j == i || substr(s, j, i - j) ~ /^(bool|u8|i8|i16|i32|i64|f16|bf16|f32|f64)$/) return j
	}
	return 0
}

# The place behind the bracket that closes the first one from i on.
function closed_at(s, i,    c, depth) {
	for (; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c ~ /[[(]/) depth++
		if (c ~ /[])]/ && !--depth) return i + 1
	}
	return i
}

function quoted(s) {
	gsub(/\\/, "\\\\", s)
	gsub(/"/, "\\\"", s)
	return "\"" s "\""
}

# The call in C. Sets tensors, a list of its operands.
function in_c(s,    i, j, n) {
	tensors = ""
	for (n = 0; i = tensor_at(s, 1); n++) {
		j = closed_at(s, i)
		tensors = tensors quoted(substr(s, i, j - i)) ", "
		s = substr(s, 1, i - 1) "in@" n "@" substr(s, j)
	}
	for (i = 1; match(s, /&[a-z_]+[,)]/); i++) s = substr(s, 1, RSTART) "out@" i "@" substr(s, RSTART + RLENGTH - 1)
	gsub(/@[0-9]+@/, "[&]", s)
	gsub(/@/, "", s)
	return s
}

# The results as a list: a comma within brackets separates elements.
function list_of(s,    i, n) {
	for (n = ""; s != ""; s = substr(s, i + 2)) {
		i = index(s, "[") && index(s, "[") < index(s ",", ",") ? closed_at(s, 1) : index(s ",", ",")
		n = n quoted(substr(s, 1, i - 1)) ", "
	}
	return n
}

# The macro `name` has this comment, "" if none: a test.
function example(name, text,    end, call) {
	if (text ~ /^no example: /) return
	if (text !~ /\) = /) {
		if (required) rows = rows "\t{ .text = \"" name " has no example\" },\n"
		return
	}
	if (!index(text, name "(")) { rows = rows "\t{ .text = \"the example of " name " does not call it\" },\n"; return }
	end = closed_at(text, 1)
	call = in_c(substr(text, 1, end - 1))
	printf "static void doc_%d(tj_tensor **out, tj_tensor *const *in, void *self)\n{\n\t(void)in, (void)self;\n\t%s%s;\n}\n", ++n,
		call ~ /, out\)$/ ? "(void)" : "out[0] = ", call
	rows = rows sprintf("\t{ %s, doc_%d, { %sNULL }, { %sNULL } },\n", quoted(text), n, tensors, list_of(substr(text, end + 3)))
}

# Gives what is known of the last macro to example().
function done() {
	if (name != "") example(name, text)
	name = text = ""
}

/^\/\* >>> ops \*\/$/ { done(); required = 1 }
open { # a comment goes on
	sub(/^ \* /, "")
	text = text " " $0
}
!open && name != "" && !whole { # a macro goes on
	whole = $0 !~ /\\$/
	next
}
!open && name != "" && text == "" && /^\/\* (tj_[a-z0-9_]+\([^)]|no example: )/ { text = substr($0, 4); open = 1 }
!open && name != "" { done() }
!open && /^#define tj_[a-z0-9_]+\(/ {
	match($0, /tj_[a-z0-9_]+/)
	name = substr($0, RSTART, RLENGTH)
	whole = $0 !~ /\\$/
	if (match($0, /\/\* (no example: |.*\) = ).* \*\/$/)) text = substr($0, RSTART + 3)
	else next
	open = 1
}
open && / \*\/$/ {
	sub(/ \*\/$/, "", text)
	open = 0
}
END {
	done()
	printf "static const doc docs[] = {\n%s};\n", rows
}
