#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training steps of bench/models.c in PyTorch and JAX, for bench/peers.py --train. Names and sizes are those of tj-bench --train
--list.

    python3 bench/training.py --record torch|jax FILE
        writes the losses of the first 20 steps at the small sizes, in f64, as C (test/unit/losses.inc)
    python3 bench/training.py --memory torch|torch-eager|jax [REGEX]
        what a step allocates at most, beyond parameters and AdamW's means

Parameters and batches are numbers that depend only on their places, so they are the same in all languages. Each network is defined once,
with functions that both peers have: m is Torch or Jax below, p the list of parameters.
"""
import json, math, os, re, subprocess, sys, time
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 20
OF_X, OF_TARGET = 1000, 1001
RATE, DECAY = 1e-3, 0.01


def noise(n, k):
    """n numbers of -1 to 1, of tensor k."""
    h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(k * 2246822519 + 374761393 & 0xFFFFFFFF)
    h = (h ^ h >> np.uint32(15)) * np.uint32(2246822519)
    h = (h ^ h >> np.uint32(13)) * np.uint32(3266489917)
    return (h ^ h >> np.uint32(16)).astype(np.float64) * 2.0 ** -31 - 1


class Spec:
    """Parameters and batch of a network; s: its sizes."""
    def __init__(self, name, sizes, dtype):
        self.name, self.s, self.dtype, self.params, self.grads = name, sizes, dtype, [], None
        NETS[name][0](self, **{k: sizes[k] for k in sizes})
    def param(self, shape, mean, scale):
        self.params.append((mean + scale * noise(math.prod(shape), len(self.params))).reshape(shape).astype(self.dtype))
    def weight(self, rows, cols): self.param((rows, cols), 0, 1 / math.sqrt(rows))
    def row(self, n, value): self.param((n,), value, 0)
    def norm(self, n): self.row(n, 1), self.row(n, 0)
    def features(self, *shape): return (1.5 * noise(math.prod(shape), OF_X)).reshape(shape).astype(self.dtype)
    def classes(self, shape, k): return ((noise(math.prod(shape), k) + 1) / 2 * self.s["classes"]).astype(np.int64).reshape(shape)
    def batch(self, x, targets): self.x, self.target = x, self.classes((targets,), OF_TARGET)


def mlp_params(t, batch, width, depth, classes, **s):
    for i in range(depth + 1):
        out = width if i < depth else classes
        t.weight(width if i else s["in"], out), t.row(out, 0)
    t.batch(t.features(batch, s["in"]), batch)


def mlp_loss(m, s, p, x, target):
    for i in range(s["depth"]): x = m.gelu(x @ p[2 * i] + p[2 * i + 1])
    return m.cross_entropy(x @ p[-2] + p[-1], target)


def resmlp_params(t, batch, length, width, depth, classes, **s):
    t.weight(s["in"], width), t.row(width, 0)
    for _ in range(depth):
        t.norm(width), t.weight(length, length), t.row(width, 0.1)
        t.norm(width), t.weight(width, 4 * width), t.row(4 * width, 0), t.weight(4 * width, width), t.row(width, 0), t.row(width, 0.1)
    t.norm(width), t.weight(width, classes), t.row(classes, 0)
    t.batch(t.features(batch, length, s["in"]), batch)


def resmlp_loss(m, s, p, x, target):
    x = x @ p[0] + p[1]
    for i in range(s["depth"]):
        w = p[2 + 11 * i:13 + 11 * i]
        x = x + m.matmul(w[2], x * w[0] + w[1]) * w[3]
        x = x + (m.gelu((x * w[4] + w[5]) @ w[6] + w[7]) @ w[8] + w[9]) * w[10]
    w = p[-4:]
    return m.cross_entropy((x * w[0] + w[1]).mean(1) @ w[2] + w[3], target)


def lstm_params(t, batch, length, width, classes, **s):
    t.weight(s["in"], 4 * width), t.row(4 * width, 0), t.weight(width, 4 * width), t.weight(width, classes)
    t.batch(t.features(length, batch, s["in"]), length * batch)


def lstm_loss(m, s, p, x, target):
    h = m.lstm(x, p[0], p[1], p[2], s["batch"], s["width"])
    return m.cross_entropy((h @ p[3]).reshape(-1, s["classes"]), target)


def block_params(t, width):
    t.norm(width), t.weight(width, 3 * width), t.weight(width, width)
    t.norm(width), t.weight(width, 4 * width), t.weight(4 * width, width)


def block(m, s, w, x):
    B, T, C, H = s["batch"], s["length"], s["width"], s["heads"]
    q, k, v = m.permute((m.layer_norm(x, w[0], w[1]) @ w[2]).reshape(B, T, 3, H, C // H), (2, 0, 3, 1, 4))
    x = x + m.permute(m.attend(q, k, v), (0, 2, 1, 3)).reshape(B, T, C) @ w[3]
    return x + m.gelu(m.layer_norm(x, w[4], w[5]) @ w[6]) @ w[7]


def attention_params(t, batch, length, width, **s):
    block_params(t, width)
    shape = batch, length, width
    t.x, t.target = t.features(*shape), (1.5 * noise(math.prod(shape), OF_TARGET)).reshape(shape).astype(t.dtype)


def attention_loss(m, s, p, x, target):
    d = block(m, s, p, x) - target
    return (d * d).mean()


def gpt_params(t, batch, length, width, depth, classes, **s):
    t.param((classes, width), 0, 0.04), t.param((length, width), 0, 0.04), t.norm(width), t.weight(width, classes)
    for _ in range(depth): block_params(t, width)
    t.batch(t.classes((batch, length), OF_X), batch * length)


def gpt_loss(m, s, p, x, target):
    x = p[0][x] + p[1]
    for i in range(s["depth"]): x = block(m, s, p[5 + 8 * i:13 + 8 * i], x)
    return m.cross_entropy((m.layer_norm(x, p[2], p[3]) @ p[4]).reshape(-1, s["classes"]), target)


def many_params(t, width, depth, **s):
    for _ in range(depth): t.row(width, 1)
    t.grads = [(1e-3 * noise(width, i)).astype(t.dtype) for i in range(depth)]
    t.x = t.target = t.features(1)


NETS = {"train_mlp": (mlp_params, mlp_loss), "train_resmlp": (resmlp_params, resmlp_loss), "train_lstm": (lstm_params, lstm_loss),
        "train_attention": (attention_params, attention_loss), "train_gpt": (gpt_params, gpt_loss), "adamw_200": (many_params, None)}


# ---- the peers: step() makes a step and returns the loss, in the peer's own type; value() waits for it ----
class Torch:
    def __init__(self, compiled, threads=None):
        import torch
        self.t, self.F, self.compiled = torch, torch.nn.functional, compiled
        if threads: torch.set_num_threads(threads)
        self.matmul = torch.matmul
    def version(self): return "PyTorch " + self.t.__version__.split("+")[0]
    def gelu(self, x): return self.F.gelu(x)
    def layer_norm(self, x, w, b): return self.F.layer_norm(x, w.shape, w, b, 1e-5)
    def permute(self, x, axes): return x.permute(axes)
    def attend(self, q, k, v): return self.F.scaled_dot_product_attention(q, k, v, is_causal=True)
    def cross_entropy(self, x, target): return self.F.cross_entropy(x, target)
    def lstm(self, x, wx, b, wh, batch, width):
        return (self.t._dynamo.disable(self.library_lstm) if self.compiled else self.library_lstm)(x, wx, b, wh, batch,
                width)   # torch.compile's own call of it fails
    def library_lstm(self, x, wx, b, wh, batch, width):
        zero = x.new_zeros(1, batch, width)
        return self.t.lstm(x, (zero, zero), [wx.t(), wh.t(), b, self.t.zeros_like(b)], True, 1, 0.0, True, False, False)[0]
    def open(self, spec):
        t = self.t
        x, target = t.from_numpy(spec.x), t.from_numpy(spec.target)
        p = [t.nn.Parameter(t.from_numpy(v)) for v in spec.params]
        opt = t.optim.AdamW(p, lr=RATE, weight_decay=DECAY, fused=not self.compiled)
        if self.compiled: t._dynamo.reset()
        wrap = t.compile if self.compiled else lambda f: f
        update = wrap(opt.step)
        if spec.grads:
            for v, g in zip(p, spec.grads): v.grad = t.from_numpy(g)
            def step(): update(); return p[0][0]
            return step
        loss = wrap(lambda p, x, target: NETS[spec.name][1](self, spec.s, p, x, target))
        def step():
            l = loss(p, x, target)
            l.backward(); update(); opt.zero_grad()
            return l
        return step
    def value(self, l): return l.item()
    def peak(self, step):
        """From the events of PyTorch's CPU allocator, in the order of time."""
        for _ in range(3): step()
        with self.t.profiler.profile(activities=[self.t.profiler.ProfilerActivity.CPU], profile_memory=True) as prof: step()
        now = most = 0
        for e in sorted((e for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"), key=lambda e: e.start_ns()):
            now += e.nbytes()
            most = max(most, now)
        return most


class Jax:
    def __init__(self):
        import jax, jax.numpy as jnp
        self.j, self.n, self.matmul = jax, jnp, jnp.matmul
    def version(self): return "JAX " + self.j.__version__
    def gelu(self, x): return self.j.nn.gelu(x, approximate=False)
    def layer_norm(self, x, w, b): return (x - x.mean(-1, keepdims=True)) * self.j.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b
    def permute(self, x, axes): return x.transpose(axes)
    def attend(self, q, k, v):
        mask = self.n.tril(self.n.ones((q.shape[-2],) * 2, bool))
        a = self.n.where(mask, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), -self.n.inf)
        return self.j.nn.softmax(a) @ v
    def cross_entropy(self, x, target): return -self.n.take_along_axis(self.j.nn.log_softmax(x), target[:, None], -1).mean()
    def lstm(self, x, wx, b, wh, batch, width):
        def turn(state, gx):
            h, c = state
            i, f, g, o = self.n.split(gx + h @ wh, 4, 1)
            c = self.j.nn.sigmoid(f) * c + self.j.nn.sigmoid(i) * self.n.tanh(g)
            h = self.j.nn.sigmoid(o) * self.n.tanh(c)
            return (h, c), h
        zero = self.n.zeros((batch, width), x.dtype)
        return self.j.lax.scan(turn, (zero, zero), x @ wx + b)[1]
    def open(self, spec):
        if spec.dtype == "float64": self.j.config.update("jax_enable_x64", True)
        n, p = self.n, [self.n.asarray(v) for v in spec.params]
        x, target, grads = n.asarray(spec.x), n.asarray(spec.target), spec.grads and [n.asarray(g) for g in spec.grads]
        def adamw(p, m, v, t, g):
            by, unbias = RATE / (1 - 0.9 ** t), self.j.lax.rsqrt(1 - 0.999 ** t)
            m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
            v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
            return [p * (1 - RATE * DECAY) - by * m / (n.sqrt(v) * unbias + 1e-8) for p, m, v in zip(p, m, v)], m, v
        def step(p, m, v, t, x, target, g):
            t, l = t + 1, p[0][0]
            if not g: l, g = self.j.value_and_grad(lambda p: NETS[spec.name][1](self, spec.s, p, x, target))(p)
            return *adamw(p, m, v, t, g), t, l
        f = self.j.jit(step, donate_argnums=(0, 1, 2, 3))
        state = [p, [n.zeros_like(a) for a in p], [n.zeros_like(a) for a in p], n.zeros((), spec.dtype)]
        self.compiled = lambda: f.lower(*state, x, target, grads).compile()
        def one():
            *state[:], l = f(*state, x, target, grads)
            return l
        return one
    def value(self, l): return float(l)
    def peak(self, step): return self.compiled().memory_analysis().temp_size_in_bytes


PEERS = {"torch": lambda n=None: Torch(True, n), "torch-eager": lambda n=None: Torch(False, n), "jax": lambda n=None: Jax()}


def table(build):
    lines = subprocess.run([os.path.join(build, "tj-bench"), "--train", "--list"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return {p.pop("case"): p for p in map(json.loads, lines)}


def record(peer, path, build):
    """Writes 20 losses of each network, with 17 digits: all bits of a double."""
    m = PEERS["torch-eager" if peer == "torch" else peer]()
    with open(path, "w") as out:
        out.write("/* SPDX-License-Identifier: MIT */\n"
                  f"/* Losses of the first {STEPS} steps at the small sizes of bench/models.c, in f64, by {m.version()}:\n"
                  f" * python3 bench/training.py --record {peer} {path} */\n")
        for name, sizes in table(build).items():
            if not NETS[name][1]: continue
            step = m.open(Spec(name, sizes["small"], "float64"))
            losses = [f"{m.value(step()):.17g}" for _ in range(STEPS)]
            out.write("{ \"" + name + "\",\n  { " + ",\n    ".join(", ".join(losses[i:i + 5]) for i in range(0, STEPS, 5)) + " } },\n")


def memory(peer, pattern, build):
    m = PEERS[peer]()
    for name, sizes in table(build).items():
        if re.search(pattern, name):
            print(json.dumps({"peer": peer, "case": name, "peak_bytes": m.peak(m.open(Spec(name, sizes["full"], "float32")))}), flush=True)


if __name__ == "__main__":
    a, build = sys.argv[1:], os.environ.get("BUILD", os.path.join(HERE, "..", "build"))
    if a[:1] == ["--record"] and len(a) == 3: record(a[1], a[2], build)
    elif a[:1] == ["--memory"] and len(a) in (2, 3): memory(a[1], (a + ["."])[2], build)
    else: sys.exit(__doc__)
