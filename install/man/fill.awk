# SPDX-License-Identifier: MIT
# Fills in a manual page:  awk -v version=0.1.0 [-v help=file] -f install/man/fill.awk docs/GUIDE.md page.scd
# @COMMANDS@ is what install/help.sh printed into the file. @ENVIRONMENT@ is the list of the section "Environment" of the guide: each item
# "- `NAME=value`: text." becomes an indented paragraph.

function put_item() {
	if (item == "") return
	at = index(item, "`: ")
	head = substr(item, 1, at)
	text = substr(item, at + 3)
	gsub(/`/, "", head)
	gsub(/\]\([A-Za-z]+\.md\)/, " of the documentation", text)
	gsub(/\[/, "", text)
	gsub(/`/, "*", text)
	list = list "*" head "*\n\t" text "\n\n"
	item = ""
}

# Words of another text, in which nothing is marked.
function plain(s) {
	gsub(/[\\*_#]/, "\\\\&", s)
	sub(/^[-|.[\]]/, "\\\\&", s)
	return s
}

# "      --json                 print JSON": an indented paragraph.
function option(s,    at) {
	sub(/^ +/, "", s)
	at = match(s, /  +/)
	printf "*%s*\n\t%s\n\n", plain(substr(s, 1, at ? at - 1 : length(s))), plain(substr(s, at ? at + RLENGTH : length(s) + 1))
}

function commands(    line, first) {
	while ((getline line <help) > 0) {
		if (line ~ /^== /) { first = 1; continue }
		if (first) print "## " plain(line) "\n"
		else if (line ~ /^ +(-[A-Za-z0-9], )?--/) option(line)
		else print plain(line)
		first = 0
	}
}

FNR == 1 { file++ }
file == 1 && /^## / { put_item(); inside = $0 == "## Environment"; next }
file == 1 && inside && /^- / { put_item(); item = substr($0, 3); next }
file == 1 && inside && /^  / && item != "" { item = item " " substr($0, 3); next }
file == 1 && inside { put_item() }
file == 2 && /^@ENVIRONMENT@$/ { put_item(); sub(/\n\n$/, "", list); print list; next }
file == 2 && /^@COMMANDS@$/ { commands(); next }
file == 2 { gsub(/@VERSION@/, version); gsub(/@MAJOR@/, int(version)); print }
