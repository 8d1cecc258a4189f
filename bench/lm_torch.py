#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What examples/lm.c trains, in PyTorch: python3 bench/lm_torch.py [text file] [steps] [seed]"""
import sys, time
import numpy as np
import torch
from torch import nn

CONTEXT, WIDTH, BLOCKS, HEADS, BATCH, SAMPLE = 64, 128, 4, 4, 32, 300


class GPT(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.token = nn.Embedding(characters, WIDTH)
        self.place = nn.Parameter(torch.empty(CONTEXT, WIDTH))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0, activation="gelu", batch_first=True,
                                                               norm_first=True) for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters, bias=False)
        for p in self.parameters():
            if p.dim() > 1: nn.init.normal_(p, 0, 0.02)

    def forward(self, ids):
        x, mask = self.token(ids) + self.place, nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        for block in self.blocks: x = block(x, src_mask=mask, is_causal=True)
        return self.head(self.norm(x))


def windows(ids, at): return torch.stack([ids[i:i + CONTEXT] for i in at]), torch.stack([ids[i + 1:i + CONTEXT + 1] for i in at])
def loss_of(m, x, y): return nn.functional.cross_entropy(m(x).flatten(0, 1), y.flatten())


def main(path="/usr/share/common-licenses/GPL-3", steps="300", seed="1"):
    steps = int(steps)
    torch.manual_seed(int(seed))
    letters, ids = np.unique(np.frombuffer(open(path, "rb").read(), np.uint8), return_inverse=True)
    ids, trained = torch.from_numpy(ids), len(ids) * 9 // 10
    m = GPT(len(letters))
    optim = torch.optim.AdamW(m.parameters(), 2e-3)
    rate = torch.optim.lr_scheduler.LambdaLR(optim, lambda i: min(1, (i + 1) / 20) * (1 - 0.9 * i / steps))
    for i in range(steps):
        if i == 1: began = time.time()
        loss = loss_of(m, *windows(ids, torch.randint(trained - CONTEXT - 1, (BATCH,))))
        optim.zero_grad()
        loss.backward()
        optim.step()
        rate.step()
    ms = (time.time() - began) * 1e3 / (steps - 1)
    with torch.no_grad():
        each = [loss_of(m, *windows(ids, range(a, a + BATCH * CONTEXT, CONTEXT)))
                for a in range(trained, len(ids) - BATCH * CONTEXT, BATCH * CONTEXT)]
        text = ids[trained:trained + CONTEXT].tolist()
        for _ in range(SAMPLE):
            text.append(torch.multinomial(m(torch.tensor([text[-CONTEXT:]]))[0, -1].softmax(0), 1).item())
    print(f"held-out loss {sum(each) / len(each):.4f} nats a character; {ms:.1f} ms a step\n")
    print(bytes(letters[text[CONTEXT:]]).decode(errors="replace"))


main(*sys.argv[1:])
