#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Very many sizes in JAX and PyTorch: the case of tj-bench --many (bench/many.c).

    python3 bench/many.py [--sizes 100000] [--jax 300] [--torch 3000]

Each peer calls one function with distinct pairs of lengths: the first call of each, then all once more; microseconds a call, and the
memory that the process gained. --jax and --torch: only so many of these sizes, spread over all, since JAX compiles each.
THREADS=1 gives each peer one thread."""
import argparse, os, resource, time

THREADS = os.environ.get("THREADS", "2")


def shapes(total, n):
    side = int(total ** 0.5 + 0.9999)
    for i in range(0, side * side, max(1, side * side // n)): yield 1 + i // side, 1 + i % side


def measure(name, f, make, sizes):
    made = [(make(a), make(b)) for a, b in sizes]
    f(make(5), make(7))  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    us = []
    for _ in range(2):
        start = time.perf_counter()
        for x, y in made: f(x, y)
        us.append((time.perf_counter() - start) * 1e6 / len(made))
    kib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / len(made)
    print(f"many_{name:<14} {len(made)} of the sizes: {us[0]:9.1f} us the first call of each, {us[1]:7.2f} later; {kib:.1f} KiB each",
          flush=True)


def jax_peer(sizes):
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'false' if THREADS == '1' else 'true'} intra_op_parallelism_threads={THREADS}"
    import jax, jax.numpy as jnp, numpy as np
    f = jax.jit(lambda x, y: (jax.nn.softmax(x) * (x + 1)).sum() + y.sum())
    measure("jax", lambda x, y: f(x, y).block_until_ready(), lambda s: jnp.asarray(np.ones(s, np.float32)), sizes)


def torch_peer(sizes, dynamic):
    import torch
    torch.set_num_threads(int(THREADS))
    torch._dynamo.config.recompile_limit = 64
    f = torch.compile(lambda x, y: (torch.softmax(x, -1) * (x + 1)).sum() + y.sum(), dynamic=dynamic)
    with torch.no_grad(): measure("torch_dynamic", f, lambda s: torch.ones(s), sizes)


def main():
    a = argparse.ArgumentParser()
    for name, n in ("sizes", 100000), ("jax", 300), ("torch", 3000): a.add_argument("--" + name, type=int, default=n)
    o = a.parse_args()
    for peer, n in (jax_peer, o.jax), (lambda s: torch_peer(s, True), o.torch):
        try: peer(list(shapes(o.sizes, n)))
        except ImportError as e: print(f"left out: {e}")


if __name__ == "__main__": main()
