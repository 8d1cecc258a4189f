#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/kit/recorded.inc: what PyTorch's optimisers and schedulers do in their first steps, and Optax's Lion.

    python3 test/kit/record_training.py >test/kit/recorded.inc        needs torch and optax

Two parameters, a [3,4] and a [3], go down sum(k (p - q)^2) + sum(sin(p)). After each of 20 steps two sums of all elements are recorded.
"""
import torch, optax, jax
import jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
STEPS = 20

def value(i, salt): return ((i * 7919 + salt * 104729 + 17) % 241 - 120) / 100
def made(n, salt): return [value(i, salt) for i in range(n)]
W, B = (3, 4), (3,)
def at_first(dtype): return [torch.tensor(made(12, 1), dtype=dtype).reshape(W), torch.tensor(made(3, 2), dtype=dtype)]
def weights(dtype): return [torch.tensor(made(12, 3), dtype=dtype).reshape(W).abs() + .1, torch.tensor(made(3, 4), dtype=dtype).abs() + .1]
def goals(dtype): return [torch.tensor(made(12, 5), dtype=dtype).reshape(W), torch.tensor(made(3, 6), dtype=dtype)]
def loss_of(ps, dtype): return sum((k * (p - q) ** 2).sum() + p.sin().sum() for p, k, q in zip(ps, weights(dtype), goals(dtype)))
def sums(ps):
    flat = torch.cat([p.detach().double().reshape(-1) for p in ps])
    k = torch.arange(1, len(flat) + 1, dtype=torch.float64)
    return float((flat * k).sum()), float((flat * flat / k).sum())

def torch_run(make, dtype, clip=None, accumulate=1, thaw=False):
    torch.set_default_dtype(dtype)  # NAdam keeps a product of scalars in it
    ps = [torch.nn.Parameter(p) for p in at_first(dtype)]
    o = make(ps)
    out = []
    for i in range(STEPS):
        ps[0].requires_grad_(not thaw or i // 5 % 2 == 1)  # frozen, thawed, frozen, thawed
        o.zero_grad()
        for _ in range(accumulate): (loss_of(ps, dtype) / accumulate).backward()
        if clip: torch.nn.utils.clip_grad_norm_(ps, clip)
        o.step()
        out += sums(ps)
    return out

def lion(dtype):
    ps = [jnp.asarray(p.numpy()) for p in at_first(dtype)]
    k, q = [[jnp.asarray(x.numpy()) for x in f(dtype)] for f in (weights, goals)]
    o = optax.lion(0.01)
    s = o.init(ps)
    out = []
    for _ in range(STEPS):
        g = jax.grad(lambda ps: sum((b * (p - c) ** 2).sum() + jnp.sin(p).sum() for p, b, c in zip(ps, k, q)))(ps)
        u, s = o.update(g, s, ps)
        ps = optax.apply_updates(ps, u)
        out += sums([torch.tensor(jax.device_get(p)) for p in ps])
    return out

def exact_newton_schulz(grad, coefficients, steps, eps):
    """As torch.optim._muon, in the dtype of the gradient; there it is bf16."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x

def muon(dtype):
    import torch.optim._muon as m
    m._zeropower_via_newtonschulz = exact_newton_schulz
    class Both:
        def __init__(s, ps):
            s.o = [torch.optim.Muon(ps[:1], lr=.02), torch.optim.AdamW(ps[1:], lr=.02, weight_decay=.1, eps=1e-7)]
        def zero_grad(s): [o.zero_grad() for o in s.o]
        def step(s): [o.step() for o in s.o]
    return torch_run(Both, dtype)

O = torch.optim
OPTIMS = {
    "sgd": lambda d: torch_run(lambda p: O.SGD(p, lr=.05), d),
    "sgd_momentum": lambda d: torch_run(lambda p: O.SGD(p, lr=.05, momentum=.9, dampening=.3, weight_decay=.02), d),
    "sgd_nesterov": lambda d: torch_run(lambda p: O.SGD(p, lr=.05, momentum=.9, nesterov=True), d),
    "adam": lambda d: torch_run(lambda p: O.Adam(p, lr=.05, weight_decay=.02), d),
    "adam_amsgrad": lambda d: torch_run(lambda p: O.Adam(p, lr=.05, amsgrad=True), d),
    "adamw": lambda d: torch_run(lambda p: O.AdamW(p, lr=.05), d),
    "adamw_maximize": lambda d: torch_run(lambda p: O.AdamW(p, lr=.05, maximize=True), d),
    "adamax": lambda d: torch_run(lambda p: O.Adamax(p, lr=.05, weight_decay=.02), d),
    "nadam": lambda d: torch_run(lambda p: O.NAdam(p, lr=.05, weight_decay=.02), d),
    "nadam_decoupled": lambda d: torch_run(lambda p: O.NAdam(p, lr=.05, weight_decay=.02, decoupled_weight_decay=True), d),
    "rmsprop": lambda d: torch_run(lambda p: O.RMSprop(p, lr=.05), d),
    "rmsprop_all": lambda d: torch_run(lambda p: O.RMSprop(p, lr=.05, momentum=.8, centered=True, weight_decay=.02), d),
    "adagrad": lambda d: torch_run(lambda p: O.Adagrad(p, lr=.1, lr_decay=.1, initial_accumulator_value=.2), d),
    "adadelta": lambda d: torch_run(lambda p: O.Adadelta(p, lr=1.), d),
    "lion": lion,
    "muon": muon,
    "clipped": lambda d: torch_run(lambda p: O.SGD(p, lr=.05), d, clip=.5),
    "accumulated": lambda d: torch_run(lambda p: O.AdamW(p, lr=.05), d, accumulate=3),
    "groups": lambda d: torch_run(lambda p: O.AdamW([{"params": p[:1]}, {"params": p[1:], "lr": .01, "weight_decay": 0.}], lr=.05), d),
}

for name, make in {"sgd": lambda p: O.SGD(p, lr=.05, momentum=.9), "adamw": lambda p: O.AdamW(p, lr=.05),
                   "adagrad": lambda p: O.Adagrad(p, lr=.1, lr_decay=.1), "nadam": lambda p: O.NAdam(p, lr=.05)}.items():
    OPTIMS["thaw_" + name] = lambda d, make=make: torch_run(make, d, thaw=True)

def scheduled(make, steps=60, lr=.1):
    o = O.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    s = make(o)
    out = []
    for _ in range(steps):
        out.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    return out
def warm(o): return L.SequentialLR(o, [L.LinearLR(o, .1, 1., 10), L.CosineAnnealingLR(o, 40, .002)], [10])
def plateau():
    o = O.SGD([torch.nn.Parameter(torch.zeros(1))], lr=.1)
    s = L.ReduceLROnPlateau(o, factor=.5, patience=3, cooldown=2)
    out = []
    for i in range(60):
        s.step(1 / (1 + min(i, 7)) if i < 30 else .12 - .0001 * (i % 5))
        out.append(o.param_groups[0]["lr"])
    return out
L = O.lr_scheduler
SCHEDULES = {
    "constant": lambda o: L.ConstantLR(o, 1 / 3, 5), "step": lambda o: L.StepLR(o, 7, .5),
    "milestones": lambda o: L.MultiStepLR(o, [3, 11, 40], .3),
    "exponential": lambda o: L.ExponentialLR(o, .97), "cosine": lambda o: L.CosineAnnealingLR(o, 40, .002),
    "restarts": lambda o: L.CosineAnnealingWarmRestarts(o, 8, 2, .002), "linear": lambda o: L.LinearLR(o, 1 / 3, 1., 25),
    "polynomial": lambda o: L.PolynomialLR(o, 50, 2.), "one_cycle": lambda o: L.OneCycleLR(o, .1, 60, cycle_momentum=False),
    "warm_cosine": warm,
}

def table(kind, name, values):
    print(f"static const double {kind}_{name}[] = {{")
    for i in range(0, len(values), 5): print("\t" + ", ".join(repr(float(v)) for v in values[i:i + 5]) + ",")
    print("};")
print("/* SPDX-License-Identifier: MIT */")
print(f"/* Written by test/kit/record_training.py: torch {torch.__version__}, optax {optax.__version__}. */")
for name, run in OPTIMS.items():
    table("f64", name, run(torch.float64))
    table("f32", name, run(torch.float32))
for name, make in SCHEDULES.items(): table("rate", name, scheduled(make))
table("rate", "plateau", plateau())
