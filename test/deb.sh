#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the Debian packages. What is in them, lintian, and in a root of their own (an overlay over this one, as root): dpkg installs them,
# the programs of install/debian/tests run, and after dpkg has purged them nothing is left.   test/deb.sh build-folder
set -u
folder=$(realpath "$1")/deb passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
verdict() { # result, name; what the command said is in $tmp/said
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -20 "$tmp/said"; fi
}
skip() { echo "SKIPPED $1" && skipped=$((skipped + $2)); } # why, how many
for tool in dpkg-buildpackage dh; do
	command -v $tool >/dev/null && continue
	skip "$tool is not installed (apt-get install dpkg-dev debhelper lintian)" 12
	echo "0 passed, 0 failed, 12 skipped"
	exit 0
done
install/deb.sh "$folder" >"$tmp/said" 2>&1
verdict $? 'install/deb.sh'
debs=$(ls "$folder"/*.deb) || exit 1

version=$(sed -n 's/^#define TJ_VERSION "\(.*\)"/\1/p' include/tj.h)
lib=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
has() { # package, the files that it has beside those in usr/share/doc
	name=$1
	shift
	dpkg-deb -c "$folder/${name}_$version"-*.deb | awk '!/\/$/ { print $6 }' | sed 's|^\./||' | grep -v '^usr/share/doc/' | sort >"$tmp/files"
	echo "$@" | tr ' ' '\n' | sort | diff - "$tmp/files" >"$tmp/said"
	verdict $? "the package $name has other files:"
}
has libtj0 $lib/libtj.so.0 $lib/libtj.so.$version
has libtj0-llvm $lib/tjit/libtj-llvm.so
has libtjkit0 $lib/libtjkit.so.0 $lib/libtjkit.so.$version $lib/tjit/libtj-mpi-abi.so
has libtjkit0-openmpi $lib/tjit/libtj-mpi.so
has libtj-dev usr/include/tj.h usr/include/tj.hpp usr/include/tjrt.h $lib/libtj.a $lib/libtjrt.a $lib/libtj.so $lib/pkgconfig/tjit.pc \
	usr/include/tjnn.h usr/include/tjdata.h usr/include/tjfiles.h usr/include/tjdlpack.h usr/include/tjdist.h \
	$lib/libtjkit.a $lib/libtjkit.so $lib/pkgconfig/tjkit.pc \
	$lib/cmake/tjit/tjitConfig.cmake $lib/cmake/tjit/tjitConfigVersion.cmake usr/share/man/man3/tj.h.3.gz usr/share/man/man7/tjit.7.gz
if [ -d cli ]; then
	has tjit-tools usr/bin/tj usr/share/man/man1/tj.1.gz usr/share/bash-completion/completions/tj usr/share/zsh/vendor-completions/_tj
fi

# ---- lintian ----
if command -v lintian >/dev/null; then
	# They are not uploaded to Debian, so they close no bug there.
	lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs $debs >"$tmp/said" 2>&1
	verdict $? 'lintian:'
else
	skip 'lintian is not installed' 1
fi

# ---- in a root of their own ----
cat >"$tmp/inside" <<'END2'
set -u
. ./verdict
all() { find / -xdev \( -path /packages -o -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/lib/dpkg -o -path /var/log \
	-o -path /var/cache \) -prune -o -print | sort; }
export HOME=/tmp AUTOPKGTEST_TMP
all >/tmp/before
dpkg -i /packages/*.deb >/packages/said 2>&1
verdict $? 'dpkg -i'
for t in pkg-config cmake; do
	AUTOPKGTEST_TMP=$(mktemp -d)
	sh "/packages/tests/$t" >/packages/said 2>&1
	verdict $? "install/debian/tests/$t"
done
if [ -x /usr/bin/tj ]; then
	tj info >/packages/said 2>&1
	verdict $? 'tj info'
fi
man -w tj.h >/packages/said 2>&1 || ls /usr/share/man/man3/tj.h.3.gz >/packages/said 2>&1
verdict $? 'man tj.h'
names=$(for d in /packages/*.deb; do dpkg-deb -f "$d" Package; done)
dpkg -r libtj0 >/packages/said 2>&1
[ $? -ne 0 ]
verdict $? 'libtj0 is removed, and those that need it stay:'
dpkg -P $names >/packages/said 2>&1
verdict $? 'dpkg -P'
all >/tmp/after
diff /tmp/before /tmp/after >/packages/said
verdict $? 'dpkg -P leaves, or takes:'
echo "$passed $failed" >/packages/counts
END2
cat >"$tmp/verdict" <<'END2'
passed=0 failed=0
verdict() { if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -20 /packages/said; fi; }
END2
cat >"$tmp/enter" <<'END2'
set -e
cd "$1"
mkdir over
mount -t tmpfs -o size=2g tjit over
mkdir over/up over/work over/root
mount -t overlay tjit -o lowerdir=/,upperdir=over/up,workdir=over/work over/root
mount -t proc tjit over/root/proc
mount --rbind /dev over/root/dev
mount -t tmpfs tjit over/root/tmp
mkdir over/root/packages
cp $2 inside verdict over/root/packages/
cp -r "$3" over/root/packages/tests
chroot over/root sh -c 'cd /packages && exec sh inside'
cp over/root/packages/counts counts
END2
if [ "$(id -u)" -ne 0 ] || ! unshare -m true 2>/dev/null; then
	skip 'only root can mount a root for the packages' 7
elif dpkg-query -W -f '${Status}' libtj0 2>/dev/null | grep -q installed || [ -e /usr/local/include/tj.h ]; then
	skip 'tjit is installed on this machine: the packages would meet it' 7
else
	unshare -m sh "$tmp/enter" "$tmp" "$debs" "$PWD/install/debian/tests" 2>&1
	set -- $(cat "$tmp/counts" 2>/dev/null || echo 0 1)
	passed=$((passed + $1)) failed=$((failed + $2))
	rmdir "$tmp/over"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
