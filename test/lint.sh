#!/bin/sh
# SPDX-License-Identifier: MIT
# Rules that a compiler does not check: includes point down, generated text is current, every mutable global is listed in
# test/globals.txt with a reason, and others.
#   test/lint.sh build/gen
set -u
passed=0 failed=0
rule() { # name, violations that were found ("" passes)
	if [ -z "$2" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL %s\n%s\n' "$1" "$2"
	fi
}

# The files of a folder may include only headers of its own level or of levels below.
up() { # folder, then the folders that it must not include
	d=$1
	shift
	for f in "$@"; do grep -nE "#include \"$f/" "$d"/*.[ch] "$d"/*.inc "$d"/*.def 2>/dev/null; done
}
rule 'runtime/ includes nothing above it' "$(up runtime ir guards lower jit codegen_llvm codegen_cuda)"
rule 'ir/ includes only runtime/' "$(up ir guards lower jit codegen_llvm codegen_cuda)"
rule 'guards/ never includes lower/' "$(up guards lower jit codegen_llvm codegen_cuda)"
rule 'lower/ includes only ir/ and runtime/' "$(up lower guards jit codegen_llvm codegen_cuda)"
rule 'code generators do not include jit/ or each other' \
	"$(up codegen_llvm jit guards codegen_cuda)$(up codegen_cuda jit guards codegen_llvm)"
headers() { # headers that include each other in a circle
	for h in runtime/*.h guards/*.h ir/*.h lower/*.h jit/*.h codegen_llvm/*.h codegen_cuda/*.h; do
		sed -n "s|^#include \"\(.*\.h\)\".*|$h \1|p" "$h"
	done | tsort 2>&1 >/dev/null | sed -n 's/^tsort: \(.*\.h\)$/\1/p'
}
rule 'a header includes only headers below it' "$(headers)"
same_name() { # .c files that share a name, but those that treat one subject at two stages; the code generators have the same parts
	for c in runtime/*.c guards/*.c ir/*.c lower/*.c jit/*.c codegen_llvm/*.c; do basename "$c"; done | sort | uniq -d |
		grep -vxE 'bundle\.c|grad\.c|inner\.c|plan\.c|point\.c|reduce\.c|region\.c|sized\.c'
}
rule 'a file has a name of its own (docs/ARCHITECTURE.md)' "$(same_name)"
rule 'functions/ is made of functions of <tj.h>' \
	"$(grep -nE '#include "' functions/*.[ch] | grep -v '"functions/functions.h"')$(grep -nE '\b(rt|ir|gd|lo|cg|jit)_[a-z]' functions/*.[ch])"
rule 'kit/ is made of functions of <tj.h>' \
	"$(grep -rnE '#include "' --include='*.[ch]' kit | grep -v '"kit/[a-z/]*\.\(h\|def\)"')$(grep -rnE '\b(rt|ir|gd|lo|cg|jit)_[a-z]' kit/*/)"
rule 'kit/files/ includes nothing of kit/data/ and kit/nn/, and kit/data/ nothing of kit/nn/' \
	"$(grep -nE '(#include "kit/(data|nn)/)|<tj(data|nn).h>' kit/files/*.[ch])$(grep -nE '(#include "kit/nn/)|<tjnn.h>' kit/data/*.[ch])"
rule 'the command tj uses only <tj.h>' \
	"$(grep -nE '#include "' cli/*.[ch] | grep -v '"cli/[a-z]*\.h"')$(grep -nE '\b(rt|ir|gd|lo|cg|jit)_[a-z]' cli/*.[ch])"
variables() { # of the environment that the library reads and tj info does not know
	grep -rhE '(env|env_set|env_count|switches).*"TJ_' --include='*.c' $folders | grep -oE '"TJ_[A-Z_]+"' | sort -u |
		while read -r v; do grep -q "{ $v, " cli/info.c || echo "$v"; done
}
rule 'examples use only <tj.h>' "$(grep -nE '#include "' examples/*.c 2>/dev/null)"
folders='runtime guards ir lower jit functions codegen_llvm codegen_cuda kit' # of the libraries
rule 'tj info knows every variable of the environment' "$(variables)"
rule 'no include has ..' "$(grep -rnE '#include "\.\.' --include='*.[ch]' $folders)"

rule 'tj.h and docs/OPS.md follow ir/ops.def (make gen)' "$("$1" -c include/tj.h docs/OPS.md 2>&1)"
rule 'every file ends its lines without blanks' \
	"$(grep -rnE '[	 ]+$' --include='*.[ch]' $folders cli examples test/unit test/kit test/fake | head -5)"
rule 'the library prints to stdout nowhere and never exits' \
	"$(grep -rnE '\b(printf|puts|putchar|exit|abort|assert)\(' --include='*.c' $folders |
		grep -vE 'ir/opdoc\.c|_Static_assert' | head -5)"
rule 'locks are taken by rt_lock(), which a fork waits for' \
	"$(grep -nE 'pthread_mutex_(un)?lock\(' jit/*.c guards/*.c ir/*.c lower/*.c runtime/*.c | head -5)"
rule 'no files of runtime/, guards/, lower/, jit/, kit/files/ or kit/data/ call each other in a circle' \
	"$(for d in runtime guards lower jit kit/files kit/data; do test/circles.sh "$(dirname "$1")" $d; done)"
circle() { # folder, how many of its files may call each other in a circle
	n=$(test/circles.sh "$(dirname "$build")" "$1" | wc -l)
	[ "$n" -le "$2" ] || echo "$1: $n files, $2 were known"
}
build=$1
rule 'in ir/ and the code generators no more files call each other in a circle than are known' \
	"$(circle ir 15)$(circle codegen_llvm 0)$(circle codegen_cuda 0)"
rule 'prototypes stand under the name of the file that has them' "$(test/prototypes.sh)"
rule 'mutable globals are those of test/globals.txt' \
	"$(test/globals.sh "$(dirname "$1")" | diff - test/globals.txt |
		sed -n 's/^< *\([^ ]* [^ ]*\).*/new: \1/p; s/^> *\([^ ]* [^ ]*\).*/gone: \1/p' | sort -k2 | uniq -u -f1)"
stale() {
	for p in test/mutants/*.patch; do patch -p1 -s -f -F0 --dry-run <"$p" >/dev/null 2>&1 || echo "$p"; done
}
uncalled() { # functions of functions/ that no random program calls; three do not give tensors
	sed -e :a -e '/\\$/N; s/ *\\\n[ 	]*/ /; ta' include/tj.h |
		sed -n '/^\/\* ---- reading and writing by index/,$s/^#define \(tj_[a-z0-9_]*\)(.*) \1_at(.*/\1/p' |
		grep -vxE 'tj_(einsum_path|attention_method|attention_available|attention_can_use)' |
		while read -r f; do grep -q "\b$f(" test/fuzz_calls.c || echo "$f"; done
}
rule 'random programs call every function of functions/ (test/fuzz_calls.c)' "$(uncalled)"
rule 'names of files have no odd characters' "$(git ls-files 2>/dev/null | grep -vE '^[A-Za-z0-9._/+-]+$')"
wide() { # lines above 140 columns; patches and expected outputs are as what they are made from, a .txt is a table of data
	git ls-files 2>/dev/null | grep -vE '\.(svg|patch|out|txt|npz|png)$' | tr '\n' '\0' |
		xargs -0 -r awk 'length > 140 { print FILENAME ":" FNR ": " length }'
}
rule 'lines of code and pages are within 140 columns' "$(wide)"
rule 'every patch of test/mutants applies' "$(stale)"
uncited() { # rules of test/peers/documented.txt whose sentence does not stand in the document that they name
	sed -n '/^#/!s/.* \([A-Z]*\.md\|tj\.h\) "\([^"]*\)".*/\1 \2/p' test/peers/documented.txt | sort -u | while read -r file text; do
		[ "$file" = tj.h ] && file=include/tj.h || file=docs/$file
		tr '\n' ' ' <"$file" | sed 's/ \* / /g; s/  */ /g' | grep -qF -- "$text" || echo "$file: $text"
	done
	grep -v '^#' test/peers/documented.txt | grep -vE ' ([A-Z]+\.md|tj\.h) "[^"]+"'
}
rule 'test/peers/documented.txt cites sentences of the documents' "$(uncited)"
there() { # names in the list "Not there" of docs/OPS.md that tj.h has, but those behind "Instead:"
	sed -n '/^\*\*Not there/,/^<!--/p' docs/OPS.md | tr '\n' ' ' | sed 's/ - \*\*/\n/g' | sed '1d; s/ Instead: .*//' |
		grep -o '`[a-z0-9_]*`' | tr -d '`' | while read -r name; do
		grep -q "^#define tj_$name(" include/tj.h && echo "tj_$name() is there"
	done
}
rule 'tj.hpp follows tj.h (make gen)' "$(awk -f include/hpp.awk include/tj.h include/tj.hpp | cmp - include/tj.hpp 2>&1)"
rule 'examples in C++ use only <tj.hpp>' "$(grep -nE '#include "|tj\.h>' examples/*.cpp 2>/dev/null)"
rule 'C++ ends its lines without blanks' "$(grep -nE '[	 ]+$' include/* examples/*.cpp test/cpp/* | head -5)"
rule 'docs/OPS.md names no function as missing that is there' "$(there)"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
