#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/kit/recorded_modules.inc: results and gradients of PyTorch's modules.

    python3 test/kit/record_modules.py >test/kit/recorded_modules.inc        needs torch

All tensors of a module's state_dict have elements that follow from their names. Recorded are the names with their shapes, the sums of the
result, and those of the gradient by each parameter, in f64.
"""
import torch
from torch import nn
torch.set_default_dtype(torch.float64)

def value(i, salt): return ((i * 7919 + salt * 104729 + 17) % 241 - 120) / 100
def filled(shape, salt):
    n = 1
    for d in shape: n *= d
    return torch.tensor([value(i, salt) for i in range(n)]).reshape(shape)
def salt_of(name): return sum(name.encode()) % 97
def sums(t):
    flat = t.detach().double().reshape(-1)
    k = torch.arange(1, len(flat) + 1)
    return [float((flat / k).sum()), float((flat * torch.sin(k.double())).sum())]

def run(name, module, forward, *inputs):
    module.train()
    state = module.state_dict()
    for k, v in state.items():
        if not v.dtype.is_floating_point: continue
        t = filled(v.shape, salt_of(k))
        v.copy_(t.abs() + .1 if "running_var" in k else t * .5)
    y = forward(module, *inputs)
    parts = list(y) if isinstance(y, (tuple, list)) else [y]
    loss = sum((p * torch.cos(torch.arange(p.numel(), dtype=torch.float64)).reshape(p.shape)).sum() for p in parts)
    params = dict(module.named_parameters())
    grads = dict(zip(params, torch.autograd.grad(loss, list(params.values()), allow_unused=True)))
    values = [s for p in parts for s in sums(p)]
    names = []
    for k, v in module.state_dict().items():
        names.append(k + "[" + ",".join(map(str, v.shape)) + "]")
        g = grads.get(k)
        values += sums(g if g is not None else v)
    print(f'\t{{ "{name}",')
    for i in range(0, len(names), 3): print('\t  "' + " ".join(names[i:i + 3]) + (' "' if i + 3 < len(names) else '",'))
    print(f"\t  {len(values)}, {{")
    for i in range(0, len(values), 4): print("\t\t" + ", ".join(repr(float(v)) for v in values[i:i + 4]) + ",")
    print("\t} },")

one = lambda m, *x: m(*x)
X = lambda *s: filled(s, 7)
class Named(nn.Module):
    """Puts a name in front, as a field of a model does."""
    def __init__(s, m):
        super().__init__()
        s.m = m
    def forward(s, *a, **k): return s.m(*a, **k)
N = Named
idx = torch.tensor([[0, 2, 5], [2, 1, 3]])

class Residual(nn.Sequential):
    def forward(s, x): return x + super().forward(x)

print("/* SPDX-License-Identifier: MIT */")
print(f"/* Written by test/kit/record_modules.py: torch {torch.__version__}. */")
print("static const recorded all_recorded[] = {")
run("linear", N(nn.Linear(4, 3)), one, X(2, 5, 4))
run("linear_no_bias", N(nn.Linear(4, 3, bias=False)), one, X(2, 4))
emb = nn.Embedding(6, 4, padding_idx=2)
def embed(m, i):
    with torch.no_grad(): m.m.weight[2] = 0
    return m(i)
run("embedding", N(emb), embed, idx)
run("conv1d", N(nn.Conv1d(3, 4, 3, stride=2, padding=1)), one, X(2, 3, 9))
run("conv2d", N(nn.Conv2d(4, 6, (3, 2), padding=1, groups=2)), one, X(2, 4, 5, 6))
run("conv3d", N(nn.Conv3d(2, 3, 2, bias=False)), one, X(1, 2, 3, 4, 3))
run("conv_transpose2d", N(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)), one, X(2, 4, 3, 4))
run("batch_norm", N(nn.BatchNorm2d(3)), one, X(2, 3, 4, 5))
def evaluated(m, x):
    m.eval()
    return m(x)
run("batch_norm_eval", N(nn.BatchNorm1d(3)), evaluated, X(5, 3))
run("instance_norm", N(nn.InstanceNorm2d(3, affine=True)), one, X(2, 3, 4, 5))
run("group_norm", N(nn.GroupNorm(2, 4)), one, X(2, 4, 3, 3))
run("layer_norm", N(nn.LayerNorm((3, 4))), one, X(2, 3, 4))
run("rms_norm", N(nn.RMSNorm(4)), one, X(2, 3, 4))
causal = nn.Transformer.generate_square_subsequent_mask(3)
mha = lambda **k: N(nn.MultiheadAttention(8, 2, batch_first=True, **k))
run("attention", mha(), lambda m, x: m(x, x, x, need_weights=False)[0], X(2, 3, 8))
run("attention_causal", mha(bias=False), lambda m, x: m(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0], X(2, 3, 8))
pad = torch.tensor([[False, False, True, True], [False, True, False, False]])
run("attention_cross", mha(), lambda m, q, k, v: m(q, k, v, key_padding_mask=pad, need_weights=False)[0],
    X(2, 3, 8), filled((2, 4, 8), 8), filled((2, 4, 8), 9))
enc = lambda **k: N(nn.TransformerEncoderLayer(8, 2, 12, dropout=0., batch_first=True, **k))
run("encoder", enc(), one, X(2, 3, 8))
run("encoder_first", enc(norm_first=True, activation="gelu", bias=False), lambda m, x: m(x, src_mask=causal, is_causal=True), X(2, 3, 8))
dec = lambda **k: N(nn.TransformerDecoderLayer(8, 2, 12, dropout=0., batch_first=True, **k))
run("decoder", dec(), lambda m, x, y: m(x, y, tgt_mask=causal, tgt_is_causal=True), X(2, 3, 8), filled((2, 4, 8), 8))
run("decoder_first", dec(norm_first=True), lambda m, x, y: m(x, y), X(2, 3, 8), filled((2, 4, 8), 8))
def cells(m, x):
    y, h = m(x)
    return [y] + list(h if isinstance(h, tuple) else (h,))
run("rnn_tanh", N(nn.RNN(3, 4, batch_first=True)), cells, X(2, 5, 3))
run("rnn_relu", N(nn.RNN(3, 4, 2, nonlinearity="relu", bidirectional=True)), cells, X(5, 2, 3))
run("gru", N(nn.GRU(3, 4, 2, batch_first=True, bidirectional=True)), cells, X(2, 5, 3))
run("lstm", N(nn.LSTM(3, 4, 2, batch_first=True)), cells, X(2, 5, 3))
run("lstm_both", N(nn.LSTM(3, 4, 1, bias=False, batch_first=True, bidirectional=True)), cells, X(2, 5, 3))
run("sequential", N(nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), Residual(nn.Conv2d(4, 4, 3, padding=1), nn.GELU()), nn.MaxPool2d(2),
    nn.ConvTranspose2d(4, 2, 2, stride=2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3), nn.Tanh(), nn.LayerNorm(3))), one, X(2, 1, 4, 4))
print("};")
