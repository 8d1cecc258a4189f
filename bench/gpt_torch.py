#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What examples/gpt.c trains, in PyTorch: the same first weights, windows of the text and rates, so the held-out losses can be compared.

    python3 bench/gpt_torch.py [--bf16] [text file] [steps] [seed]
"""
import math, os, sys
import numpy as np
import torch, torch.nn.functional as F

CONTEXT, WIDTH, BLOCKS, HEADS, BATCH = 64, 128, 4, 4, 32


class Draws:
    """draw() of gpt.c, many at a time: s' = a s + c, of which the upper 44 bits are taken."""
    A, C, MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1

    def __init__(self, seed): self.s = seed

    def next(self, n):
        a, c, v = self.A, self.C, np.array([(self.A * self.s + self.C) & self.MASK], np.uint64)
        while len(v) < n:  # the next len(v) are as many steps from these
            v = np.concatenate([v, v * np.uint64(a) + np.uint64(c)])
            a, c = a * a & self.MASK, (a * c + c) & self.MASK
        self.s = int(v[n - 1])
        return v[:n] >> np.uint64(20)


def normal(draws, *shape):
    u = (draws.next(12 * math.prod(shape)).reshape(-1, 12) & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2 ** -24)
    total = np.full(len(u), -6, np.float32)
    for k in range(12): total += u[:, k]
    return torch.nn.Parameter(torch.from_numpy((np.float32(0.02) * total).reshape(shape)))


def ones(*shape): return torch.nn.Parameter(torch.ones(shape))
def zeros(*shape): return torch.nn.Parameter(torch.zeros(shape))


def model(vocab, seed):
    d = Draws(seed)
    p = {"token": normal(d, vocab, WIDTH), "place": normal(d, CONTEXT, WIDTH), "norm": ones(WIDTH), "shift": zeros(WIDTH),
         "head": normal(d, WIDTH, vocab)}
    for i in range(BLOCKS):
        p |= {f"norm1.{i}": ones(WIDTH), f"shift1.{i}": zeros(WIDTH), f"qkv.{i}": normal(d, WIDTH, 3 * WIDTH),
              f"join.{i}": normal(d, WIDTH, WIDTH),
              f"norm2.{i}": ones(WIDTH), f"shift2.{i}": zeros(WIDTH), f"up.{i}": normal(d, WIDTH, 4 * WIDTH),
                  f"down.{i}": normal(d, 4 * WIDTH, WIDTH)}
    return p


def loss(p, x, y):
    h = p["token"][x] + p["place"]
    for i in range(BLOCKS):
        n = F.layer_norm(h, (WIDTH,), p[f"norm1.{i}"], p[f"shift1.{i}"])
        q, k, v = (n @ p[f"qkv.{i}"]).view(len(x), CONTEXT, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        h = h + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(len(x), CONTEXT, WIDTH) @ p[f"join.{i}"]
        n = F.layer_norm(h, (WIDTH,), p[f"norm2.{i}"], p[f"shift2.{i}"])
        h = h + F.gelu(n @ p[f"up.{i}"]) @ p[f"down.{i}"]
    logits = F.layer_norm(h, (WIDTH,), p["norm"], p["shift"]) @ p["head"]
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1))


def main(bf16, path="/usr/share/common-licenses/GPL-3", steps="300", seed="1"):
    steps, seed, raw = int(steps), int(seed), np.frombuffer(open(path, "rb").read(), np.uint8)
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    number = {}
    text = torch.tensor([number.setdefault(int(c), len(number)) for c in raw])
    held_out, windows = len(text) * 9 // 10, torch.arange(CONTEXT)
    p, draws = model(len(number), seed), Draws(6 + seed)
    opt = torch.optim.AdamW(p.values(), lr=1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    for i in range(steps):
        at = torch.from_numpy((draws.next(BATCH) % np.uint64(held_out - CONTEXT - 1)).astype(np.int64))[:, None] + windows
        opt.param_groups[0]["lr"] = 2e-3 * min(1, (i + 1) / 20) * (1 - 0.9 * i / steps)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16): l = loss(p, text[at], text[at + 1])
        opt.zero_grad()
        l.backward()
        opt.step()
        if i in (0, 1) or i % 50 == 49: print(f"  step {i + 1:5} / {steps}   loss {l.item():.4f}", file=sys.stderr, flush=True)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        each = [loss(p, text[at], text[at + 1]).item() for at in (a + CONTEXT * torch.arange(BATCH)[:, None] + windows
                                                                  for a in range(held_out, len(text) - BATCH * CONTEXT, BATCH * CONTEXT))]
    print(f"PyTorch {torch.__version__}, {'bf16' if bf16 else 'f32'}, seed {seed}: "
          f"held-out loss {sum(each) / len(each):.4f} after {steps} steps")


main("--bf16" in sys.argv, *(a for a in sys.argv[1:] if a != "--bf16"))
