#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the Debian packages that building and testing need, if any is missing. Uses apt-get as root, else through sudo; if neither
# works, it says what to do.
set -eu
packages="gcc g++ libc6-dev llvm-19-dev libdnnl-dev libxxhash-dev libmpfr-dev libcmocka-dev tcc pkg-config cmake"
packages="$packages libjansson-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev libutf8proc-dev libpcre2-8-0 libopenmpi-dev openmpi-bin"
missing=
for p in $packages scdoc mandoc; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing"
if ! command -v apt-get >/dev/null; then
	echo "these packages (Debian 12 names) are missing and there is no apt-get:$missing" >&2
	exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "run as root, once: apt-get install$missing" >&2
		exit 1
	fi
	as_root=sudo
fi
$as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
