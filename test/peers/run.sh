#!/bin/sh
# Compares tjit with other libraries: makes a virtual environment with their packages of PyPI, and computes PyTorch's samples.
#   test/peers/run.sh build [options of opinfo.py]
# The tests of the Python array API are no package: with ARRAY_API_TESTS=folder of a checkout they run as well.
set -eu
build=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd)
shift
venv=$build/peers
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import torch, scipy, expecttest, hypothesis, pytest' 2>/dev/null; then
	echo "installing PyTorch and others in $venv (6 GB)"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet torch numpy scipy expecttest hypothesis pytest pytest-json-report ndindex
fi
export BUILD="$build"
"$venv/bin/python" "$here/opinfo.py" "$@"
if [ -n "${ARRAY_API_TESTS:-}" ]; then
	cd "$ARRAY_API_TESTS"
	ARRAY_API_TESTS_MODULE=exec:'import sys; sys.path.insert(0, "'"$here"'"); import array_api as xp' \
		ARRAY_API_TESTS_VERSION=2024.12 "$venv/bin/python" -m pytest -q array_api_tests --skips-file "$here/array_api_skips.txt" --max-examples=200 || true
fi
