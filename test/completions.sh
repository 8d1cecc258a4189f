#!/bin/sh
# SPDX-License-Identifier: MIT
# The completions of the command tj, in bash and zsh.   test/completions.sh build-folder
set -u
build=$1 passed=0 failed=0 skipped=0
if [ ! -x "$build/tj" ]; then
	echo "SKIPPED there is no command tj"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
make -s --no-print-directory BUILD="$build" "$build/completions/tj" "$build/completions/_tj" || exit 1
verdict() { # wanted, said, name
	if [ "$1" = "$2" ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && printf 'FAIL %s: %s, not %s\n' "$3" "$2" "$1"; fi
}
# What bash offers for the last word of a command line
in_bash() {
	bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tj; echo ${COMPREPLY[*]}' "$build/completions/tj" "$@"
}
if command -v bash >/dev/null; then
	verdict 'info' "$(in_bash tj inf)" 'bash: tj inf'
	verdict '--help --version' "$(in_bash tj --)" 'bash: tj --'
	verdict 'devices' "$(in_bash tj info dev)" 'bash: tj info dev'
	verdict '--json --help' "$(in_bash tj info -)" 'bash: tj info -'
	verdict 'info' "$(in_bash tj help inf)" 'bash: tj help inf'
	verdict '' "$(in_bash tj cache --folder '')" 'bash: tj cache --folder, which takes one'
	verdict 'ls stats verify clear' "$(in_bash tj cache '')" 'bash: tj cache'
	verdict '--header --help' "$(in_bash tj compile --he)" 'bash: tj compile --he'
	verdict '--save-state' "$(in_bash tj run --sa)" 'bash: tj run --sa'
	verdict '' "$(in_bash tj show '')" 'bash: tj show, which takes files'
	verdict "$("$build/tj" help | awk '/^  [a-z]/ { print $1 }' | tr '\n' ' ')" "$(in_bash tj '') " 'bash: all commands'
else
	echo 'SKIPPED bash is not installed' && skipped=$((skipped + 11))
fi
# What zsh hands to its own functions
in_zsh() {
	zsh -f -c '_describe() { print -r -- ${commands%%:*}; }; _arguments() { print -r -- "$@"; }
		file=$1; shift; words=("$@"); CURRENT=$#; . $file' zsh "$build/completions/_tj" "$@"
}
if command -v zsh >/dev/null; then
	verdict "$("$build/tj" help | awk '/^  [a-z]/ { print $1 }' | tr '\n' ' ')" "$(in_zsh tj '') " 'zsh: all commands'
	verdict 1 "$(in_zsh tj info '' | grep -c '^--help.* --json\[print JSON\] .*word:(version .* environment)$')" 'zsh: tj info'
	verdict 1 "$(in_zsh tj show '' | grep -c ' \*:file:_files$')" 'zsh: tj show'
else
	echo 'SKIPPED zsh is not installed' && skipped=$((skipped + 3))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
