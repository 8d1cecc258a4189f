# SPDX-License-Identifier: MIT
# Fills in a manual page:  awk -v version=0.1.0 -f install/man/fill.awk docs/GUIDE.md page.scd
# @ENVIRONMENT@ is the list of the section "Environment" of the guide: each item "- `NAME=value`: text." becomes an indented paragraph.

function put_item() {
	if (item == "") return
	at = index(item, "`: ")
	head = substr(item, 1, at)
	text = substr(item, at + 3)
	gsub(/`/, "", head)
	gsub(/\[[A-Za-z]+\.md\]\([A-Za-z]+\.md\)/, "the page CUDA.md of the source", text)
	gsub(/`/, "*", text)
	list = list "*" head "*\n\t" text "\n\n"
	item = ""
}

FNR == 1 { file++ }
file == 1 && /^## / { put_item(); inside = $0 == "## Environment"; next }
file == 1 && inside && /^- / { put_item(); item = substr($0, 3); next }
file == 1 && inside && /^  / && item != "" { item = item " " substr($0, 3); next }
file == 1 && inside { put_item() }
file == 2 && /^@ENVIRONMENT@$/ { put_item(); sub(/\n\n$/, "", list); print list; next }
file == 2 { gsub(/@VERSION@/, version); gsub(/@MAJOR@/, int(version)); print }
