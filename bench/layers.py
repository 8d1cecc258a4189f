# SPDX-License-Identifier: MIT
"""The layers of bench/layers.c in PyTorch and JAX, for bench/peers.py --layers. Names and operands are those of tj-bench --layers
--list."""
import json, os, subprocess
import numpy as np


def table(build):
    lines = subprocess.run([os.path.join(build, "tj-bench"), "--layers", "--list"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return {p["case"]: p for p in map(json.loads, lines)}


def operands(peer, p):
    rng, out = np.random.default_rng(0), []
    for i, shape in enumerate(p["shapes"]):
        if p["index"] and i == len(p["shapes"]) - 1: out.append(peer.index(rng.integers(0, p["index"], shape)))
        else: out.append(peer.array(rng.uniform(-1, 1, shape).astype(np.float32), p["dtype"]))
    return out


class Torch:
    def __init__(s, compiled, threads):
        import torch
        s.t, s.compiled, F = torch, compiled, torch.nn.functional
        torch.set_num_threads(threads); torch.set_grad_enabled(False)
        conv = lambda **k: lambda x, w, b: F.relu(F.conv2d(x, w, b, **k))
        by_channel = lambda step: lambda x, w, b: F.relu(F.conv2d(x, w, b, step, 1, 1, x.shape[1]))
        sdpa = F.scaled_dot_product_attention
        s.cases = {
            "conv_7x7": conv(stride=2, padding=3), "conv_3x3": conv(padding=1), "conv_1x1": conv(), "conv_depthwise": by_channel(1),
            "conv_depthwise_112_stride2": by_channel(2),
            "conv_transpose": lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
            "conv1d": lambda x, w, b: F.relu(F.conv1d(x, w, b, padding="same")),
            "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1), "avg_pool": lambda x: F.avg_pool2d(x, 2),
            "global_pool": lambda x: F.adaptive_avg_pool2d(x, 1),
            "adaptive_pool": lambda x: F.adaptive_avg_pool2d(x, 7), "batch_norm_relu": lambda x, w, b: F.relu(F.batch_norm(x, None, None, w,
                    b, True)),
            "group_norm": lambda x, w, b: F.group_norm(x, 8, w, b), "attention": lambda q, k, v: sdpa(q, k, v),
            "attention_causal": lambda q, k, v: sdpa(q, k, v, is_causal=True),
            "attention_grouped": lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True),
            "scatter_add": lambda x, src, i: x.scatter_add(0, i, src),
            "scatter_max": lambda x, src, i: x.scatter_reduce(0, i, src, "amax"),
            "einsum": lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b),
            "dropout": lambda x: F.dropout(x, 0.1, True), "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            "cdist": lambda a, b: torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"),
            "cdist_product": lambda a, b: torch.cdist(a, b),
            "median": lambda x: torch.median(x, 1)[0], "hypot": lambda a, b: torch.lerp(torch.hypot(a, b), torch.logaddexp(a, b), 0.3),
            "softmax": lambda x: torch.softmax(x, -1),
            "gelu": F.gelu, "layer_norm": lambda x, w, b: F.layer_norm(x, w.shape, w, b), "conv_bf16_3x3": conv(padding=1),
            "conv_f16_1x1": conv(), "silu_mul": lambda x, y: F.silu(x) * y, "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-5),
        }
    def version(s): return "PyTorch " + s.t.__version__.split("+")[0]
    def array(s, x, dtype): return s.t.from_numpy(x).to({"f32": s.t.float32, "bf16": s.t.bfloat16, "f16": s.t.float16}[dtype])
    def index(s, x): return s.t.from_numpy(x)
    def sync(s, y): pass
    def jit(s, f):
        if not s.compiled: return f
        s.t._dynamo.reset()
        return s.t.compile(f)


class Jax:
    def __init__(s, threads):
        import jax, jax.numpy as jnp
        s.j, lax = jax, jax.lax
        def conv(x, w, stride, pad, groups=1):
            return lax.conv_general_dilated(x, w, (stride,) * (x.ndim - 2), [(pad, pad)] * (x.ndim - 2), feature_group_count=groups)
        def layer(stride, pad, each=False):
            return lambda x, w, b: jax.nn.relu(conv(x, w, stride, pad, x.shape[1] if each else 1) + b.reshape(-1, *[1] * (x.ndim - 2)))
        def transposed(x, w, b):
            y = lax.conv_general_dilated(x, jnp.flip(w, (2, 3)).swapaxes(0, 1), (1, 1), [(1, 2), (1, 2)], lhs_dilation=(2, 2))
            return y + b.reshape(-1, 1, 1)
        def pool(x, init, op, size, stride, pad):
            return lax.reduce_window(x, init, op, (1, 1, size, size), (1, 1, stride, stride), [(0, 0)] * 2 + [(pad, pad)] * 2)
        def norm(x, w, b, axes, shape):
            g = x.reshape(shape)
            return ((g - g.mean(axes, keepdims=True)) * lax.rsqrt(g.var(axes, keepdims=True) + 1e-5)).reshape(x.shape) * w[:, None,
                    None] + b[:, None, None]
        def layer_norm(x, w, b): return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b
        def attend(q, k, v, causal): return jax.nn.dot_product_attention(*(t.transpose(0, 2, 1, 3) for t in (q, k, v)), is_causal=causal)
        s.key = jax.random.PRNGKey(0)
        s.cases = {
            "conv_7x7": layer(2, 3), "conv_3x3": layer(1, 1), "conv_1x1": layer(1, 0), "conv_depthwise": layer(1, 1, True),
            "conv_depthwise_112_stride2": layer(2, 1, True),
            "conv_transpose": transposed, "conv1d": layer(1, 2), "max_pool": lambda x: pool(x, -jnp.inf, lax.max, 3, 2, 1),
            "avg_pool": lambda x: pool(x, 0.0, lax.add, 2, 2, 0) / 4,
            "global_pool": lambda x: x.mean((2, 3)), "batch_norm_relu": lambda x, w, b: jax.nn.relu(norm(x, w, b, (0, 2, 3), x.shape)),
            "group_norm": lambda x, w, b: norm(x, w, b, (2, 3, 4), (x.shape[0], 8, x.shape[1] // 8, *x.shape[2:])),
            "attention": lambda q, k, v: attend(q, k, v, False),
            "attention_causal": lambda q, k, v: attend(q, k, v, True), "attention_grouped": lambda q, k, v: attend(q, k, v, True),
            "scatter_add": lambda x, src, i: x.at[i].add(src),
            "scatter_max": lambda x, src, i: x.at[i].max(src), "einsum": lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b),
            "dropout": lambda x: jnp.where(jax.random.bernoulli(s.key, 0.9, x.shape), x / 0.9, 0),
            "interpolate": lambda x: jax.image.resize(x, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]), "linear"),
            "cdist": lambda a, b: jnp.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)),
            "cdist_product": lambda a, b: jnp.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)),
            "median": lambda x: jnp.sort(x, 1)[:, (x.shape[1] - 1) // 2],
            "hypot": lambda a, b: (lambda x, y: x + 0.3 * (y - x))(jnp.hypot(a, b), jnp.logaddexp(a, b)),
            "softmax": lambda x: jax.nn.softmax(x, -1),
            "gelu": lambda x: jax.nn.gelu(x, approximate=False), "layer_norm": layer_norm, "conv_bf16_3x3": layer(1, 1),
            "conv_f16_1x1": layer(1, 0), "silu_mul": lambda x, y: jax.nn.silu(x) * y,
            "rms_norm": lambda x, w: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w,
        }
    def version(s): return "JAX " + s.j.__version__
    def array(s, x, dtype): return s.j.numpy.asarray(x, {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}[dtype])
    def index(s, x): return s.j.numpy.asarray(x, "int32")
    def sync(s, y): y.block_until_ready()
    def jit(s, f): return s.j.jit(f)


class Numpy:
    """What NumPy has a function for."""
    def __init__(s, threads):
        def scatter(op):
            def f(x, src, i):
                y = x.copy()
                op.at(y, i, src)
                return y
            return f
        s.cases = {"scatter_add": scatter(np.add), "scatter_max": scatter(np.maximum),
                   "einsum": lambda a, b: np.einsum("bqhd,bkhd->bhqk", a, b, optimize=True),
                   "median": lambda x: np.partition(x, (x.shape[1] - 1) // 2, 1)[:, (x.shape[1] - 1) // 2],
                   "global_pool": lambda x: x.mean((2, 3)),
                   "hypot": lambda a, b: (lambda x, y: x + np.float32(0.3) * (y - x))(np.hypot(a, b), np.logaddexp(a, b))}
    def version(s): return "NumPy " + np.__version__
    def array(s, x, dtype): return x
    def index(s, x): return x
    def sync(s, y): pass
    def jit(s, f): return f


PEERS = {"torch": lambda n: Torch(True, n), "torch-eager": lambda n: Torch(False, n), "jax": Jax, "numpy": Numpy}


def function(peer, case):
    """That of the longest name which the case begins with."""
    return peer.cases[max((n for n in peer.cases if case.startswith(n)), key=len)]
