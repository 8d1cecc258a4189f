#!/bin/sh
# SPDX-License-Identifier: MIT
# Downloads the wheels of test/cuda-tools.txt (61 MiB) and unpacks them into a folder. Installs nothing: Python's packages stay as they are.
#   test/cuda-tools.sh build/cuda-tools
set -u
to=$1 new=$1.new
[ -x "$to/nvidia/cu13/bin/nvdisasm" ] && cmp -s test/cuda-tools.txt "$to/cuda-tools.txt" && exit 0
fail() {
	rm -rf "$new"
	echo "cuda-tools: $*" >&2
	exit 1
}
python3 -m pip --version >/dev/null 2>&1 || fail 'python3 with pip is missing; it downloads and checks the wheels'
rm -rf "$new"
mkdir -p "$new" || fail "cannot make $new"
log=$(python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --no-input --retries 2 --timeout 20 \
	--only-binary :all: --require-hashes --target "$new" -r test/cuda-tools.txt 2>&1) ||
	fail "cannot download the wheels of test/cuda-tools.txt (is there a network?): $(echo "$log" | tail -1)"
cp test/cuda-tools.txt "$new" && rm -rf "$to" && mv "$new" "$to" || fail "cannot make $to"
