#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the Debian packages from a copy of the source:  install/deb.sh folder
# install/debian becomes debian/ there. Its copyright gets the text of LICENSE, its symbols file the names of install/symbols; without cli/
# there is no command tj, and no package of it.
set -eu
for tool in dpkg-buildpackage dh; do
	command -v $tool >/dev/null || { echo "$tool is not installed: apt-get install dpkg-dev debhelper" >&2; exit 1; }
done
out=$1
version=$(sed -n 's/^#define TJ_VERSION "\(.*\)"/\1/p' include/tj.h)
major=${version%%.*} tree=$out/tjit-$version
rm -rf "$out"
mkdir -p "$tree"
{ git ls-files -z 2>/dev/null || find . -type f ! -path './build*' -print0; } | xargs -0 tar -c | tar -x -C "$tree"
cd "$tree"
cp -r install/debian debian
grep -q "^tjit ($version-" debian/changelog || { echo "install/debian/changelog does not begin with version $version" >&2; exit 1; }
sed '1,/^$/d; /^Copyright/d; s/^$/./; s/^/ /' LICENSE | sed '1{/^ \.$/d}' >debian/license
sed -i -e '/@LICENSE@/r debian/license' -e '/@LICENSE@/d' debian/copyright
rm debian/license
{
	echo "libtj.so.$major libtj$major #MINVER#"
	echo '* Build-Depends-Package: libtj-dev'
	sort -u install/symbols | sed "s/\$/@TJ_1 $version/; s/^/ /"
	echo " TJ_1@TJ_1 $version"
} >debian/libtj$major.symbols
if [ ! -d cli ]; then
	sed -i -e '/^Package: tjit-tools/,$d' -e 's/ libjansson-dev,//' debian/control
	rm debian/tjit-tools.install
fi
DEB_BUILD_OPTIONS="parallel=$(nproc) noautodbgsym" dpkg-buildpackage -b -us -uc
