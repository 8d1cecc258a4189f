#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The model of examples/char_lm.c in PyTorch: the time of a step, eager and compiled.

    python3 bench/char_lm_torch.py [text file] [steps]
"""
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

CONTEXT, EMBED, HIDDEN, BATCH = 8, 24, 256, 256
path = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/common-licenses/GPL-3"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
raw = open(path, "rb").read()
number = {}
ids = np.array([number.setdefault(c, len(number)) for c in raw], dtype=np.int64)
V, train = len(number), ids[: len(ids) * 9 // 10]
rng = np.random.default_rng(1)


def param(*shape, bound):
    return torch.nn.Parameter(torch.from_numpy(rng.uniform(-bound, bound, shape).astype(np.float32)))


p = dict(emb=param(V, EMBED, bound=1), w1=param(CONTEXT * EMBED, HIDDEN, bound=(CONTEXT * EMBED) ** -0.5), b1=param(HIDDEN, bound=1e-9),
         w2=param(HIDDEN, V, bound=HIDDEN**-0.5), b2=param(V, bound=1e-9))


def loss(x, y):
    h = torch.tanh(p["emb"][x].reshape(-1, CONTEXT * EMBED) @ p["w1"] + p["b1"])
    return F.cross_entropy(h @ p["w2"] + p["b2"], y)


def run(f, n):
    opt = torch.optim.SGD(p.values(), lr=0.5)
    spent = []
    for i in range(n):
        at = rng.integers(0, len(train) - CONTEXT - 1, BATCH)
        x = torch.from_numpy(train[at[:, None] + np.arange(CONTEXT)])
        y = torch.from_numpy(train[at + CONTEXT])
        t0 = time.perf_counter()
        l = f(x, y)
        opt.zero_grad(set_to_none=True)
        l.backward()
        opt.step()
        l.item()
        spent.append(time.perf_counter() - t0)
    return sorted(spent[5:])[len(spent[5:]) // 2] * 1e3, l.item()


torch.set_num_threads(2)
for name, f in ("eager", loss), ("torch.compile", torch.compile(loss)):
    ms, last = run(f, steps)
    print(f"{name:14} {ms:.3f} ms a step, loss {last:.4f}")
