#!/bin/sh
# SPDX-License-Identifier: MIT
# What compiled programs rely on is as in install/abi.txt; and install/abi.sh finds the changes that break them, and no others.
#   test/abi.sh build-folder
set -u
passed=0 failed=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
verdict() { # result, name; what the command said is in $tmp/said
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -20 "$tmp/said"; fi
}
install/abi.sh >"$tmp/said" 2>&1
verdict $? 'programs that are compiled would not run on: make abi writes the baseline, for another soname or before a release'
nm -D --defined-only --format=posix "$1/libtj.so" | sed -n 's/@@TJ_1 [DRTB] .*//p' | sort >"$tmp/exported"
grep -v '^typedef' install/abi.txt | grep -oE '\btj_[a-z0-9_]+(\(|\[)' | tr -d '([' | sort -u | comm -23 - "$tmp/exported" >"$tmp/said"
[ ! -s "$tmp/said" ]
verdict $? 'functions of install/abi.txt that the library does not export:'

install/abi.sh -k >"$tmp/said" 2>&1
verdict $? 'programs that are compiled with the kit would not run on: make abi writes the baseline'
nm -D --defined-only --format=posix "$1/libtjkit.so" | sed -n 's/@@TJKIT_1 [DRTB] .*//p' | sort >"$tmp/exported"
grep -v '^typedef' install/abi-kit.txt | grep -oE '\btj(nn)?_[a-z0-9_]+(\(|\[)' | tr -d '([' | sort -u |
	comm -23 - "$tmp/exported" >"$tmp/said"
[ ! -s "$tmp/said" ]
verdict $? 'functions of install/abi-kit.txt that the kit does not export:'

changed() { # what must be said, a sed expression
	sed "$2" include/tj.h >"$tmp/tj.h"
	! cmp -s include/tj.h "$tmp/tj.h" && ! install/abi.sh "$tmp/tj.h" >"$tmp/said" 2>&1 && grep -q -- "$1" "$tmp/said"
	verdict $? "no fault is found ($1): $2"
}
same() { # a sed expression
	sed "$1" include/tj.h >"$tmp/tj.h"
	! cmp -s include/tj.h "$tmp/tj.h" && install/abi.sh "$tmp/tj.h" >"$tmp/said" 2>&1
	verdict $? "a fault is found: $1"
}
kit() { # what must be said; a header of the kit; a sed expression
	rm -rf "$tmp/include"
	cp -r include "$tmp/include"
	sed "$3" "include/$2" >"$tmp/include/$2"
	! cmp -s "include/$2" "$tmp/include/$2" && { install/abi.sh -k "$tmp/include" >"$tmp/said" 2>&1; [ $? -eq 1 ]; } &&
		grep -q -- "$1" "$tmp/said"
	verdict $? "not as expected ($1): $2: $3"
}
kit 'changed: bool tj_loader_next_at' tjdata.h 's/^\(TJ_API bool tj_loader_next_at(.*\), int room/\1/'
kit 'struct tjnn_group .env' tjnn.h 's/^	void \*env;$/	int more; void *env;/'
kit 'enum tj_gguf_type TJ_GGUF_F64' tjfiles.h 's/TJ_GGUF_U64, TJ_GGUF_I64,/TJ_GGUF_I64,/'
changed 'changed: int tj_rank' '/^TJ_API int tj_rank/d'
changed 'changed: int64_t tj_dim(' 's/^\(TJ_API int64_t tj_dim(.*\)int axis/\1int64_t axis/'
changed 'changed: double tj_item_at' 's/^TJ_API double tj_item_at/TJ_API float tj_item_at/'
changed 'struct tj_open_opts .log at' 's/^	uint64_t seed; //'
changed 'struct tj_open_opts .threads' 's/^	int threads; /	int64_t threads; /'
changed 'struct tj_scalar has' 's/^	double f;$/	double f, g;/'
changed 'enum tj_mode TJ_DIRECT' 's/{ TJ_VERIFY, TJ_DIRECT }/{ TJ_VERIFY, TJ_TRUST, TJ_DIRECT }/'
changed 'enum tj_dtype TJ_F32' '/X(BF16, /d'
changed 'typedef int tj_device' 's/^typedef int tj_device/typedef long tj_device/'
changed 'typedef void tj_body' 's/^typedef void tj_body(tj_tensor \*\*out/typedef void tj_body(const tj_tensor **out/'
changed 'struct tj_compiled .run' 's/tj_status (\*run)(void \*env, const/tj_status (*run)(void *env, int more, const/'
changed 'within the .* bytes of an earlier version: struct tj_settings .more' 's/^} tj_settings;/	bool more;\n&/'
changed 'TJ_MAX_RANK' 's/^#define TJ_MAX_RANK 16/#define TJ_MAX_RANK 32/'
same 's/^TJ_API int tj_rank/TJ_API int tj_more(int more);\nTJ_API int tj_rank/'
same 's/^\(TJ_API int tj_rank(const tj_tensor \*\)t/\1other/'
same 's/^	const char \*hint; \(.*or "".*\)/	const char *hint; int more; \1/'
same 's/^} tj_settings;/	void *more;\n&/'
same 's/{ TJ_VERIFY, TJ_DIRECT }/{ TJ_VERIFY, TJ_DIRECT, TJ_TRUST }/'
same 's/X(F64,  "f64",  double,   FLOAT)/X(F64,  "f64",  double,   FLOAT) X(F128, "f128", long double, FLOAT)/'
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
