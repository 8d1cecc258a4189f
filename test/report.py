# SPDX-License-Identifier: MIT
"""The page of tj report in headless Chromium: loads without errors and without a network, search, links, clicks, keys, dark and light,
two runs, hostile strings, dumps changed at random that the command takes.   python3 test/report.py build-folder [folder for screenshots]

Exit code 1: something failed."""
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import browser

build = os.path.abspath(sys.argv[1])
shots = sys.argv[2] if len(sys.argv) > 2 else None
failed = []


def check(ok, what):
    if not ok:
        failed.append(what)
        print("FAIL " + what)


def quiet(b, what):
    check(not b.console, "%s: the console says %s" % (what, "; ".join(b.console)[:400]))
    b.console.clear()


def picture(b, name):
    if shots:
        b.screenshot(os.path.join(shots, name + ".png"))


def dump(folder, name, program, *words, **env):
    path = os.path.join(folder, name + ".json")
    subprocess.run([os.path.join(build, "examples", program), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                   env={**os.environ, "TJ_CACHE": "off", "TJ_PROFILE": "1", "TJ_REPORT": path, **env})
    return path


def page(folder, *paths):
    html = paths[0][:-4] + "%d.html" % len(paths)
    return html if subprocess.run([os.path.join(build, "tj"), "report", *paths, "-o", html], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode == 0 else None


# ---- one run ----
def text(b, selector):
    return b.run("document.querySelector(%s)?.textContent ?? ''" % json.dumps(selector))


def step_of_gpt(b, folder):
    path = dump(folder, "gpt", "gpt", "/usr/share/common-licenses/GPL-3", "4")
    html = page(folder, path)
    size = os.path.getsize(html)
    check(size <= 2 << 20, "the page of gpt has %d bytes" % size)
    print("the page of gpt: %d KiB" % (size >> 10))
    for dark in (False, True):
        b.dark(dark)
        for route in ("", "#a/f0", "#a/f0/p0/graph", "#a/f0/p0/kernels", "#a/f0/p0/memory", "#a/f0/p0/events", "#a/f0/p0/decisions"):
            b.open(html, route)
            quiet(b, "gpt%s %s" % (route, "dark" if dark else "light"))
            check(b.run("document.querySelector('main').childElementCount") > 0, "something is at " + route)
            picture(b, "gpt%s-%s" % (route.replace("#", "-").replace("/", "-"), "dark" if dark else "light"))
        back = b.run("getComputedStyle(document.body).backgroundColor")
        check((back == "rgb(16, 20, 27)") == dark, "the background is %s, dark %s" % (back, dark))
    b.dark(False)
    b.open(html, "#a/f0/p0/graph")
    ms = float(b.run("document.querySelector('.stage svg').dataset.layoutMs"))
    nodes = b.run("document.querySelectorAll('.node').length")
    check(ms < 1000 and nodes > 1000, "%d nodes are laid out in %.0f ms" % (nodes, ms))
    print("%d nodes laid out in %.0f ms" % (nodes, ms))
    boxes_do_not_overlap(b)
    clicks(b)
    search(b)
    keys(b)
    switch(b)
    return html


def boxes_do_not_overlap(b):
    """Steps are apart, and each node lies in the box of its step."""
    wrong = b.run("""(() => {
        const of = (r) => ['x', 'y', 'width', 'height'].map((k) => Number(r.getAttribute(k))), box = (g) => of(g.querySelector('rect'));
        const all = [...document.querySelectorAll('.group')].map(box), nodes = [...document.querySelectorAll('.node')].map(box);
        const meet = ([x, y, w, h], [u, v, p, q]) => x < u + p - 0.5 && u < x + w - 0.5 && y < v + q - 0.5 && v < y + h - 0.5;
        let n = 0;
        for (let i = 0; i < all.length; i++) for (let k = 0; k < i; k++) n += meet(all[i], all[k]);
        for (let i = 0; i < nodes.length; i++) for (let k = 0; k < i; k++) n += meet(nodes[i], nodes[k]);
        return n;
    })()""")
    check(wrong == 0, "%d boxes or nodes overlap" % wrong)


def clicks(b):
    b.run("document.querySelector('.stage svg').focus()")
    b.click(".node.kernel")
    check(text(b, ".details h2").startswith("%"), "a click on a node shows it: " + text(b, ".details h2"))
    details = text(b, ".details")
    for part in ("type", "line", "gpt.c:", "step", "time", "Reads"):
        check(part in details, "%s is in the details of a node" % part)
    check(b.run("location.hash").startswith("#a/f0/p0/graph/n"), "the address names the node")
    b.click(".details dd a")
    check(b.run("location.hash").startswith("#a/f0/p0/kernels/s"), "the link leads to the kernel")
    for pane, part in (("kernel", "kernel tj_step"), ("code", "define void"), ("assembly", ".text")):
        check(part in text(b, "#text-" + pane), "%s is in the pane %s" % (part, pane))
    b.click('button[aria-controls="text-code"]')
    check(b.run("document.querySelectorAll('.text.shut').length") == 1, "a pane is shut")
    b.click('button[aria-controls="text-code"]')
    b.click('.stephead a')
    check("/graph/n" in b.run("location.hash"), "the link leads to the graph")
    quiet(b, "clicks")


def search(b):
    b.key("/")
    check(b.run("document.activeElement.id") == "search", "/ is for search")
    b.type("softmax gpt.c")
    b.settle()
    found = b.run("[...document.querySelectorAll('#results li')].map((li) => li.textContent)")
    check(found and all("softmax" in f and "gpt.c" in f for f in found if "more:" not in f), "search finds softmax: %s" % found[:2])
    picture(b, "search")
    b.key("Escape")
    check(b.run("document.querySelector('#results').hidden"), "Esc ends the search")
    b.key("/")
    b.type("k20 matmul")
    b.settle()
    b.key("ArrowDown")
    b.key("ArrowUp")
    b.key("Enter")
    b.settle()
    check(b.run("location.hash") == "#a/f0/p0/kernels/s20" and "k20" in text(b, ".stephead h2"), "Enter opens what was found")
    b.key("/")
    b.type("nothinghasthisname")
    b.settle()
    check("Nothing has all" in text(b, "#results"), "nothing is found")
    b.key("Escape")
    quiet(b, "search")


def keys(b):
    b.go("#a/f0/p0/graph")
    b.run("document.querySelector('.stage svg').focus()")
    b.key("ArrowDown")
    first = b.run("location.hash")
    b.key("ArrowDown")
    check("/graph/n" in first and b.run("location.hash") != first, "arrows move in the graph")
    b.key("ArrowUp")
    b.key("0")
    b.key("+")
    b.key("Enter")
    b.settle()
    check("/kernels/s" in b.run("location.hash"), "Enter opens the kernel of a node")
    b.run("document.querySelector('[role=listbox][tabindex]').focus()")
    before = b.run("location.hash")
    b.key("ArrowDown")
    check(b.run("location.hash") != before, "arrows move in the list of steps")
    b.run("document.querySelector('[role=tab][aria-selected=true]').focus()")
    b.key("ArrowRight")
    b.settle()
    check(b.run("location.hash").endswith("/memory") and b.run("document.activeElement.id") == "tab-memory", "arrows move between tabs")
    b.run("document.querySelector('.memory svg').focus()")
    for _ in range(3):
        b.key("ArrowRight")
    check("/memory/b" in b.run("location.hash") and "written by" in text(b, ".details"), "arrows move in the memory")
    b.key("Escape")
    check(b.run("document.querySelector('.details').hidden"), "Esc lets go of a value")
    b.run("document.activeElement.blur()")
    b.key("?")
    check(b.run("document.querySelector('#help').open"), "? shows the keys")
    b.key("Escape")
    b.run("document.querySelector('#help').close()")
    for _ in range(40):
        b.key("Tab")
        seen = b.run("(() => { const e = document.activeElement; return [e.tagName, (e.getAttribute('aria-label') || e.textContent || "
                     "e.labels?.[0]?.textContent || '').trim()]; })()")
        check(seen[0] == "BODY" or seen[1], "%s has no name" % seen[0])
    quiet(b, "keys")


def switch(b):
    """The switch of colours goes before the system."""
    colour = "getComputedStyle(document.body).backgroundColor"
    b.click("#theme")
    b.click("#theme")
    check(b.run(colour) == "rgb(16, 20, 27)", "the switch makes it dark")
    b.click("#theme")
    check(b.run(colour) != "rgb(16, 20, 27)", "and as the system again")
    quiet(b, "the switch")


# ---- other runs ----
def recompile(b, folder):
    html = page(folder, dump(folder, "recompile", "recompile"))
    b.open(html)
    check("dtype of argument 0: was f32, is f64" in text(b, "main"), "what failed stands first")
    b.open(html, "#a/f0/why")
    for part in ("f32", "f64", "recompile.c:", "cast the argument with tj_cast() before the call"):
        check(part in text(b, "#why"), "%s is said of a recompile" % part)
    check("argument 0 is f32[4]" in text(b, ".tree"), "guards are in the tree")
    picture(b, "recompile")
    quiet(b, "recompile")


def regions(b, folder):
    html = page(folder, dump(folder, "rnn", "rnn"))
    b.open(html, "#a/f0/p1/graph")
    check("region 1 of step" in text(b, ".planhead"), "a region has a plan")
    quiet(b, "regions")


def two(b, folder):
    html = page(folder, dump(folder, "one", "gpt", "/usr/share/common-licenses/GPL-3", "2"),
                dump(folder, "other", "gpt", "--bf16", "/usr/share/common-licenses/GPL-3", "2", TJ_CODEGEN="fast"))
    b.open(html)
    said = text(b, "main")
    for part in ("What changed", "one.json", "other.json", "step", "evaluate", "changed", "TJ_CODEGEN"):
        check(part in said, "%s is in the comparison" % part)
    b.run("document.querySelector('main details').open = true, 0")
    b.settle()
    picture(b, "compare")
    b.click("main td a")
    check(b.run("location.hash").startswith("#a/f"), "a link leads to a run")
    b.go("#b/f0/p0/graph")
    quiet(b, "two runs")


# ---- strings and structures that were not meant ----
EVIL = "</script><img src=x onerror=\"window.gone=1\"><svg onload=\"window.gone=1\">\u202e\u0000'\"`${1}"


def strings_of(v):
    if isinstance(v, dict):
        for k in v:
            if isinstance(v[k], str) and k not in ("schema", "how", "kind", "place"):
                v[k] += EVIL.replace("\0", "")
            else:
                strings_of(v[k])
    elif isinstance(v, list):
        for i, x in enumerate(v):
            if isinstance(x, str):
                v[i] = x + EVIL.replace("\0", "")
            else:
                strings_of(x)


ROUTES = ["", "#a/f0", "#a/f0/p0/graph", "#a/f0/p0/kernels", "#a/f0/p0/memory", "#a/f0/p0/events", "#a/f0/p0/decisions", "#a/f9/p9/x", "#z"]


def everywhere(b, html, what, routes=ROUTES):
    b.open(html)
    for route in routes:
        b.go(route)
        check(not b.run("window.gone"), "%s: a string ran" % what)
    quiet(b, what)


def hostile(b, folder):
    d = json.load(open(os.path.join(folder, "rnn.json")))
    strings_of(d)
    path = os.path.join(folder, "hostile.json")
    json.dump(d, open(path, "w"))
    html = page(folder, path)
    check(html is not None, "a dump with hostile strings is taken")
    everywhere(b, html, "hostile strings")
    check(EVIL[:40] in text(b, "main"), "they are shown as they are")
    b.key("/")
    b.type("onerror")
    b.settle()
    check("onerror" in text(b, "#results"), "and found")
    quiet(b, "hostile search")


def changed(b, folder, rounds):
    """Random changes of a dump: what the command takes, the page shows without an error."""
    whole = json.load(open(os.path.join(folder, "recompile.json")))
    r, taken = random.Random(5), 0
    for turn in range(rounds):
        d = copy.deepcopy(whole)
        for _ in range(r.randrange(1, 5)):
            at = d
            while True:
                key = r.choice(list(at) if isinstance(at, dict) else range(len(at))) if at else None
                if key is None or not isinstance(at[key], (dict, list)) or r.random() < 0.1:
                    break
                at = at[key]
            if key is None or key in ("schema", "version"):
                continue
            new = [0, 1, 7, 1 << 40, -1, 1.5, "", "x", None, True, [], {}]
            if r.random() < 0.3:
                del at[key]
            else:
                at[key] = r.choice([v for v in new if type(v) is type(at[key])] or new)
        path = os.path.join(folder, "changed.json")
        json.dump(d, open(path, "w"))
        html = page(folder, path)
        if html:
            taken += 1
            everywhere(b, html, "change %d" % turn)
    check(taken > rounds // 8, "%d of %d changed dumps were taken" % (taken, rounds))
    print("%d of %d changed dumps were taken and shown" % (taken, rounds))


def main():
    if not browser.program():
        print("SKIPPED chromium is not installed (package chromium)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        b = browser.Browser()
        try:
            step_of_gpt(b, folder)
            recompile(b, folder)
            regions(b, folder)
            two(b, folder)
            hostile(b, folder)
            changed(b, folder, 40)
        finally:
            b.close()
    return 1 if failed else 0


sys.exit(main())
