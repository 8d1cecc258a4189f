#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the cases of tj-bench in PyTorch, JAX and NumPy (loops: Numba and Halide), in turns with tjit.

    python3 bench/peers.py [--peers torch,torch-eager,jax,numpy] [--rounds 5] [--seconds 0.2] [--md FILE] [--svg FILE] [--json FILE] [REGEX]
    python3 bench/peers.py --products [the same options]
    python3 bench/peers.py --train [the same options]
    python3 bench/peers.py --layers [the same options]
    python3 bench/peers.py --loops [the same options]
    python3 bench/peers.py --draw FILE.json [--md FILE] [--svg FILE]

Every peer runs in its own process, which keeps the case open; in a round each of them in turn runs a few batches of calls. The reported
time is that of the quickest round, so that other programs on the machine do not count. Peers that are not installed are left out. Each
case is defined once, below, with the functions of NumPy; bench/cases.c has the same names and shapes. With --train they are the training
steps of tj-bench --train (bench/training.py), with --layers the layers of tj-bench --layers (bench/layers.py), with --loops the functions
of tj-bench --loops (bench/loops.py), whose results are compared first. With --products the cases are the matrix products of tj-bench
--products, which says their shapes. THREADS=1 gives each peer one thread.
"""
import argparse, json, math, os, re, subprocess, sys, tempfile, time

THREADS = os.environ.get("THREADS", "2")
HERE = os.path.dirname(os.path.abspath(__file__))
M1 = 1 << 20
CASES = {}


def case(name, *shapes, f=None, flops=False):
    CASES[name] = (f, shapes, flops)


def chain(m, x, y):
    for i in range(10):
        x = x * y + 0.5
        x = m.maximum(x, y * 0.25)
    return x


def attention(m, x, wq, wk, wv, wo):
    T, C, H = 384, 768, 12
    q, k, v = (m.heads(m.reshape(m.matmul(x, w), (T, H, C // H))) for w in (wq, wk, wv))  # [H,T,D]
    p = m.softmax(m.matmul(q, m.swap(k)) * (1 / math.sqrt(C // H)))
    return m.matmul(m.reshape(m.heads(m.matmul(p, v)), (T, C)), wo)


def block(m, x, g1, c1, wq, wk, wv, wo, g2, c2, w1, b1, w2, b2):
    x = x + attention(m, m.layernorm(x, g1, c1), wq, wk, wv, wo)
    return x + m.matmul(m.gelu(m.matmul(m.layernorm(x, g2, c2), w1) + b1), w2) + b2


# Each takes m, the NumPy-like namespace of the peer, then arrays.
case("tiny_add_8", (8,), f=lambda m, x: x + 1)
case("tiny_10in_8", *[(8,)] * 10, f=lambda m, *a: m.addn(a))
case("add_1M", (M1,), (M1,), f=lambda m, x, y: x + y)
case("exp_1M", (M1,), f=lambda m, x: m.exp(x))
case("tanh_1M", (M1,), f=lambda m, x: m.tanh(x))
case("log_1M", (M1,), f=lambda m, x: m.log(m.abs(x)))
case("sigmoid_1M", (M1,), f=lambda m, x: m.sigmoid(x))
case("gelu_erf_1M", (M1,), f=lambda m, x: 0.5 * x * (1 + m.erf(x * 0.70710678)))
case("silu_mul_10M", (10 * M1,), (10 * M1,), f=lambda m, x, y: x * m.sigmoid(x) * y)
for n, t in ((64, "64"), (4096, "4K"), (M1, "1M"), (16 * M1, "16M")):
    case(f"chain30_{t}", (n,), (n,), f=chain)
for r, c in ((4096, 128), (4096, 1024), (4096, 8192), (6144, 384)):
    case(f"softmax_{r}x{c}", (r, c), f=lambda m, x: m.softmax(x))
for r, c in ((4096, 1024), (4096, 4096)):
    case(f"layernorm_{r}x{c}", (r, c), (c,), (c,), f=lambda m, x, w, b: m.layernorm(x, w, b))
case("rmsnorm_res_4096x1024", (4096, 1024), (4096, 1024), (1024,), f=lambda m, x, r, w: m.rmsnorm(x + r, w))
case("sum_rows_4096", (4096, 4096), f=lambda m, x: m.sum(x, 1))
case("sum_cols_4096", (4096, 4096), f=lambda m, x: m.sum(x, 0))
case("sum_all_4096", (4096, 4096), f=lambda m, x: m.sum(x, None))
case("cumsum_rows_4096x1024", (4096, 1024), f=lambda m, x: m.cumsum(x, 1))
case("cumsum_cols_4096x1024", (4096, 1024), f=lambda m, x: m.cumsum(x, 0))
case("cumsum_1x4M", (1, 4 * M1), f=lambda m, x: m.cumsum(x, 1))
for r, c, t in ((1, M1, "1x1M"), (1024, 1024, "1024x1024")):
    case(f"sort_{t}", (r, c), f=lambda m, x: m.sort(x))
    case(f"argsort_{t}", (r, c), f=lambda m, x: m.argsort(x))
case("topk32_64x32000", (64, 32000), f=lambda m, x: m.topk(x, 32))
case("argmax_rows_4096", (4096, 4096), f=lambda m, x: m.argmax(x, 1))
case("transpose_add_2048", (2048, 2048), (2048, 2048), f=lambda m, x, y: m.transpose(x) + y)
for n in (1, 32, 128, 1024):
    case(f"linear_gelu_{n}x768x3072", (n, 768), (768, 3072), (3072,), flops=True, f=lambda m, x, w, b: m.gelu(m.matmul(x, w) + b))
case("mlp_32x784x256x10", (32, 784), (784, 256), (256,), (256, 10), (10,), flops=True,
     f=lambda m, x, w1, b1, w2, b2: m.matmul(m.relu(m.matmul(x, w1) + b1), w2) + b2)
case("attention_384x768x12", (384, 768), *[(768, 768)] * 4, flops=True, f=attention)
case("block_384x768x12", (384, 768), (768,), (768,), *[(768, 768)] * 4, (768,), (768,), (768, 3072), (3072,), (3072, 768), (768,),
     flops=True, f=block)


def load_products(build):
    """Replaces the cases by the matrix products that tj-bench has."""
    CASES.clear()
    for line in subprocess.run([os.path.join(build, "tj-bench"), "--products", "--list"], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        p = json.loads(line)
        batch = (p["batch"],) if p["batch"] else ()
        b = (p["n"], p["k"]) if p["transposed"] else (p["k"], p["n"])
        CASES[p["case"]] = (lambda m, x, y, t=p["transposed"]: m.product(x, m.swap(y) if t else y), (batch + (p["m"], p["k"]), batch + b),
                            p["dtype"])


def load_training(build):
    """Replaces the cases by the training steps that tj-bench has."""
    import training
    CASES.clear()
    for name in training.table(build): CASES[name] = (None, (), None)


def load_layers(build):
    """Replaces the cases by the layers that tj-bench has."""
    import layers
    CASES.clear()
    for name in layers.table(build): CASES[name] = (None, (), None)


def load_loops(build):
    """Replaces the cases by the loops that tj-bench has."""
    import loops
    CASES.clear()
    for name in loops.table(build): CASES[name] = (None, (), None)


# ---- the peers ----
class Numpy:
    def __init__(s):
        import numpy as np
        s.np = np
        for n in "exp log tanh abs maximum matmul".split(): setattr(s, n, getattr(np, n))
    def version(s): return "NumPy " + s.np.__version__
    def sigmoid(s, x): return 1 / (1 + s.np.exp(-x))
    def erf(s, x):
        from scipy.special import erf
        return erf(x)
    def relu(s, x): return s.np.maximum(x, 0)
    def gelu(s, x): return 0.5 * x * (1 + s.erf(x * s.np.float32(0.70710678)))
    def softmax(s, x): e = s.np.exp(x - x.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)
    def layernorm(s, x, w, b): return (x - x.mean(-1, keepdims=True)) / s.np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b
    def rmsnorm(s, x, w): return x / s.np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w
    def sum(s, x, a): return x.sum(axis=a)
    def argmax(s, x, a): return x.argmax(axis=a)
    def cumsum(s, x, a): return s.np.cumsum(x, a)
    def sort(s, x): return s.np.sort(x, -1)
    def argsort(s, x): return s.np.argsort(x, -1, kind="stable")
    def topk(s, x, k): return -s.np.sort(s.np.partition(-x, k, -1)[..., :k], -1)
    def transpose(s, x): return x.T
    def heads(s, x): return x.transpose(1, 0, 2)
    def swap(s, x): return x.swapaxes(-1, -2)
    def reshape(s, x, sh): return x.reshape(sh)
    def addn(s, a):
        r = a[0]
        for x in a[1:]: r = r + x
        return r
    def product(s, x, y): return s.matmul(x.astype("int32"), y.astype("int32")) if x.dtype == s.np.int8 else s.matmul(x, y)
    def put(s, x): return x
    def cast(s, x, dtype):
        if dtype == "bf16": raise TypeError("NumPy has no bf16")
        return x.astype({"f32": "float32", "f64": "float64", "i8": "int8"}[dtype])
    def jit(s, f): return f
    def sync(s, y): pass


class Torch(Numpy):
    def __init__(s, compiled):
        import torch
        s.t, s.compiled = torch, compiled
        torch.set_num_threads(int(THREADS)); torch.set_grad_enabled(False)
        F = torch.nn.functional
        for n in "exp log tanh abs maximum matmul sigmoid erf relu argmax cumsum".split(): setattr(s, n, getattr(torch, n))
        s.gelu = F.gelu
        s.sort = lambda x: torch.sort(x, -1)[0]
        s.argsort = lambda x: torch.argsort(x, -1, stable=True)
        s.topk = lambda x, k: torch.topk(x, k)[0]
        s.softmax = lambda x: torch.softmax(x, -1)
        s.layernorm = lambda x, w, b: F.layer_norm(x, w.shape, w, b)
        s.rmsnorm = lambda x, w: F.rms_norm(x, w.shape, w, 1e-5)
        s.sum = lambda x, a: torch.sum(x) if a is None else torch.sum(x, a)
        s.heads = lambda x: x.permute(1, 0, 2)
    def version(s): return "PyTorch " + s.t.__version__.split("+")[0]
    def put(s, x): return s.t.from_numpy(x)
    def cast(s, x, dtype):
        return s.t.from_numpy(x).to({"f32": s.t.float32, "f64": s.t.float64, "bf16": s.t.bfloat16, "i8": s.t.int8}[dtype])
    def product(s, x, y): return s.t._int_mm(x, y) if x.dtype == s.t.int8 else s.t.matmul(x, y)
    def jit(s, f):
        if not s.compiled: return f
        s.t._dynamo.reset()
        return s.t.compile(f)


class Jax(Numpy):
    def __init__(s):
        import jax, jax.numpy as jnp
        s.j = jax
        for n in "exp log tanh abs maximum matmul sum argmax cumsum".split(): setattr(s, n, getattr(jnp, n))
        s.sigmoid, s.relu, s.erf = jax.nn.sigmoid, jax.nn.relu, jax.scipy.special.erf
        s.sort = lambda x: jnp.sort(x, -1)
        s.argsort = lambda x: jnp.argsort(x, -1, stable=True)
        s.topk = lambda x, k: jax.lax.top_k(x, k)[0]
        s.gelu = lambda x: jax.nn.gelu(x, approximate=False)
        s.softmax = lambda x: jax.nn.softmax(x, -1)
        s.layernorm = lambda x, w, b: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b
        s.rmsnorm = lambda x, w: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w
        s.swap = lambda x: jnp.swapaxes(x, -1, -2)
    def version(s): return "JAX " + s.j.__version__
    def put(s, x): return s.j.device_put(x)
    def cast(s, x, dtype):
        s.j.config.update("jax_enable_x64", dtype == "f64")
        return s.j.numpy.asarray(x, {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "i8": "int8"}[dtype])
    def product(s, x, y): return s.j.numpy.matmul(x, y, preferred_element_type="int32" if x.dtype == "int8" else None)
    def jit(s, f): return s.j.jit(f)
    def sync(s, y): y.block_until_ready()


PEERS = {"torch": lambda: Torch(True), "torch-eager": lambda: Torch(False), "jax": Jax, "numpy": Numpy}


def batches(call, sync, budget):
    """Time of a call in us: that of the quickest tenth of short batches, as in bench/run.c."""
    def batch(n):
        t0 = time.perf_counter()
        for _ in range(n): y = call()
        sync(y)
        return (time.perf_counter() - t0) / n
    one = min(batch(1) for _ in range(3))
    n = 1 + int(1e-3 / one)
    out = sorted(batch(n) for _ in range(max(5, min(201, int(budget / (n * one))))))
    return out[len(out) // 10] * 1e6


def operands(p, rng, shapes, kind):
    """kind: the dtype of a product; else whether the case is made of products, whose weights must be small."""
    import numpy as np
    if isinstance(kind, str): return [p.cast(rng.integers(-127, 128, s) if kind == "i8" else rng.uniform(-1, 1, s), kind) for s in shapes]
    return [p.put(rng.standard_normal(s, dtype=np.float32) * np.float32(0.02 if len(s) == 2 and s[0] >= 256 and kind else 1))
            for s in shapes]


def serve(version, opened, answer):
    """Reads lines "case seconds" and answers each, like tj-bench --serve. opened(case) is kept until another case comes."""
    now = what = None
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        c, seconds = line.split()
        try:
            if c != now: what, now = opened(c), c
            print(json.dumps(answer(what, float(seconds))), flush=True)
        except Exception as e:  # a peer that cannot do a case says so
            print(json.dumps({"error": (str(e) or repr(e)).splitlines()[0][:120]}), flush=True)


def first_call(call, sync):
    """Its result and its time in ms."""
    t0 = time.perf_counter(); y = call(); sync(y)
    return y, (time.perf_counter() - t0) * 1e3


def serve_calls(version, sync, opened):
    """opened(case): a call of it, and the time of the first call; no call: the peer lacks the case, and the answer is {}."""
    serve(version, opened, lambda x, seconds: {"us": batches(x[0], sync, seconds), "first_ms": x[1]} if x[0] else {})


def train_worker(name, build):
    """The answers also have the bytes that a step allocates at most."""
    import training
    sizes, m = training.table(build), training.PEERS[name](int(THREADS))
    def opened(c):
        step = m.open(training.Spec(c, sizes[c]["full"], "float32"))
        return {"step": step, "first_ms": first_call(step, m.value)[1]}
    def answer(x, seconds):
        us = batches(x["step"], m.value, seconds)
        if "peak_bytes" not in x: x["peak_bytes"] = m.peak(x["step"])
        return {"us": us, "first_ms": x["first_ms"], "peak_bytes": x["peak_bytes"]}
    serve(m.version(), opened, answer)


def layer_worker(name, build):
    import layers
    table, m = layers.table(build), layers.PEERS[name](int(THREADS))
    def opened(c):
        args, g = layers.operands(m, table[c]), m.jit(layers.function(m, c))
        call = lambda: g(*args)
        first = first_call(call, m.sync)[1]
        for _ in range(3): m.sync(call())
        return call, first
    serve_calls(m.version(), m.sync, opened)


def loop_worker(name, build):
    """A peer whose results are wrong is not timed."""
    import loops
    table, m = loops.table(build), loops.PEERS[name](int(THREADS))
    def opened(c):
        call = m.open(table[c], loops.inputs(table[c]))
        if not call: return None, None
        y, first = first_call(call, m.sync)
        loops.Expected(build, table[c]).check(y if isinstance(y, (tuple, list)) else [y])
        return call, first
    serve_calls(m.version(), m.sync, opened)


def worker(name, o):
    if int(THREADS) < len(os.sched_getaffinity(0)): os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(THREADS)])  # binds JAX
    if o.train: return train_worker(name, o.build)
    if o.layers: return layer_worker(name, o.build)
    if o.loops: return loop_worker(name, o.build)
    import numpy as np
    p, rng = PEERS[name](), np.random.default_rng(0)
    def opened(c):
        f, shapes, kind = CASES[c]
        args, g = operands(p, rng, shapes, kind), p.jit(lambda *a: f(p, *a))
        call = lambda: g(*args)
        first = first_call(call, p.sync)[1]
        for _ in range(3): p.sync(call())
        return call, first
    serve_calls(p.version(), p.sync, opened)


# ---- the driver ----
class Process:
    def __init__(s, *command):
        s.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def ask(s, line):
        s.p.stdin.write(line + "\n"); s.p.stdin.flush()
        return s.read()
    def read(s):
        got = s.p.stdout.readline()
        return json.loads(got) if got else {"error": "it ended"}
    def close(s): s.p.stdin.close(); s.p.wait()


def available(names):
    have = []
    for n in names:
        module = {"torch-eager": "torch"}.get(n, n)
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0: have.append(n)
        else: print(f"without {n}: this Python has no {module}", file=sys.stderr)
    return have


def best(rounds):
    """Combines several answers: the smallest of each time, but the first call of the first answer."""
    if any("error" in r and not isinstance(r["error"], float) for r in rounds): return {"error": rounds[0].get("error")}
    out = dict(rounds[0])
    for k in "us", "frozen_us", "hand_us", "packed_us", "sgemm_us", "openblas_us", "xsmm_us":
        if k in out: out[k] = min(r[k] for r in rounds)
    if "limit_%" in out: out["limit_%"] = sorted(r["limit_%"] for r in rounds)[len(rounds) // 2]
    return out


def run(o):
    names = available(o.peers.split(","))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp())
    for n in "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "HL_NUM_THREADS": os.environ[n] = THREADS
    os.environ["TJ_THREADS"] = THREADS
    more = ["--products", "--threads", THREADS] if o.products else ["--train"] if o.train else ["--layers"] if o.layers else [
            "--loops"] if o.loops else []
    ours = Process(os.path.join(o.build, "tj-bench"), "--serve", *more)
    peers = {n: Process(sys.executable, os.path.abspath(__file__), "--worker", n, "--build", o.build, *more[:1]) for n in names}
    versions = [p.read()["version"] for p in peers.values()]
    result = {"versions": sorted(set(versions)), "state": ours.ask("state"), "cases": {}}
    for c in (c for c in CASES if re.search(o.pattern, c)):
        rounds = {n: [] for n in ["tjit"] + names}
        for _ in range(o.rounds):
            rounds["tjit"].append(ours.ask(f"{c} {o.seconds}"))
            for n, p in peers.items(): rounds[n].append(p.ask(f"{c} {o.seconds}"))
        result["cases"][c] = {n: best(r) for n, r in rounds.items()}
        print(row(c, result["cases"][c]), flush=True)
        for n, r in result["cases"][c].items():
            if n != "tjit" and "error" in r: print(f"    without {SHOWN[n]}: {r['error']}", flush=True)
    xs = [rival(c, r)[1] for c, r in result["cases"].items() if "us" in r["tjit"] and others(r)]
    print(f"{len(xs)} cases: geometric mean {mean(xs):.3f} x the best, {sum(x < 1 for x in xs)} short of it")
    result["state_after"] = ours.ask("state")
    for p in [ours] + list(peers.values()): p.close()
    return result


# ---- tables and the chart ----
SHOWN = {"torch": "torch.compile", "torch-eager": "torch eager", "jax": "JAX", "numpy": "NumPy", "numba": "Numba", "halide": "Halide",
         "hand": "hand C",
         "packed": "oneDNN packed",
         "sgemm": "oneDNN", "openblas": "OpenBLAS", "xsmm": "libxsmm"}
LIBRARIES = "hand", "packed", "sgemm", "openblas", "xsmm"  # tj-bench times them in its own process


def others(r):
    """Times of all peers, in us."""
    t = {n: v["us"] for n, v in r.items() if n != "tjit" and "us" in v}
    t.update({n: r["tjit"].get(n + "_us") for n in LIBRARIES})
    return {n: v for n, v in t.items() if v}


def ours(r):
    """Our best time: of a product, with B as an input or as a tensor whose content may be rearranged beforehand."""
    return min(r["tjit"]["us"], r["tjit"].get("frozen_us", math.inf))


def fair(c, n):
    """Only libraries are compared in tiny cases, where a hand-written loop is a few instructions."""
    return n != "hand" or c.split("_")[-1] not in ("8", "64")


def rival(c, r):
    """The best time of the others."""
    t = {n: v for n, v in others(r).items() if fair(c, n)}
    n = min(t, key=t.get)
    return n, t[n] / ours(r)


def num(us): return f"{us:,.0f}" if us >= 100 else f"{us:.1f}" if us >= 1 else f"{us:.3f}"


def row(c, r):
    if "us" not in r["tjit"]: return f"{c}: {r['tjit']}"
    if not others(r): return f"{c:27} {num(ours(r)):>9} us  none of the others has it"
    n, x = rival(c, r)
    return f"{c:27} {num(ours(r)):>9} us  {x:5.2f} x the best ({SHOWN[n]})  " + "  ".join(f"{SHOWN[k]} {num(v)}"
                                                                                          for k, v in others(r).items())


def mean(xs): return math.exp(sum(map(math.log, xs)) / len(xs)) if xs else 0


def markdown(d):
    cols = [n for n in SHOWN if any(n in others(r) for r in d["cases"].values())]
    out = ["| case | tjit µs | of limit | " + " | ".join(SHOWN[n] for n in cols) + " | against the best |",
           "|---|---:|---:|" + "---:|" * len(cols) + "---|"]
    for c, r in d["cases"].items():
        if "us" not in r["tjit"] or not others(r): continue
        n, x = rival(c, r)
        limit = f"{r['tjit']['limit_%']:.0f} %" if "limit_%" in r["tjit"] else ""
        t = others(r)
        out.append(f"| {c} | {num(ours(r))} | {limit} | " + " | ".join(num(t[k]) if k in t else "–"
                                                                       for k in cols) + f" | **{x:.2f} ×** {SHOWN[n]} |")
    if any("peak_bytes" in r["tjit"] for r in d["cases"].values()): out += memory(d)
    means = []
    for n in cols:
        xs = [others(r)[n] / ours(r) for c, r in d["cases"].items() if n in others(r) and fair(c, n)]
        out.append(f"{'' if means else chr(10)}- Geometric mean against {SHOWN[n]}: {mean(xs):.2f} × over {len(xs)} cases.")
        means.append(n)
    return "\n".join(out) + "\n"


def memory(d):
    """A table of what a training step allocates beyond its cells, and of the time of the first call."""
    peers = [n for n in SHOWN if any("peak_bytes" in r.get(n, {}) for r in d["cases"].values())]
    out = ["", "| case | tjit MB | " + " | ".join(SHOWN[n] for n in peers) + " | first call, ms: tjit | " + " | ".join(SHOWN[n]
            for n in peers) + " |",
           "|---|" + "---:|" * (2 * len(peers) + 2)]
    for c, r in d["cases"].items():
        cell = lambda n, k, f: f"{r[n][k] * f:,.1f}" if k in r[n] and f < 1 else f"{r[n][k]:,.0f}" if k in r[n] else "–"
        out.append(f"| {c} | " + " | ".join([cell(n, "peak_bytes", 1e-6) for n in ["tjit"] + peers] + [cell(n, "first_ms", 1)
                for n in ["tjit"] + peers]) + " |")
    return out


STYLE = """<style>
text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f } .dim { fill: #656d76 }
line { stroke: #d0d7de } .one { stroke: #24292f }
.win { fill: #1a7f37 } .lose { fill: #bc4c00 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .dim { fill: #9198a1 } line { stroke: #3d444d } .one { stroke: #e6edf3 }
.win { fill: #3fb950 } .lose { fill: #db6d28 } }
</style>"""


def svg(d):
    """One bar for each case: the best time of the others divided by ours, on a logarithmic scale."""
    bars = [(c, *rival(c, r)) for c, r in d["cases"].items() if "us" in r["tjit"] and others(r)]
    left, width, right, h = 190, 460, 190, 17
    low, high = min(0.5, min(b[2] for b in bars) * 0.9), max(4, max(b[2] for b in bars) * 1.05)
    at = lambda x: left + width * (math.log(x) - math.log(low)) / (math.log(high) - math.log(low))
    total = 46 + h * len(bars) + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + right} {total}" '
           f'width="{left + width + right}" height="{total}" role="img">', STYLE,
           '<text x="8" y="16">How many times faster than the best of PyTorch, JAX, NumPy and hand-written C '
           '(log scale; right of 1 is faster)</text>']
    for x in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20):
        if low <= x <= high:
            out.append(f'<line x1="{at(x):.1f}" x2="{at(x):.1f}" y1="38" y2="{total - 8}"'
                       f'{" class=" + chr(34) + "one" + chr(34) if x == 1 else ""}/>'
                       f'<text class="dim" x="{at(x):.1f}" y="33" text-anchor="middle">{x:g}</text>')
    for i, (c, n, x) in enumerate(bars):
        y, a, b = 42 + h * i, min(at(1), at(x)), max(at(1), at(x))
        out.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{c}</text>'
                   f'<rect class="{"win" if x >= 1 else "lose"}" x="{a:.1f}" y="{y + 2}" '
                   f'width="{max(b - a, 1):.1f}" height="{h - 5}" rx="2"/>'
                   f'<text class="dim" x="{max(b, at(1)) + 6:.1f}" y="{y + 12}">{x:.2f} × {SHOWN[n]}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("pattern", nargs="?", default=".")
    a.add_argument("--products", action="store_true")
    a.add_argument("--train", action="store_true")
    a.add_argument("--layers", action="store_true")
    a.add_argument("--loops", action="store_true")
    a.add_argument("--peers", help="default: all; with --products all but torch, because torch.compile calls the same library "
                   "as torch-eager")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=0.2)
    a.add_argument("--build", default=os.path.join(HERE, "..", "build"))
    for n in "md", "svg", "json", "draw", "worker": a.add_argument("--" + n)
    o = a.parse_args()
    if o.products: load_products(o.build)
    if o.train: load_training(o.build)
    if o.layers: load_layers(o.build)
    if o.loops: load_loops(o.build)
    if not o.peers:
        o.peers = ("torch-eager,jax,numpy" if o.products else "torch,jax,numba,halide" if o.loops else "torch,torch-eager,jax" if o.train
                   else "torch,torch-eager,jax,numpy")
    if o.worker: return worker(o.worker, o)
    d = json.load(open(o.draw)) if o.draw else run(o)
    if o.json: json.dump(d, open(o.json, "w"), indent=1)
    if o.md: open(o.md, "w").write(markdown(d))
    if o.svg: open(o.svg, "w").write(svg(d))


main()
