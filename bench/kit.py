#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training steps of bench/kit.c in PyTorch and in JAX with Optax:  python3 bench/kit.py torch|torch-eager|jax [REGEX]

One line of JSON for each case, as build/tj-kit prints it. AdamW with PyTorch's defaults, rate 1e-3, f32.
"""
import json, os, re, resource, sys, time
import numpy as np
THREADS = int(os.environ.get("TJ_THREADS", "2"))
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
VOCAB, PLACES, WIDTH, BLOCKS, WARM, TIMES = 96, 64, 128, 4, 5, 41

def argument(shape, i, classes):
    n = int(np.prod(shape))
    v = (((np.arange(n, dtype=np.int64) * 7919 + i * 31) % 1009).astype(np.float32) / np.float32(1009)).reshape(shape)
    return np.floor(v * np.float32(classes)).astype(np.int64) if classes else v
CASES = {"cnn": (((64, 1, 28, 28), 0), ((64,), 10)), "gpt": (((32, PLACES), VOCAB), ((32, PLACES), VOCAB)),
         "lstm": (((32, 64), 64), ((32, 64), 64)), "vae": (((64, 784), 0), ((1,), 0)), "diffusion": (((64, 1, 16, 16), 0), ((1,), 0))}

def report(peer, case, step, params):
    t0 = time.perf_counter()
    first_loss = step()
    first, times = time.perf_counter() - t0, []
    for _ in range(WARM - 1): step()
    for _ in range(TIMES):
        t0 = time.perf_counter()
        last = step()
        times.append(time.perf_counter() - t0)
    times.sort()
    print(json.dumps({"peer": peer, "case": case, "us": round(times[TIMES // 2] * 1e6), "least_us": round(times[0] * 1e6),
                      "first_ms": round(first * 1e3, 1), "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                      "params": params, "first_loss": round(first_loss, 5), "last_loss": round(last, 5)}), flush=True)

def in_torch(mode, want):
    import torch, torch.nn as nn, torch.nn.functional as F
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    class Gpt(nn.Module):
        def __init__(s):
            super().__init__()
            s.token, s.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(PLACES, WIDTH)
            s.block = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0., "gelu", batch_first=True, norm_first=True)
                                    for _ in range(BLOCKS))
            s.norm, s.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
            s.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(PLACES))
        def forward(s, x, y):
            h = s.token(x) + s.place.weight
            for b in s.block: h = b(h, src_mask=s.mask, is_causal=True)
            return F.cross_entropy(s.head(s.norm(h)).reshape(-1, VOCAB), y.reshape(-1))
    class Cnn(nn.Module):
        def __init__(s):
            super().__init__()
            s.net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                  nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
        def forward(s, x, y): return F.cross_entropy(s.net(x), y)
    class Lstm(nn.Module):
        def __init__(s):
            super().__init__()
            s.token, s.lstm, s.head = nn.Embedding(64, 64), nn.LSTM(64, WIDTH, batch_first=True), nn.Linear(WIDTH, 64)
        def forward(s, x, y): return F.cross_entropy(s.head(s.lstm(s.token(x))[0]).reshape(-1, 64), y.reshape(-1))
    class Vae(nn.Module):
        def __init__(s):
            super().__init__()
            s.up, s.mean, s.spread = nn.Sequential(nn.Linear(784, 400), nn.ReLU()), nn.Linear(400, 20), nn.Linear(400, 20)
            s.down = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))
        def forward(s, x, y):
            x = torch.sigmoid(x)
            h = s.up(x)
            mean, log_var = s.mean(h), s.spread(h)
            out = s.down(mean + torch.exp(.5 * log_var) * torch.randn_like(mean))
            kl = (1 + log_var - mean.square() - log_var.exp()).sum()
            return (F.binary_cross_entropy_with_logits(out, x, reduction="sum") - .5 * kl) / 64
    def layer(a, b): return [nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU()]
    class Diffusion(nn.Module):
        def __init__(s):
            super().__init__()
            s.first, s.time = nn.Sequential(*layer(1, 32), *layer(32, 64)), nn.Linear(1, 64)
            s.rest = nn.Sequential(*layer(64, 64), *layer(64, 32), nn.Conv2d(32, 1, 3, padding=1))
        def forward(s, x, y):
            t, noise = torch.rand(64, 1), torch.randn_like(x)
            keep = torch.cos(1.5 * t).reshape(64, 1, 1, 1)
            h = s.first(x * keep + noise * torch.sqrt(1 - keep.square())) + s.time(t).reshape(64, 64, 1, 1)
            return F.mse_loss(s.rest(h), noise)
    for case, args in CASES.items():
        if not re.search(want, case): continue
        m = {"cnn": Cnn, "gpt": Gpt, "lstm": Lstm, "vae": Vae, "diffusion": Diffusion}[case]()
        x, y = [torch.from_numpy(argument(s, i, c)) for i, (s, c) in enumerate(args)]
        o = torch.optim.AdamW(m.parameters(), 1e-3, fused=mode == "-eager")
        loss_of, move = (m, o.step) if mode == "-eager" else (torch.compile(m), torch.compile(o.step))
        def step():
            o.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            move()
            return loss.item()
        report("torch" + mode, case, step, sum(p.numel() for p in m.parameters()))

def in_jax(want):
    import jax, jax.numpy as jnp, optax
    rng = np.random.default_rng(0)
    def within(*shape, fan): return (rng.uniform(-1, 1, shape) / np.sqrt(fan)).astype(np.float32)
    def linear(a, b): return {"w": within(b, a, fan=a), "b": within(b, fan=a)}
    def conv(a, b): return {"w": within(b, a, 3, 3, fan=9 * a), "b": within(b, fan=9 * a)}
    def norm(n): return {"g": np.ones(n, np.float32), "b": np.zeros(n, np.float32)}
    def lin(p, x): return x @ p["w"].T + p["b"]
    def cv(p, x, pad="VALID"): return jax.lax.conv(x, p["w"], (1, 1), pad) + p["b"][:, None, None]
    def entropy(z, y): return optax.softmax_cross_entropy_with_integer_labels(z, y).mean()
    def ln(p, x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]
    def cnn(p, x, y, key):
        x = jax.nn.relu(cv(p["b"], jax.nn.relu(cv(p["a"], x))))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID").reshape(64, -1)
        return entropy(lin(p["d"], jax.nn.relu(lin(p["c"], x))), y)
    mask = jnp.tril(jnp.ones((PLACES, PLACES), bool))
    def gpt(p, x, y, key):
        h = p["token"][x] + p["place"]
        for b in p["block"]:
            n = lin(b["in"], ln(b["n1"], h)).reshape(32, PLACES, 3, 4, WIDTH // 4).transpose(2, 0, 3, 1, 4)
            s = jnp.where(mask, n[0] @ n[1].swapaxes(-1, -2) / np.sqrt(WIDTH // 4), -jnp.inf)
            h = h + lin(b["out"], (jax.nn.softmax(s) @ n[2]).transpose(0, 2, 1, 3).reshape(32, PLACES, WIDTH))
            h = h + lin(b["down"], jax.nn.gelu(lin(b["up"], ln(b["n2"], h)), approximate=False))
        return entropy((ln(p["norm"], h) @ p["head"].T).reshape(-1, VOCAB), y.reshape(-1))
    def lstm(p, x, y, key):
        gates = lin(p["ih"], p["token"][x]).swapaxes(0, 1)
        def cell(hc, g):
            i, f, c, o = jnp.split(g + lin(p["hh"], hc[0]), 4, -1)
            c = jax.nn.sigmoid(f) * hc[1] + jax.nn.sigmoid(i) * jnp.tanh(c)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zero = jnp.zeros((32, WIDTH))
        h = jax.lax.scan(cell, (zero, zero), gates)[1].swapaxes(0, 1)
        return entropy(lin(p["head"], h).reshape(-1, 64), y.reshape(-1))
    def vae(p, x, y, key):
        x = jax.nn.sigmoid(x)
        h = jax.nn.relu(lin(p["up"], x))
        mean, log_var = lin(p["mean"], h), lin(p["spread"], h)
        z = mean + jnp.exp(.5 * log_var) * jax.random.normal(key, mean.shape)
        out = lin(p["out"], jax.nn.relu(lin(p["down"], z)))
        return (optax.sigmoid_binary_cross_entropy(out, x).sum() - .5 * (1 + log_var - mean ** 2 - jnp.exp(log_var)).sum()) / 64
    def gn(p, x):
        n, c, h, w = x.shape
        g = x.reshape(n, 8, -1)
        g = (g - g.mean(-1, keepdims=True)) * jax.lax.rsqrt(g.var(-1, keepdims=True) + 1e-5)
        return g.reshape(x.shape) * p["g"][:, None, None] + p["b"][:, None, None]
    def diffusion(p, x, y, key):
        a, b = jax.random.split(key)
        t, noise = jax.random.uniform(a, (64, 1)), jax.random.normal(b, x.shape)
        keep = jnp.cos(1.5 * t).reshape(64, 1, 1, 1)
        h = x * keep + noise * jnp.sqrt(1 - keep ** 2)
        for i, (c, n) in enumerate(p["layers"]):
            h = jax.nn.silu(gn(n, cv(c, h, "SAME")))
            if i == 1: h = h + lin(p["time"], t).reshape(64, 64, 1, 1)
        return ((cv(p["last"], h, "SAME") - noise) ** 2).mean()
    def block():
        return {"in": linear(WIDTH, 3 * WIDTH), "out": linear(WIDTH, WIDTH), "up": linear(WIDTH, 4 * WIDTH),
                "down": linear(4 * WIDTH, WIDTH), "n1": norm(WIDTH), "n2": norm(WIDTH)}
    nets = {
        "cnn": (cnn, lambda: {"a": conv(1, 32), "b": conv(32, 64), "c": linear(9216, 128), "d": linear(128, 10)}),
        "gpt": (gpt, lambda: {"token": within(VOCAB, WIDTH, fan=1), "place": within(PLACES, WIDTH, fan=1),
                              "block": [block() for _ in range(BLOCKS)], "norm": norm(WIDTH), "head": within(VOCAB, WIDTH, fan=WIDTH)}),
        "lstm": (lstm, lambda: {"token": within(64, 64, fan=1), "ih": linear(64, 4 * WIDTH), "hh": linear(WIDTH, 4 * WIDTH),
                                "head": linear(WIDTH, 64)}),
        "vae": (vae, lambda: {"up": linear(784, 400), "mean": linear(400, 20), "spread": linear(400, 20), "down": linear(20, 400),
                              "out": linear(400, 784)}),
        "diffusion": (diffusion, lambda: {"layers": [(conv(a, b), norm(b)) for a, b in ((1, 32), (32, 64), (64, 64), (64, 32))],
                                          "time": linear(1, 64), "last": conv(32, 1)}),
    }
    for case, args in CASES.items():
        if not re.search(want, case): continue
        loss_of, make = nets[case]
        p = jax.tree.map(jnp.asarray, make())
        o = optax.adamw(1e-3, weight_decay=1e-2)
        x, y = [jnp.asarray(argument(s, i, c)) for i, (s, c) in enumerate(args)]
        def both(p, s, key):
            key, use = jax.random.split(key)
            loss, g = jax.value_and_grad(loss_of)(p, x, y, use)
            u, s = o.update(g, s, p)
            return optax.apply_updates(p, u), s, key, loss
        f = jax.jit(both, donate_argnums=(0, 1))
        state = [p, o.init(p), jax.random.PRNGKey(0)]
        def step():
            *state[:], loss = f(*state)
            return float(loss)
        report("jax", case, step, sum(a.size for a in jax.tree.leaves(p)))

if __name__ == "__main__":
    want = sys.argv[2] if len(sys.argv) > 2 else "."
    in_jax(want) if sys.argv[1] == "jax" else in_torch(sys.argv[1][5:], want)
