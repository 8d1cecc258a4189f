#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the examples that need models of `make models`, and compares what they print with what onnxruntime made of the same files; then what
# small weights lose:
#   test/programs.sh BUILD
#   test/programs.sh -w BUILD PYTHON      writes test/models/programs.out anew, by test/models/programs.py
set -u
write=
[ "$1" = -w ] && write=$3 && shift
B=$(cd "$1" && pwd) want=test/models/programs.out models=build/models/onnx passed=0 failed=0
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
verdict() { if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2"; fi; }
refuses() { # words that it says, command
	words=$1 && shift
	"$@" >"$T/said" 2>&1
	[ $? -eq 1 ] && grep -qF -- "$words" "$T/said"
	verdict $? "$* does not say: $words; but: $(head -c 300 "$T/said")"
}

# ---- files ----
for f in "16000 1" "8000 1" "44100 2" "44101 1"; do "$B/test/speech" "$T/${f% *}.wav" $f; done
printf ' \n\t short \n' >"$T/few"
printf '\377\376\1' >"$T/bytes"
: >"$T/empty"
printf '#include <stdio.h>\n\n/* prints */\nint main(void)\n{\n\tint i = 0;\n' >"$T/code"
printf '\tprintf("%%d\\n", i);\n\treturn 0;\n}\n' >>"$T/code"
printf '{"name": "tjit", "list": [1, 2, 3], "nested": {"key": null, "other": true}}\n' >"$T/data"
printf '#!/bin/sh\nset -u\nfor f in *.c; do\n\techo "$f" | sed "s/a/b/"\ndone\n' >"$T/script"
printf 'import os\n\n\ndef main(path):\n    for name in os.listdir(path):\n        print(name)\n\n\n' >"$T/program"
printf 'if __name__ == "__main__":\n    main(".")\n' >>"$T/program"

# ---- without models ----
head -c 40 "$T/16000.wav" >"$T/cut.wav"
head -c 44 "$T/16000.wav" >"$T/none.wav"
{ head -c 34 "$T/16000.wav" && printf '\10\0' && tail -c +37 "$T/16000.wav"; } >"$T/8bit.wav"
{ head -c 24 "$T/16000.wav" && printf '\1\0\0\0' && tail -c +29 "$T/16000.wav"; } >"$T/slow.wav"
refuses 'it is no WAV file' "$B/examples/vad" "$T/code"
refuses 'it has no samples' "$B/examples/vad" "$T/cut.wav"
refuses 'it has no samples' "$B/examples/vad" "$T/none.wav"
refuses 'only PCM of 16 bits' "$B/examples/vad" "$T/8bit.wav"
refuses 'its rate is not' "$B/examples/vad" "$T/slow.wav"
refuses 'nothere' "$B/examples/vad" "$T/nothere"
refuses 'code' "$B/examples/ocr" "$T/code"
cp test/models/text.png "$T"
for f in vad ocr filetypes; do
	name=16000.wav
	[ $f = ocr ] && name=text.png
	refuses 'make models' sh -c "cd '$T' && exec '$B/examples/$f' $name"
done

# ---- with models ----
for f in silero_vad.onnx ch_PP-OCRv4_det_infer.onnx ch_PP-OCRv4_rec_infer.onnx ch_ppocr_mobile_v2.0_cls_infer.onnx magika.onnx magika.json \
	magika_types.json; do
	[ -f "$models/$f" ] && continue
	echo "SKIP programs with models: $models/$f is not there; make models fetches it"
	echo "$passed passed, $failed failed, 1 skipped"
	[ $failed -eq 0 ]
	exit
done
refuses 'does not become 16000' "$B/examples/vad" "$T/44101.wav"
all() { # the same for C and for Python
	for rate in 16000 8000 44100; do "$@" vad "$T/$rate.wav" || echo "exit status $?"; done
	"$@" ocr test/models/text.png || echo "exit status $?"
	"$@" filetypes "$T" "$T/few" "$T/bytes" "$T/empty" "$T/code" "$T/data" "$T/script" "$T/program" "$T/44100.wav" test/models/text.png \
		examples/data/digits.npz || echo "exit status $?"
}
in_c() { # program, its arguments
	name=$1 && shift
	case $name in
	vad | ocr) "$B/examples/$name" "$@" "$T/$name.png" ;;
	*) "$B/examples/$name" "$@" ;;
	esac
}
stable() { sed "/^time: /d; s|$T|T|g; s|: \{2,\}|: |"; } # the name of the temporary folder has no fixed length

if [ -n "$write" ]; then
	all "$write" test/models/programs.py 2>&1 | stable >$want
	exit
fi
all in_c 2>&1 | stable >"$T/got"
diff $want "$T/got"
verdict $? "the examples print something else than $want"
for f in vad ocr; do
	[ "$(head -c 4 "$T/$f.png" | tail -c 3)" = PNG ]
	verdict $? "$f wrote no picture"
done

# ---- small weights: what they lose on recorded inputs ----
loses() { # model, case, kind, least cosine; the largest element of each row stays
	"$B/tj" run "$models/$1.onnx" -i "build/models/$2/in0.npy" --quantise "$3" >"$T/said" 2>&1 &&
		sed -n 's/.*cosine \([0-9.]*\), same largest element in \([0-9.]*\) %.*/\1 \2/p' "$T/said" |
		awk -v least="$4" '{ n++; ok += $1 >= least && $2 == 100 } END { exit !(n && n == ok) }'
	verdict $? "$1 with weights of $3: $(cat "$T/said")"
}
if [ -f build/models/17/in0.npy ] && [ -x "$B/tj" ]; then
	loses magika 17 dynamic 0.9995
	loses magika 17 i4 0.97
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
