#!/bin/sh
# SPDX-License-Identifier: MIT
# Collectives under mpirun, with 1, 2 and 4 ranks:  test/ranks.sh build
# All values; ranks that ask for other things; a rank that dies.
set -u
B=$1 passed=0 failed=0 skipped=0
verdict() { # status, what
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else
		failed=$((failed + 1))
		echo "FAILED $2"
	fi
}
if ! command -v mpirun >/dev/null || [ ! -f "$B/libtj-mpi.so" ]; then
	echo "SKIPPED ranks: mpirun or libtj-mpi.so is not there (Debian: openmpi-bin, libopenmpi-dev)"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export TJ_THREADS=1 OMPI_MCA_btl_base_warn_component_unused=0
ranks() { # n, arguments
	n=$1 && shift
	timeout 60 mpirun --allow-run-as-root --oversubscribe -n "$n" "$@" 2>"$tmp/err"
}

RANKS_TRANSPORT=self "$B/test/kit/ranks" check >"$tmp/out"
verdict $? "one process without MPI: $(grep -v '^ok' "$tmp/out")"
for n in 1 2 4; do
	ranks $n "$B/test/kit/ranks" check >"$tmp/out"
	verdict $? "$n ranks: $(grep -v '^ok' "$tmp/out" | head -5)$(tail -3 "$tmp/err")"
	passed=$((passed + $(grep -c '^ok' "$tmp/out")))
done

# The standard ABI of MPI 5: MPI_ABI is a folder with bin/mpiexec and lib/libmpi_abi.so, as of MPICH 5.
if [ -n "${MPI_ABI:-}" ] && [ -x "$MPI_ABI/bin/mpiexec" ]; then
	RANKS_TRANSPORT=mpi-abi LD_LIBRARY_PATH="$MPI_ABI/lib" timeout 60 "$MPI_ABI/bin/mpiexec" -n 3 "$B/test/kit/ranks" check \
		>"$tmp/out" 2>"$tmp/err"
	verdict $? "mpi-abi: $(grep -v '^ok' "$tmp/out" | head -5)$(tail -3 "$tmp/err")"
else
	echo 'SKIPPED mpi-abi: MPI_ABI names no folder of an MPI with the standard ABI'
	skipped=1
fi

# Each rank names both ops and the lines of both.
for how in 0 1 2 3 4; do
	ranks 3 "$B/test/kit/ranks" differ $how >"$tmp/out"
	[ "$(grep -c 'the ranks differ: rank [0-2] asks for .*/ranks.c:[0-9]*; rank [0-2] asks for .*/ranks.c:[0-9]*$' "$tmp/out")" -eq 3 ]
	verdict $? "ranks that differ ($how): $(cat "$tmp/out")"
done

# The others end, too, within 5 s.
start=$(date +%s)
ranks 3 "$B/test/kit/ranks" die >"$tmp/out"
[ $? -ne 0 ] && [ $(($(date +%s) - start)) -le 5 ] && ! grep -q 'goes on' "$tmp/out" && grep -q 'exited on signal 9' "$tmp/err"
verdict $? "a rank that dies: $(cat "$tmp/out" "$tmp/err")"

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
