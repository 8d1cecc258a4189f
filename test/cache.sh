#!/bin/sh
# SPDX-License-Identifier: MIT
# The disk cache among processes: warm starts open no compiler; processes that race and are killed; mounts that forbid code, are full or
# read-only; programs with more rights than their user.
#   test/cache.sh build-folder [rounds of 16 racing processes]
set -u
build=$1 rounds=${2:-3} passed=0 failed=0 skipped=0
tmp=$(mktemp -d) mounts=
trap 'for m in $mounts; do umount "$m" 2>/dev/null; done; rm -rf "$tmp"' EXIT
verdict() { # result, name; what was said is in $tmp/said
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -5 "$tmp/said"; fi
}
skip() { echo "SKIPPED $1" && skipped=$((skipped + $2)); } # why, how many
warm=$build/test/warm
said() { "$@" >"$tmp/said" 2>&1; } # what a command says
says() { grep -q -- "$1" "$tmp/said"; }
unset XDG_CACHE_HOME TJ_CPU TJ_LOADER TJ_BACKEND
right=$(TJ_CACHE=off $warm 4 | cut -d' ' -f1)

# ---- warm ----
export HOME="$tmp/home" && mkdir "$HOME" && unset TJ_CACHE
said $warm 4 && says "^$right compiled 4 loaded 0 compiler opened"
verdict $? 'the first process compiles:'
said $warm 4 && says "^$right compiled 0 loaded 4 compiler not"
verdict $? 'the second one opens no compiler:'
[ "$(find "$HOME/.cache/tjit" -type f | wc -l)" = 4 ] && [ "$(stat -c %a "$HOME/.cache/tjit")" = 700 ]
verdict $? 'four files in a folder of mode 700'
said $warm 5 && says "^[0-9a-f]* compiled 1 loaded 4 compiler opened"
verdict $? 'a third one compiles what is new:'
for bits in 128 256 512; do
	export TJ_CPU=$bits
	said $warm 4 && said $warm 4 && says "^$right compiled 0 loaded 4 compiler not"
	verdict $? "TJ_CPU=$bits:"
	said env TJ_CODEGEN=fast $warm 4 && said env TJ_CODEGEN=fast $warm 4 && says "^$right compiled 0 loaded 4 compiler not"
	verdict $? "TJ_CPU=$bits TJ_CODEGEN=fast:"
done
unset TJ_CPU
said env TJ_BACKEND=eval $warm 4 && says "^$right compiled 0 loaded 0 compiler not"
verdict $? 'the evaluator:'
said env TJ_LOADER=orc TJ_CACHE="$tmp/orc" $warm 4 && says "^$right compiled 4 loaded 0" && [ -z "$(find "$tmp/orc" -type f)" ]
verdict $? 'ORC links, and nothing is written:'
gpu="env TJ_DEVICE=cuda:0 LD_LIBRARY_PATH=$build/test/fake $warm 4"
said $gpu && says "^$right compiled 4" && said $gpu && says "^$right compiled 0 loaded 4 compiler not"
verdict $? 'a GPU (that computes on the CPU): the second process opens no NVRTC:'
said $warm -v && says " 0 not"
verdict $? 'all entries are whole:'

# ---- damage: each file in turn loses its end, is emptied, or is another one ----
export TJ_CACHE="$tmp/damage"
$warm 4 >/dev/null
for f in $(find "$tmp/damage" -type f); do
	truncate -s -1 "$f"
	said $warm 4 && says "^$right compiled 1 loaded 3" && [ "$(grep -c 'is not used, and made again' "$tmp/said")" = 1 ]
	verdict $? 'a file that is too short:'
	: >"$f"
	said $warm 4 && says "^$right compiled 1 loaded 3"
	verdict $? 'an empty file:'
	cat $(find "$tmp/damage" -type f | grep -v "$f" | head -1) >"$tmp/other" && cat "$tmp/other" >"$f"
	said $warm 4 && says "^$right compiled 1 loaded 3"
	verdict $? 'another entry:'
done

# ---- races: 16 processes on cold entries; a third is killed, one after the other, at any time of the round ----
wrong=0 killed=0 many=16 took=1000 # functions; ms that a round took in which all was compiled
all=$(TJ_CACHE=off $warm $many | cut -d' ' -f1)
random() { od -An -N2 -tu2 /dev/urandom | awk -v most="$1" '{ printf "%.3f", $1 / 65536 * most / 1000 }'; } # seconds of at most $1 ms
for round in $(seq "$rounds"); do
	export TJ_CACHE="$tmp/race$((round % 2))"
	cold=$((round % 3)) most=$((took / 5))
	if [ $cold = 0 ]; then most=$((took / 60)); else rm -rf "$TJ_CACHE"; fi
	rm -f "$tmp"/race.* && victims= others= began=$(date +%s%3N)
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
		TJ_THREADS=1 $warm $many >"$tmp/race.$i" 2>&1 &
		if [ $((i % 3)) = 0 ]; then victims="$victims $!"; else others="$others $i:$!"; fi
	done
	for p in $victims; do sleep "$(random "$most")" && kill -9 "$p" 2>/dev/null; done
	for p in $victims; do
		wait "$p" 2>/dev/null
		status=$? # 137: it was killed, and had not ended before
		[ $status = 137 ] && killed=$((killed + 1))
		[ $status = 137 ] || [ $status = 0 ] || wrong=$((wrong + 1))
	done
	for p in $others; do
		{ wait "${p#*:}" && grep -q "^$all " "$tmp/race.${p%:*}"; } || { wrong=$((wrong + 1)) && cat "$tmp/race.${p%:*}"; }
	done
	[ $cold = 0 ] || took=$(($(date +%s%3N) - began))
	said $warm -v || wrong=$((wrong + 1))
	said $warm $many && says "^$all compiled 0 loaded $many compiler not" || wrong=$((wrong + 1))
done
echo "$rounds rounds of 16 processes, $killed of $((rounds * 5)) killed before their end: $wrong wrong"
[ $wrong = 0 ]
verdict $? 'races'

# ---- mounts ----
mounted() { # options, folder
	mkdir -p "$2" && mount -t tmpfs -o "$1" tmpfs "$2" 2>/dev/null && mounts="$mounts $2"
}
if mounted noexec,size=4m,mode=700 "$tmp/noexec"; then
	export TJ_CACHE="$tmp/noexec"
	said $warm 4 && said $warm 4 && says "^$right compiled 0 loaded 4 compiler not"
	verdict $? 'a mount that forbids code:'
	mount -o remount,ro "$tmp/noexec"
	said $warm 4 && says "^$right compiled 0 loaded 4 compiler not"
	verdict $? 'a read-only mount gives hits:'
	said $warm 5 && says "compiled 1 loaded 4" && ! says tjit:
	verdict $? 'a read-only mount is not written, and nobody is bothered:'
	mounted size=8k,mode=700 "$tmp/full"
	export TJ_CACHE="$tmp/full"
	said $warm 4 && says "^$right compiled 4" && [ "$(grep -c 'cannot be written' "$tmp/said")" = 1 ]
	verdict $? 'a full disk is told once:'
	said $warm -v
	verdict $? 'a full disk leaves no half entry:'
else
	skip 'mounts: not root, or not allowed' 5
fi

# ---- a program with more rights than its user ----
if [ "$(id -u)" = 0 ]; then
	cp "$warm" "$tmp/secure" && chown 65534 "$tmp/secure" && chmod 4755 "$tmp/secure" && chmod 755 "$tmp" && mkdir -m 777 "$tmp/any"
	said env TJ_CACHE="$tmp/any/x" TJ_BACKEND=eval "$tmp/secure" 1 && says 'compiled 0' && [ ! -e "$tmp/any/x" ]
	verdict $? 'a setuid program:'
else
	skip 'a setuid program: not root' 1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
