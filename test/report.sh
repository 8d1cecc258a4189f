#!/bin/sh
# SPDX-License-Identifier: MIT
# tj report: dumps of examples, read by another reader of JSON; pages of one and of two; dumps that are damaged, hostile or of another
# version.   test/report.sh build-folder
# With -b, the page in headless Chromium, too (report.py): the tests of the browser take half a minute.
set -u
browser=false
[ "$1" = -b ] && browser=true && shift
build=$(cd "$1" && pwd) tj=$build/tj passed=0 failed=0 skipped=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ ! -x "$tj" ]; then
	echo 'SKIPPED tj is not built: jansson is missing' && echo '0 passed, 0 failed, 1 skipped'
	exit 0
fi
if ! command -v python3 >/dev/null; then
	echo 'SKIPPED python3 is not installed (package python3)' && echo '0 passed, 0 failed, 1 skipped'
	exit 0
fi
export TJ_CACHE=off
verdict() { if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $2" && head -5 "$tmp/err"; fi; }
refused() { # what is wrong, what it says; the dump is $tmp/bad.json
	"$tj" report "$tmp/bad.json" -o "$tmp/bad.html" >"$tmp/out" 2>"$tmp/err"
	[ $? -eq 1 ] && grep -qF -- "$2" "$tmp/err" && [ ! -e "$tmp/bad.html" ]
	verdict $? "a dump is refused: $1"
}
edit() { # Python that changes the dump d
	python3 -c "
import json, sys
d = json.load(open('$tmp/recompile.json'))
p = d['functions'][0]['signatures'][0]['traces'][0]['segments'][0]['plan']['lowered']
$1
json.dump(d, open('$tmp/bad.json', 'w'))"
}

for e in recompile fusion branch rnn; do
	TJ_PROFILE=1 TJ_REPORT="$tmp/$e.json" "$build/examples/$e" >/dev/null 2>"$tmp/err" &&
		python3 -m json.tool "$tmp/$e.json" >/dev/null 2>>"$tmp/err"
	verdict $? "the dump of $e is JSON"
	"$tj" report "$tmp/$e.json" >"$tmp/out" 2>"$tmp/err" && [ "$(wc -c <"$tmp/$e.html")" -lt 300000 ]
	verdict $? "the page of $e"
done
python3 - "$tmp/recompile.json" <<'CHECK' 2>"$tmp/err"
import json, sys
d = json.load(open(sys.argv[1]))
f, = d['functions']
assert f['name'] == 'mean_square' and f['stats']['calls'] == 8
assert [r['kind'] for r in f['traced_again']['last']] == ['dtype', 'dtype', 'size']
r = f['traced_again']['last'][0]
assert (r['argument'], r['expected'], r['found']) == (0, 'f32', 'f64') and 'recompile.c:' in r['site'] and 'tj_cast' in r['cure']
plans = [g['plan'] for s in f['signatures'] for t in s['traces'] for g in t['segments']]
assert len(plans) == 4
for p in plans:
    assert [s['name'] for s in p['steps']] == [s['name'] for s in p['lowered']['steps']]
    for s, t in zip(p['steps'], p['lowered']['steps']):
        assert s['runs'] > 0 and s['ns'] > 0 and t['kernel'].startswith('kernel ' + s['name'])
        assert 'define void' in t['code'] and s['name'] + ':' in t['assembly']
    steps = {n.get('step') for n in p['lowered']['nodes'] if n['how'] == 'kernel'}
    assert steps == set(range(len(p['steps']))), steps
CHECK
verdict $? 'what the dump of recompile says'

"$tj" report "$tmp/recompile.json" "$tmp/branch.json" -o "$tmp/diff.html" >"$tmp/out" 2>"$tmp/err" &&
	[ "$(grep -c 'class="dump"' "$tmp/diff.html")" -eq 2 ]
verdict $? 'a page of two dumps'
"$tj" report --json "$tmp/fusion.json" -o "$tmp/x.html" 2>"$tmp/err" |
	python3 -c "import json, sys; assert json.load(sys.stdin)['bytes'] > 50000"
verdict $? 'tj report --json'
"$tj" report - -o - <"$tmp/fusion.json" >"$tmp/y.html" 2>"$tmp/err" && tail -1 "$tmp/y.html" | grep -q '</html>'
verdict $? 'from stdin to stdout'
! grep -qE '(src|href)="?https?:|@import|url\(' "$tmp/recompile.html"
verdict $? 'the page names nothing in a network'
for words in '' "$tmp/a $tmp/b $tmp/c" "$tmp/fusion.json -x"; do
	"$tj" report $words >/dev/null 2>"$tmp/err"
	[ $? -eq 2 ]
	verdict $? "tj report $words is refused"
done

# ---- a dump whose strings would like to be more than strings: only base64 of it is in the page ----
edit "d['program'] = d['functions'][0]['name'] = p['nodes'][0]['op'] = '</script><script>document.title=1</script><!--'"
"$tj" report "$tmp/bad.json" -o "$tmp/hostile.html" >/dev/null 2>"$tmp/err" && ! grep -q 'document.title=1' "$tmp/hostile.html"
verdict $? 'hostile strings do not stand in the page'

# ---- damaged ones ----
head -c 5000 "$tmp/recompile.json" >"$tmp/bad.json"
refused 'it is cut off' 'it is no whole JSON: line 1'
printf 'not\0a text' >"$tmp/bad.json"
refused 'bytes that are 0' 'so it is no text'
edit 'd["version"] = 2'
refused 'a later version' 'it has version 2 of the schema, and this command reads version 1'
edit 'd = {"schema": "other"}'
refused 'another schema' 'it is no dump of TJ_REPORT'
edit 'p["nodes"][1]["src"] = [99]'
refused 'an operand that is not there' \
	'functions[0].signatures[0].traces[0].segments[0].plan.lowered names a node, a step or a buffer that is not there'
edit 'p["nodes"][1]["src"] = [1]'
refused 'a node that reads itself' 'names a node, a step or a buffer'
edit 'p["buffers"][0]["bytes"] = -1'
refused 'negative bytes' 'lowered.buffers[0].bytes is not an integer of 0 or more'
edit 'del p["steps"][0]["reads"]'
refused 'a field is missing' 'lowered.steps[0].reads is missing'
rm "$tmp/bad.json"
refused 'it is not there' 'No such file or directory'

if $browser; then
	python3 test/report.py "$build" >"$tmp/said" 2>"$tmp/err"
	verdict $? 'the page in Chromium'
	cat "$tmp/said"
	grep -q ^SKIPPED "$tmp/said" && skipped=1 && passed=$((passed - 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
