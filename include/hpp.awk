# SPDX-License-Identifier: MIT
# Writes the section of include/tj.hpp with the functions of tj.h:  awk -f include/hpp.awk include/tj.h include/tj.hpp >new
# Each "TJ_API tj_tensor *tj_NAME_at(const char *site, ...)" becomes tj::NAME(). Operands, lists and options get the types of tj.hpp;
# results behind the first (tj_tensor **) are returned, too; parameters have the default values of the table below.

BEGIN {
	# by the name of a parameter, or by function.parameter
	split("keepdim=false opts={} bias=nullptr descending=false diagonal=0 r=TJ_LOSS_MEAN full=false correction=1 " \
		"equal_nan=false rtol=1e-5 atol=1e-8 density=false accumulate=false include_self=true align_corners=false " \
		"quantile.how=TJ_LINEAR nanquantile.how=TJ_LINEAR invert=false arange.step=1 slice.step=1 slice_scatter.step=1 " \
		"nan_to_num.nan=0 nan_to_num.posinf=INFINITY nan_to_num.neginf=-INFINITY addcmul.value=1 addcdiv.value=1 " \
		"leaky_relu.alpha=0.01 elu.alpha=1 celu.alpha=1 softplus.alpha=1 softplus.beta=20 hardshrink.alpha=0.5 " \
		"softshrink.alpha=0.5 hardtanh.alpha=-1 hardtanh.beta=1 glu.axis=-1 addmm.beta=1 addmm.alpha=1 addmv.beta=1 " \
		"addmv.alpha=1 addr.beta=1 addr.alpha=1 addbmm.beta=1 addbmm.alpha=1 baddbmm.beta=1 baddbmm.alpha=1 " \
		"sort.axis=-1 argsort.axis=-1 topk.axis=-1 topk.largest=true pad.mode=TJ_PAD_CONSTANT pad.value=0 norm.p=2 " \
		"flatten.first=0 flatten.last=-1 cat.axis=0 stack.axis=0 cosine_similarity.axis=1 cosine_similarity.eps=1e-8 " \
		"diff.n=1 diff.axis=-1 diff.before=nullptr diff.after=nullptr cross.axis=-1 vecdot.axis=-1 layer_norm.eps=1e-5 " \
		"layer_norm.weight=nullptr group_norm.eps=1e-5 group_norm.weight=nullptr layer_norm_over.eps=1e-5 " \
		"layer_norm_over.weight=nullptr smooth_l1_loss.beta=1 huber_loss.delta=1 dropout.training=true dropout.p=0.5 " \
		"normalize.eps=1e-12 normalize.axis=1 cdist.p=2 cdist.mode=TJ_CDIST_AUTO dist.p=2 logspace.base=10 " \
		"einsum.opts={} repeat_interleave.axis=0 roll.axis=0", pair, " ")
	for (i in pair) {
		at = index(pair[i], "=")
		preset[substr(pair[i], 1, at - 1)] = substr(pair[i], at + 1)
	}
	# those that tj.hpp has by hand, or whose parameters C++ has no better type for
	split("escape retain i from_data constant wrap from_data_on constant_on wrap_on param param_on call1 jvp grad_hook unscale scale_loss " \
		"fail arg_f", hand, " ")
	for (i in hand) skip[hand[i]] = 1
}

function folded(text, first, rest,    out, line, n, w, i) { # a comment of lines within 140 columns
	n = split(text, w, /[ \t]+/)
	line = first
	for (i = 1; i <= n; i++) {
		if (w[i] == "") continue
		if (length(line) + 1 + length(w[i]) > 138) { out = out line "\n"; line = rest }
		line = line " " w[i]
	}
	return out line "\n"
}

function default_of(name, p) { return (name "." p) in preset ? preset[name "." p] : p in preset ? preset[p] : "" }

# The parameter `text` of C: its type in type[k], its name in called[k], how it is passed in pass[k].
function parameter(text, k,    name) {
	name = text
	sub(/.*[ *]/, "", name)
	sub(/ *[A-Za-z0-9_]+$/, "", text)
	gsub(/ +\*/, " *", text)
	called[k] = name
	type[k] = text
	pass[k] = name
	if (text == "tj_tensor *") { type[k] = "operand"; pass[k] = name ".get()"; if (where == "") where = name }
	else if (text == "tj_dims") { type[k] = "const ints &"; pass[k] = name ".get()" }
	else if (text == "tj_list") { type[k] = "const tensor_list &"; pass[k] = name ".get()" }
	else if (text == "tj_tensor **") { type[k] = ""; pass[k] = "&more[" results++ "]" }
	else if (text ~ /^const tj_[a-z0-9_]+_opts \*$/) { sub(/ \*$/, " \\&", type[k]); pass[k] = "&" name }
}

function written(name, list,    n, part, k, wrapped, head, tail, given, tail_given, body, sign, d, open) {
	n = split(list, part, /, */)
	where = ""
	results = 0
	for (k = 1; k <= n; k++) parameter(part[k], k)
	tail = where == "" ? "caller at = caller()" : ""
	open = 1 # a parameter may have a default if all behind it have one
	if (where == "") where = "at"
	given = where ".site()"
	head = ""
	for (k = n; k >= 1; k--) {
		if (type[k] == "") continue
		d = default_of(name, called[k])
		if (type[k] == "const ints &" && called[k] == "axes" && d == "" && open && tail_has_keepdim) d = "ints::all()"
		if (called[k] == "keepdim") tail_has_keepdim = 1
		if (d == "") open = 0
		head = type[k] (type[k] ~ /[&*]$/ ? "" : " ") called[k] (open && d != "" ? " = " d : "") (head == "" ? "" : ", " head)
	}
	tail_has_keepdim = 0
	if (tail != "") head = head (head == "" ? "" : ", ") tail
	for (k = 1; k <= n; k++) given = given ", " pass[k]
	sign = "inline " (results ? "std::array<tensor, " results + 1 ">" : "tensor") " " name "(" head ")"
	if (!results) {
		body = "return detail::made(tj_" name "_at(" given "), " where ");"
		if (length(sign) + length(body) + 5 <= 140) return sign " { " body " }\n"
	} else body = "tj_tensor *more[" results "] = {}, *first = tj_" name "_at(" given ");\n\t" \
		"return detail::made<" results + 1 ">(first, more, " where ");"
	return broken(sign) "{\n" broken("\t" body) "}\n"
}

function broken(text,    out, i) { # a line of code as lines within 140 columns
	while (length(text) > 136) {
		for (i = 132; substr(text, i, 2) != ", "; i--);
		out = out substr(text, 1, i) "\n"
		text = "\t\t" substr(text, i + 2)
	}
	return out text "\n"
}

function flush_one() {
	if (name == "" || name in skip || params ~ /tj_ctx|tj_body|tj_scaler/) { name = ""; return }
	if (heading != "") made = made "\n// ---- " heading " ----\n"
	heading = ""
	made = made note
	if (example != "") made = made folded("C: " example, "///", "///  ")
	made = made written(name, params)
	name = ""
}

function prototype(text) {
	sub(/;.*/, "", text)
	gsub(/[ \t]+/, " ", text)
	if (text !~ /tj_tensor \*tj_[a-z0-9_]+_at\(const char \*site(, |\))/ || text ~ /\.\.\./) return
	match(text, /tj_[a-z0-9_]+_at\(/)
	queue[++queued] = substr(text, RSTART + 3, RLENGTH - 7)
	sub(/.*const char \*site(, )?/, "", text)
	sub(/\) *$/, "", text)
	args[queue[queued]] = text
	before[queue[queued]] = comment
	comment = ""
}

# ---- tj.h ----
FNR == 1 { file++ }
file == 1 && /^TJ_API tj_tensor \*tj_nonzero_at/ { from = 1 }
file == 1 && /^\/\* >>> ops/ { from = 1 }
file == 1 && from {
	if (incomment) {
		text = $0
		ended = text ~ /\*\//
		sub(/ *\*\/.*/, "", text)
		sub(/^ \* ?/, "", text)
		gather = gather " " text
		if (ended) { incomment = 0; gathered() }
		next
	}
	if (/^\/\*/) {
		gather = substr($0, 3)
		if (gather ~ /\*\//) { sub(/ *\*\/.*/, "", gather); gathered() } else incomment = 1
		next
	}
	if (inproto || /^TJ_API /) {
		line = $0
		gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
		proto = inproto ? proto " " line : line
		inproto = line !~ /;/
		if (!inproto) prototype(proto)
		next
	}
	if (/^#define tj_[a-z0-9_]+\(/) {
		match($0, /tj_[a-z0-9_]+/)
		macro = substr($0, RSTART + 3, RLENGTH - 3)
		if (match($0, /\/\* tj_.*\) = .* \*\/$/)) shown[macro] = substr($0, RSTART + 3, RLENGTH - 6)
		next
	}
	if (/^typedef|^[}\t]|^$/) { if (/^typedef/) comment = "" }
}

function gathered() {
	sub(/^ +/, "", gather)
	if (gather ~ /^tj_[a-z0-9_]+\(.*\) = / && macro != "" && index(gather, "tj_" macro "(") == 1) { shown[macro] = gather; return }
	if (gather ~ /^----/) {
		sub(/^-+ */, "", gather)
		sub(/ *-+$/, "", gather)
		title[queued + 1] = gather
		comment = ""
		return
	}
	if (gather ~ /^>>>|^<<<|^Written by/) return
	comment = gather
}

# ---- tj.hpp ----
file == 2 && /^\/\/ >>> functions/ {
	print
	for (q = 1; q <= queued; q++) {
		name = queue[q]
		params = args[name]
		example = shown[name]
		note = ""
		if (title[q] != "") heading = title[q]
		if (before[name] != "") note = folded(before[name], q < queued && before[queue[q + 1]] == "" ? "///" : "///", "///")
		flush_one()
	}
	printf "%s", made
	inside = 1
	next
}
file == 2 && /^\/\/ <<< functions/ { inside = 0 }
file == 2 && !inside { print }
