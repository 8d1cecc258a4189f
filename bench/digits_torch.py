#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What examples/digits.c trains, in PyTorch: python3 bench/digits_torch.py [seed]"""
import sys, time
import numpy as np
import torch
from torch import nn

TRAINED, BATCH, EPOCHS = 1437, 64, 20
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
torch.manual_seed(seed)
file, mixed = np.load("examples/data/digits.npz"), torch.randperm(1797)
x, y = torch.from_numpy(file["images"])[mixed].unsqueeze(1) / 16, torch.from_numpy(file["labels"]).long()[mixed]
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[:TRAINED], y[:TRAINED]), BATCH, shuffle=True, drop_last=True)

net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * 4 * 4, 10))
optim = torch.optim.AdamW(net.parameters(), 1e-2)
rate = torch.optim.lr_scheduler.OneCycleLR(optim, 1e-2, EPOCHS * len(loader), cycle_momentum=False)
began = time.time()
for epoch in range(EPOCHS):
    net.train()
    for images, labels in loader:
        loss = nn.functional.cross_entropy(net(images), labels)
        optim.zero_grad()
        loss.backward()
        optim.step()
        rate.step()
    net.eval()
    with torch.no_grad(): right = (net(x[TRAINED:]).argmax(1) == y[TRAINED:]).float().mean().item()
    print(f"epoch {epoch + 1}  loss {loss.item():.4f}  right {right:.4f}", file=sys.stderr)
print(f"time: {time.time() - began:.1f} s", file=sys.stderr)
print(f"seed {seed}: {100 * right:.1f} % of the held-out digits are right")
