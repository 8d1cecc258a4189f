#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the help of the command tj and of each of its commands, for the manual page and the completions:  install/help.sh build/tj
# Each text begins with a line "== NAME".
set -eu
"$1" help | awk '/^  [a-z]/ { print $1 }' | while read -r command; do
	echo "== $command"
	"$1" help "$command"
done
