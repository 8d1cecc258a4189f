#!/bin/sh
# SPDX-License-Identifier: MIT
# make install and make uninstall, in folders of its own: what is installed and exported; programs in C and C++, by pkg-config and by CMake,
# with the shared and the static library, after the folder has moved; plug-ins that must not be opened.
#   test/install.sh build-folder
set -u
export TJ_CACHE=off # kernels that were kept need no plug-in
build=$1 passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
verdict() { # result, name; what the command said is in $tmp/said
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -12 "$tmp/said"; fi
}
skip() { echo "SKIPPED $1" && skipped=$((skipped + $2)); } # why, how many
as_installed() { make --no-print-directory -s BUILD="$build" "$@" >"$tmp/said" 2>&1; }
left() { find "$1" ! -type d 2>"$tmp/said" | sed "s|^$1/||" | sort; }
compiles() { TJ_BACKEND=llvm "$@" >"$tmp/said" 2>&1 && ! grep -q 'the evaluator runs' "$tmp/said"; } # the plug-in was found

# ---- what is installed where ----
version=$(sed -n 's/^#define TJ_VERSION "\(.*\)"/\1/p' include/tj.h)
list="$([ ! -x "$build/tj" ] || echo bin/tj)
include/tj.h lib/cmake/tjit/tjitConfig.cmake lib/cmake/tjit/tjitConfigVersion.cmake lib/libtj.a lib/libtj.so lib/libtj.so.0
lib/libtj.so.$version lib/pkgconfig/tjit.pc lib/tjit/libtj-llvm.so"
list="$list include/tj.hpp include/tjrt.h lib/libtjrt.a include/tjnn.h include/tjdata.h include/tjfiles.h"
list="$list include/tjdlpack.h include/tjmodel.h include/tjdist.h lib/libtjkit.a
lib/libtjkit.so lib/libtjkit.so.0 lib/libtjkit.so.$version lib/pkgconfig/tjkit.pc"
list="$list lib/tjit/libtj-mpi-abi.so"
! command -v mpicc >/dev/null || list="$list lib/tjit/libtj-mpi.so"
! command -v scdoc >/dev/null || list="$list share/man/man3/tj.h.3 share/man/man7/tjit.7"
if [ -x "$build/tj" ]; then
	list="$list share/bash-completion/completions/tj share/zsh/site-functions/_tj"
	! command -v scdoc >/dev/null || list="$list share/man/man1/tj.1"
fi
as_installed install DESTDIR="$tmp/dest" PREFIX=/usr
verdict $? 'make install DESTDIR='
left "$tmp/dest/usr" >"$tmp/said"
[ "$(cat "$tmp/said")" = "$(echo $list | tr ' ' '\n' | sort)" ]
verdict $? 'other files are installed:'
! grep -rl "$tmp" "$tmp/dest/usr/lib/pkgconfig" "$tmp/dest/usr/lib/cmake" >"$tmp/said"
verdict $? 'files name the folder of DESTDIR:'
as_installed uninstall DESTDIR="$tmp/dest" PREFIX=/usr && left "$tmp/dest" >"$tmp/said" && [ ! -s "$tmp/said" ]
verdict $? 'make uninstall DESTDIR= leaves:'
as_installed install PREFIX="$tmp/first"
verdict $? 'make install PREFIX='
mv "$tmp/first" "$tmp/moved"
lib=$tmp/moved/lib
if [ -x "$build/tj" ]; then
	"$tmp/moved/bin/tj" info version libraries >"$tmp/said" 2>&1 && grep -q "library  *$version" "$tmp/said" &&
		! grep -q 'LLVM  *missing' "$tmp/said"
	verdict $? 'tj of the folder that was moved'
else
	skip 'tj is not built: jansson is missing' 1
fi

# ---- what is exported ----
nm -D --defined-only "$lib/libtj.so" | awk '$2 != "A" { print $3 }' | sort >"$tmp/exported"
grep -v '^tj_[a-z0-9_]*@@TJ_1$' "$tmp/exported" | grep -v '^__jit_debug_\(descriptor\|register_code\)@@TJ_1$' >"$tmp/said"
[ ! -s "$tmp/said" ]
verdict $? 'the library exports what the version map does not name:'
sed 's/@.*//' "$tmp/exported" | sort | comm -13 - install/symbols >"$tmp/said"
[ ! -s "$tmp/said" ]
verdict $? 'functions of an earlier version are gone:'
nm -D --defined-only "$lib/tjit/libtj-llvm.so" | awk '{ print $3 }' | sort >"$tmp/said"
[ "$(tr '\n' ' ' <"$tmp/said")" = 'tj_llvm_backend tj_llvm_number ' ]
verdict $? 'the plug-in exports:'
nm -g --defined-only "$lib/libtj.a" | awk 'NF == 3 && $3 !~ /^tj_/' >"$tmp/said"
[ ! -s "$tmp/said" ]
verdict $? 'the static library has other global symbols:'

# ---- pkg-config ----
if command -v pkg-config >/dev/null; then
	pc() { PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config "$@" tjit; }
	mkdir -p "$tmp/moved/bin" "$tmp/other"
	cc -std=c11 test/use.c $(pc --cflags --libs) -Wl,-rpath,"$lib" -o "$tmp/c" >"$tmp/said" 2>&1 && compiles "$tmp/c"
	verdict $? 'C by pkg-config'
	cc -std=c11 test/kit/use_kit.c $(PKG_CONFIG_PATH="$lib/pkgconfig" pkg-config --cflags --libs tjkit) -Wl,-rpath,"$lib" -o "$tmp/kit" \
		>"$tmp/said" 2>&1 && compiles "$tmp/kit"
	verdict $? 'the kit by pkg-config'
	c++ -x c++ test/use.c $(pc --cflags --libs) -Wl,-rpath,"$lib" -o "$tmp/cxx" >"$tmp/said" 2>&1 && compiles "$tmp/cxx"
	verdict $? 'C++ by pkg-config'
	c++ -std=c++17 -Wall -Wextra -Werror test/cpp/throwing.cpp $(pc --cflags --libs) -pthread -Wl,-rpath,"$lib" -o "$tmp/hpp" \
		>"$tmp/said" 2>&1 && compiles "$tmp/hpp"
	verdict $? 'tj.hpp by pkg-config'
	cc -std=c11 test/use.c $(pc --cflags) -L"$lib" -l:libtj.a $(pc --static --libs | sed 's/-ltj//') -o "$tmp/moved/bin/static" \
		>"$tmp/said" 2>&1 && compiles "$tmp/moved/bin/static"
	verdict $? 'the static library, beside the folder lib'
	cp "$tmp/moved/bin/static" "$tmp/other"
	compiles env LD_LIBRARY_PATH="$lib/tjit" "$tmp/other/static"
	verdict $? 'the static library, with LD_LIBRARY_PATH'
	# The name that a program is called by is anybody's: a plug-in beside that name is not opened.
	ln "$tmp/moved/bin/static" "$tmp/moved/bin/called" && echo '__attribute__((constructor)) static void f(void) { __builtin_trap(); }' |
		cc -x c -shared -fPIC -o "$tmp/other/libtj-llvm.so" - 2>"$tmp/said" &&
		compiles bash -c "exec -a '$tmp/other/static' '$tmp/moved/bin/called'"
	verdict $? 'the name of a program says where the plug-in is'
else
	skip 'pkg-config is not installed' 7
fi

# ---- CMake ----
cat >"$tmp/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(use C CXX)
find_package(tjit 0.1 REQUIRED)
configure_file(${SOURCE} use.cc COPYONLY)
add_executable(c ${SOURCE})
add_executable(cxx ${CMAKE_CURRENT_BINARY_DIR}/use.cc)
add_executable(static ${SOURCE})
add_executable(hpp ${HPP})
target_link_libraries(c tjit::tjit)
target_link_libraries(cxx tjit::shared)
target_link_libraries(static tjit::static)
set_target_properties(hpp PROPERTIES CXX_STANDARD 17)
find_package(Threads REQUIRED)
target_link_libraries(hpp tjit::tjit Threads::Threads)
END
if command -v cmake >/dev/null; then
	cmake -S "$tmp" -B "$tmp/cmake" -DSOURCE="$PWD/test/use.c" -DHPP="$PWD/test/cpp/throwing.cpp" \
		-DCMAKE_PREFIX_PATH="$tmp/moved" >"$tmp/said" 2>&1 &&
		cmake --build "$tmp/cmake" >"$tmp/said" 2>&1
	verdict $? 'CMake'
	for p in c cxx hpp static; do
		compiles env LD_LIBRARY_PATH="$([ $p != static ] || echo "$lib/tjit")" "$tmp/cmake/$p"
		verdict $? "$p by CMake"
	done
	! ldd "$tmp/cmake/static" | grep libtj >"$tmp/said"
	verdict $? 'tjit::static links the shared library:'
else
	skip 'CMake is not installed' 6
fi

# ---- a plug-in of another version, and none ----
mv "$lib/tjit/libtj-llvm.so" "$tmp/kept"
cc -std=c11 test/use.c -I"$tmp/moved/include" -L"$lib" -ltj -Wl,-rpath,"$lib" -o "$tmp/c" 2>"$tmp/said"
refused() { # its version and shape, what is said
	printf '%s\n' '#include "lower/target.h"' "const uint64_t tj_llvm_number[2] = { $1 };" \
		'const lo_backend *tj_llvm_backend(void) { __builtin_trap(); }' |
		cc -std=c11 -D_GNU_SOURCE -I. -Iinclude -x c -shared -fPIC -o "$lib/tjit/libtj-llvm.so" - 2>"$tmp/said"
	! compiles "$tmp/c" && grep -q "libtj-llvm.so has version $2, and this library needs that of its own build, $version" "$tmp/said"
	verdict $? "a plug-in of version $2 is refused:"
}
refused '2003004, LO_ABI' 2.3.4
refused 'TJ_VERSION_NUMBER, 1' "$version of another build"
rm "$lib/tjit/libtj-llvm.so"
! compiles "$tmp/c" && grep -q 'libtj-llvm.so' "$tmp/said"
verdict $? 'the error does not name the plug-in that is missing:'

mv "$tmp/kept" "$lib/tjit/libtj-llvm.so"
if [ "$(id -u)" -eq 0 ]; then
	chown 65534 "$lib/tjit/libtj-llvm.so" && ! compiles "$tmp/c"
	verdict $? 'a plug-in that belongs to somebody else is opened'
else
	skip 'the owner of the plug-in: only root can give it away' 1
fi
rm -rf "$tmp/moved/bin"
as_installed uninstall PREFIX="$tmp/moved" && left "$tmp/moved" >"$tmp/said" && [ ! -s "$tmp/said" ]
verdict $? 'make uninstall leaves:'
[ ! -e "$lib/tjit" ] && [ ! -e "$lib/cmake/tjit" ]
verdict $? 'make uninstall leaves its folders'
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
