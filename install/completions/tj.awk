# SPDX-License-Identifier: MIT
# Makes the completions of the command tj of its help (install/help.sh):  awk -v shell=bash|zsh -f install/completions/tj.awk tj.help
# Words: the options of a command; "a|b" of its usage line; "Sections: a, b" of its text; of help, the commands. Behind these, files, if the
# usage line has FILE, FOLDER or PATH.

function quoted(s) { gsub(/'/, "'\\''", s); return "'" s "'" }
function zsh_text(s) { gsub(/\[|\]|:/, "\\\\&", s); return s }

/^== / { name = $2; order[++n] = name; first = 1; next }
first { # the usage line
	for (i = 3; i <= NF; i++) {
		w = $i
		gsub(/\[|\]|\./, "", w)
		if (w ~ /FILE|FOLDER|PATH|DIR/) files[name] = 1
		else if (w ~ /^[a-z|]*[a-z][a-z|]*$/) { gsub(/\|/, " ", w); words[name] = words[name] " " w }
	}
	first = 0
	next
}
!(name in line) { line[name] = $0; sub(/\.$/, "", line[name]); next }
/^Sections: / {
	text = $0
	while (text !~ /[;.]/ && (getline more) > 0) text = text " " more
	sub(/^Sections: /, "", text)
	sub(/[;.].*/, "", text)
	gsub(/, */, " ", text)
	words[name] = words[name] " " text
	next
}
/^ +(-[A-Za-z0-9], )?--/ {
	s = $0
	sub(/^ +/, "", s)
	letter = ""
	if (s ~ /^-[A-Za-z0-9], /) { letter = substr(s, 1, 2); s = substr(s, 5) }
	option = s
	sub(/ .*/, "", option)
	s = substr(s, length(option) + 1)
	value = ""
	if (s ~ /^ [A-Z]/) { value = s; sub(/^ /, "", value); sub(/ .*/, "", value); s = substr(s, length(value) + 2) }
	sub(/^ +/, "", s)
	options[name] = options[name] " " option (letter == "" ? "" : " " letter)
	if (value != "") takes[name] = takes[name] " " option (letter == "" ? "" : " " letter)
	spec = "[" zsh_text(s) "]" (value == "" ? "" : ":" tolower(value) ":" (value ~ /FILE|FOLDER|PATH|DIR/ ? "_files" : ""))
	zsh[name] = zsh[name] " " quoted(option spec) (letter == "" ? "" : " " quoted(letter spec))
}
END {
	for (i = 1; i <= n; i++) all = all (i > 1 ? " " : "") order[i]
	words["help"] = " " all
	if (shell == "bash") {
		print "# completions of tj for bash\n_tj()\n{\n\tlocal words= options= takes= cur=${COMP_WORDS[COMP_CWORD]}"
		print "\tif ((COMP_CWORD == 1)); then\n\t\twords='" all "' options='--help --version'\n\telse\n\t\tcase ${COMP_WORDS[1]} in"
		for (i = 1; i <= n; i++)
			printf "\t\t%s) words='%s' options='%s' takes='%s ' ;;\n", order[i], substr(words[order[i]], 2),
				substr(options[order[i]] " --help", 2), takes[order[i]]
		print "\t\tesac\n\tfi\n\t[[ $cur != -* ]] || words=$options"
		print "\t[[ $takes != *\" ${COMP_WORDS[COMP_CWORD-1]} \"* ]] || words= # the value of an option"
		print "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n# Files where no word fits\ncomplete -o default -F _tj tj"
	} else {
		print "#compdef tj\n# completions of tj for zsh\n_tj()\n{\n\tlocal -a commands\n\tcommands=("
		for (i = 1; i <= n; i++) print "\t\t" quoted(order[i] ":" zsh_text(line[order[i]]))
		print "\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command commands\n\t\treturn\n\tfi"
		print "\tshift words\n\t((CURRENT--))\n\tcase $words[1] in"
		for (i = 1; i <= n; i++) {
			rest = words[order[i]] != "" ? " '*:word:(" substr(words[order[i]], 2) ")'" : ""
			if (files[order[i]]) rest = words[order[i]] != "" ? " '1:word:(" substr(words[order[i]], 2) ")' '*:file:_files'" : " '*:file:_files'"
			print "\t" order[i] ") _arguments '--help[say more of it]'" zsh[order[i]] rest " ;;"
		}
		print "\tesac\n}\n_tj \"$@\""
	}
}
