# SPDX-License-Identifier: MIT
"""How each entry of PyTorch's OpInfo is called in tjit: by name, a function of the sample's input, arguments and keywords. Operands are tj
tensors, dtypes the names of tj.DTYPES. An entry whose function tjit does not have yet raises AttributeError and counts as not mapped."""
import builtins
import math

import torch

import tj

class NotHere(Exception):
    """The sample asks for an option that tjit does not have."""


MAP = {}
def last_mode(x, dim=-1, keepdim=False):
    if not x.dim():
        return torch.mode(x, dim, keepdim)
    v = torch.mode(x, dim, True).values
    same = (x == v) | ((x != x) & (v != v))
    i = (same * torch.arange(x.shape[dim]).reshape([-1 if a == dim % x.dim() else 1 for a in range(x.dim())])).amax(dim, True)
    return [t if keepdim else t.squeeze(dim) for t in (v, i)]


# What PyTorch leaves open: the order of equal elements, which is stable here, and which of them the index of mode names.
REFERENCE = {
    "mode": last_mode,
    "sort": lambda x, dim=-1, descending=False, stable=True: torch.sort(x, dim=dim, descending=descending, stable=True),
    "argsort": lambda x, dim=-1, descending=False, stable=True: torch.argsort(x, dim=dim, descending=descending, stable=True),
    "kthvalue": lambda x, k, dim=-1, keepdim=False: [t.narrow(dim, k - 1, 1) if keepdim else t.select(dim, k - 1) if x.dim() else t
                                                     for t in torch.sort(x, dim=dim, stable=True)],
    "topk": lambda x, k, dim=-1, largest=True, sorted=True: [t.narrow(dim, 0, k) if x.dim() else t
                                                             for t in torch.sort(x, dim=dim, descending=largest, stable=True)],
}
REFERENCE["nn.functional.multi_head_attention_forward"] = lambda *a, **k: torch.nn.functional.multi_head_attention_forward(*a,
        **(k | {"need_weights": False}))[0]  # the weights are no result here
FLOATS = ("f16", "bf16", "f32", "f64")


def entry(*names):
    def add(f):
        for n in names:
            MAP[n] = f
        return f
    return add


def direct(ours, *names):
    """The same operands and nothing else."""
    entry(*(names or (ours,)))(lambda *a, **k: getattr(tj, ours)(*a, **k))


def absent(what):
    raise NotHere(what)


def is_tensor(x):
    return isinstance(x, tj.Tensor)


def rank(x):
    return x.rank if is_tensor(x) else 0


def axes_of(dim):
    return None if dim is None or dim == () or dim == [] else [dim] if isinstance(dim, int) else list(dim)


def cast(x, dtype):
    return x if dtype is None or (is_tensor(x) and x.dtype == dtype) else tj.cast(x, dtype)


def shape_args(a):
    return list(a[0]) if len(a) == 1 and isinstance(a[0], (list, tuple)) else list(a)


def is_float(x):
    return x.dtype in FLOATS if is_tensor(x) else isinstance(x, float)


# ---- point ops ----
for _n in ("abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf exp exp2 expm1 floor frac isfinite isinf isnan log log10 log1p "
           "log2 logical_not neg positive rad2deg reciprocal rsqrt sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc "
           "bitwise_not erfc erfinv lgamma digamma i0 i0e i1 i1e logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
           "atan2 copysign eq ne lt le gt ge fmax fmin fmod hypot ldexp logaddexp logaddexp2 maximum minimum nextafter remainder xlogy "
           "float_power gcd lcm").split():
    direct(_n)
direct("sign", "sgn")
direct("floor_divide")
direct("xlog1py", "special.xlog1py")
direct("igamma", "igamma", "igamma.grad_other")
direct("igammac", "igammac", "igammac.grad_other")
direct("i0", "special.modified_bessel_i0")
direct("i1", "special.modified_bessel_i1")
for _n in "entr erfcx i0e i1 i1e log_ndtr ndtr ndtri zeta".split():
    direct(_n, "special." + _n)
direct("remainder", "remainder")
direct("maximum", "max.binary")
direct("minimum", "min.binary")
direct("shift_left", "bitwise_left_shift")
direct("shift_right", "bitwise_right_shift")
direct("heaviside")
direct("div", "true_divide", "div.no_rounding_mode")


@entry("div.floor_rounding", "div.trunc_rounding")
def _(a, b, rounding_mode=None):
    return {None: tj.div, "floor": tj.floor_divide, "trunc": tj.trunc_divide}[rounding_mode](a, b)


def scaled(b, alpha):
    return b if alpha == 1 else tj.mul(b, alpha)


entry("add")(lambda a, b, alpha=1: tj.add(a, scaled(b, alpha)))
entry("sub")(lambda a, b, alpha=1: tj.sub(a, scaled(b, alpha)))
entry("rsub")(lambda a, b, alpha=1: tj.sub(b, scaled(a, alpha)))
entry("mul")(lambda a, b: tj.mul(a, b))
entry("pow")(lambda a, b: tj.pow(a, b))
for _n, _f in dict(add="add", mul="mul", sub="sub", div="div", mod="remainder", pow="pow", matmul="matmul",
                   **{"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}).items():
    entry(f"__r{_n}__")(lambda a, b, f=_f: getattr(tj, f)(b, a))
entry("lerp")(lambda a, b, w: tj.lerp(a, b, w))
entry("addcmul")(lambda a, b, c, value=1: tj.addcmul(a, b, c, value))
entry("addcdiv")(lambda a, b, c, value=1: tj.addcdiv(a, b, c, value))
entry("isclose")(lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: tj.isclose(a, b, rtol, atol, equal_nan))
direct("isposinf")
direct("isneginf")
entry("isreal")(lambda x: tj.full("bool", x.shape, True))
entry("nan_to_num")(lambda x, nan=None, posinf=None, neginf=None: tj.nan_to_num(x, nan or 0.0, math.inf if posinf is None else posinf,
                                                                                -math.inf if neginf is None else neginf) if is_float(x)
                                                                                else same(x))
entry("clamp_max")(lambda x, m: tj.minimum(x, m))
entry("clamp_min")(lambda x, m: tj.maximum(x, m))
entry("round", "round.decimals_0")(lambda x, decimals=0: tj.round(x))
entry("round.decimals_3", "round.decimals_neg_3")(lambda x, decimals=0: tj.round_decimals(x, decimals))
entry("frexp")(lambda x: tj.frexp(x))
entry("where")(lambda a, c, b: tj.where(c, a, b))
entry("masked_fill")(lambda x, m, v: tj.masked_fill(x, m, v))
entry("angle")(lambda x: tj.where(tj.isnan(x), x, cast(tj.where(tj.lt(x, 0), math.pi, 0.0), x.dtype)) if is_float(x)
               else tj.where(tj.lt(x, 0), math.pi, 0.0))


@entry("clamp")
def _(x, min=None, max=None):
    if min is None or max is None:
        return tj.minimum(x, max) if min is None else tj.maximum(x, min)
    return tj.clamp(x, min, max)


@entry("logit")
def _(x, eps=None):
    return tj.logit(x, -1.0 if eps is None else eps)


for _k in range(5):
    entry(f"polygamma.polygamma_n_{_k}")(lambda x, n: tj.polygamma(n, x))
entry("special.polygamma.special_polygamma_n_0")(lambda x, n: tj.polygamma(n, x))
for _k in (1, 3, 5):
    entry(f"mvlgamma.mvlgamma_p_{_k}")(lambda x, p: tj.multigammaln(x, p))


# ---- activations ----
F = "nn.functional."
for _n in "relu selu silu mish softsign logsigmoid tanhshrink hardsigmoid hardswish relu6".split():
    direct(_n, F + _n)
MAP[F + "hardswish"] = MAP[F + "silu"] = MAP[F + "mish"] = MAP[F + "relu"] = MAP[F + "selu"] = None
for _n in "relu selu silu mish softsign logsigmoid tanhshrink hardsigmoid hardswish relu6".split():
    MAP[F + _n] = lambda x, inplace=False, f=_n: getattr(tj, f)(x)
entry(F + "gelu")(lambda x, approximate="none": tj.gelu(x) if approximate == "none" else tj.gelu_tanh(x))
entry(F + "leaky_relu")(lambda x, negative_slope=0.01, inplace=False: tj.leaky_relu(x, negative_slope))
entry(F + "elu")(lambda x, alpha=1.0, inplace=False: tj.elu(x, alpha))
entry(F + "celu")(lambda x, alpha=1.0, inplace=False: tj.celu(x, alpha))
entry(F + "softplus")(lambda x, beta=1, threshold=20: tj.softplus(x, beta, threshold))
entry(F + "hardshrink")(lambda x, lambd=0.5: tj.hardshrink(x, lambd))
entry(F + "softshrink")(lambda x, lambd=0.5: tj.softshrink(x, lambd))
entry(F + "hardtanh")(lambda x, min_val=-1.0, max_val=1.0, inplace=False: tj.hardtanh(x, min_val, max_val))
entry(F + "threshold")(lambda x, threshold, value, inplace=False: tj.threshold(x, threshold, value))
entry(F + "prelu")(lambda x, weight: tj.prelu(x, weight))
entry(F + "glu")(lambda x, dim=-1: tj.glu(x, dim))
entry("torch.ops.aten._safe_softmax.default")(lambda x, dim, dtype=None: tj.where(tj.all(tj.eq(x, -math.inf), [dim], True), 0.0,
                                                                                  tj.softmax(cast(x, dtype), dim)) if x.rank
                                                                                  else tj.softmax(cast(x, dtype), dim))
entry("softmax")(lambda x, dim, dtype=None: tj.softmax(cast(x, dtype), dim))
entry("softmax.with_dtype")(lambda x, dim, dtype=None: tj.softmax(cast(x, dtype), dim))
entry("log_softmax", "log_softmax.with_dtype")(lambda x, dim, dtype=None: tj.log_softmax(cast(x, dtype), dim))
entry(F + "softmin", F + "softmin.with_dtype")(lambda x, dim, dtype=None: tj.softmin(cast(x, dtype), dim))
entry(F + "normalize")(lambda x, p=2.0, dim=1, eps=1e-12: tj.normalize(x, dim, eps) if p == 2
                       else tj.div(x, tj.maximum(tj.vector_norm(x, p, [dim], True), eps)))


# ---- casts and creation ----
for _n, _t in dict(bool="bool", byte="u8", char="i8", short="i16", int="i32", long="i64", half="f16", bfloat16="bf16", float="f32",
                   double="f64").items():
    entry(_n)(lambda x, memory_format=None, t=_t: cast(x, t))


def same(x):
    return tj.reshape(x, x.shape)


for _n in "clone contiguous conj conj_physical resolve_conj resolve_neg alias_copy real".split():
    entry(_n)(lambda x, memory_format=None: same(x))
entry("to")(lambda x, *a, **k: same(x) if not any(t in tj.DTYPES for t in a + (k.get("dtype"),) if isinstance(t, str))
            else cast(x, next(t for t in a + (k.get("dtype"),) if t in tj.DTYPES)))


def created(value):
    def make(x, *a, dtype=None, **k):
        shape = x if isinstance(x, (list, tuple)) else x.shape
        return tj.full(dtype or (x.dtype if is_tensor(x) else "f32"), shape, value)
    return make


entry("zeros_like", "zero_")(created(0))
entry("ones_like")(created(1))
entry("zeros")(created(0))
entry("ones")(created(1))
entry("full")(lambda shape, value, dtype=None, **k: tj.full(dtype or ("bool" if isinstance(value, bool) else "i64" if isinstance(value, int)
                                                                      else "f32"), shape, value))
entry("full_like")(lambda x, value, dtype=None, **k: tj.full(dtype or x.dtype, x.shape, value))
entry("new_zeros")(lambda x, shape, dtype=None, **k: tj.full(dtype or x.dtype, shape, 0))
entry("new_ones")(lambda x, shape, dtype=None, **k: tj.full(dtype or x.dtype, shape, 1))
entry("new_full")(lambda x, shape, value, dtype=None, **k: tj.full(dtype or x.dtype, shape, value))
entry("fill")(lambda x, value: tj.expand(cast(value, x.dtype) if is_tensor(value) else tj.full(x.dtype, (), value), x.shape))
entry("scalar_tensor")(lambda v, dtype=None, **k: tj.full(dtype or "f32", (), v))
entry("eye")(lambda n, m=None, dtype=None, **k: tj.eye(dtype or "f32", n, n if m is None else m))


@entry("arange")
def _(*a, dtype=None, **k):
    start, stop = (0, a[0]) if len(a) == 1 and "end" not in k else (a[0], a[1] if len(a) > 1 else k["end"])
    step = a[2] if len(a) > 2 else k.get("step", 1)
    if all(isinstance(v, int) and not isinstance(v, bool) for v in (start, stop, step)):
        return tj.arange(dtype or "i64", start, stop, step)
    n = max(math.ceil((stop - start) / step), 0)
    t = dtype or "f32"
    wide = "f64" if t in FLOATS else t
    if t not in FLOATS:
        start, step = int(start), int(step)  # PyTorch counts the elements first
    return tj.cast(tj.add(tj.mul(tj.arange(wide, 0, n, 1), step), start), t)


def tj_float(v):
    return tj.item(v) if is_tensor(v) else v


entry("linspace", "linspace.tensor_overload")(lambda a, b, steps, dtype=None, **k: tj.linspace(dtype or "f32", tj_float(a), tj_float(b),
        steps))
entry("logspace", "logspace.tensor_overload")(lambda a, b, steps, base=10.0, dtype=None, **k: tj.logspace(dtype or "f32", tj_float(a),
        tj_float(b), steps, base))

# ---- views ----
entry("reshape", "view", "view_copy")(lambda x, *a: tj.reshape(x, shape_args(a)))
entry("reshape_as", "view_as")(lambda x, y: tj.reshape(x, y.shape))
entry("expand", "expand_copy", "broadcast_to")(lambda x, *a: tj.expand(x, shape_args(a)))
entry("expand_as")(lambda x, y: tj.expand(x, y.shape))
entry("permute", "permute_copy")(lambda x, *a: tj.permute(x, shape_args(a)))
entry("transpose", "transpose_copy")(lambda x, a, b: tj.transpose(x, a, b) if x.rank else same(x))
entry("t", "t_copy", "T")(lambda x: tj.transpose(x, 0, 1) if x.rank == 2 else same(x) if x.rank < 2
                          else tj.permute(x, list(range(x.rank))[::-1]))
entry("H", "mH", "mT")(lambda x: tj.transpose(x, -2, -1) if x.rank >= 2 else same(x))
entry("squeeze", "squeeze_copy", "squeeze.multiple")(lambda x, dim=None: squeezed(x,
                                                                                  range(x.rank) if dim is None else [dim]
                                                                                  if isinstance(dim, int) else dim))


def squeezed(x, dims):
    dims = [d for d in dims if x.rank and x.shape[d] == 1]
    return tj.squeeze(x, dims) if dims else same(x)



entry("unsqueeze", "unsqueeze_copy")(lambda x, dim: tj.unsqueeze(x, dim))
entry("flip")(lambda x, dims: tj.flip(x, axes_of(dims)) if axes_of(dims) else same(x))
entry("fliplr")(lambda x: tj.flip(x, [1]))
entry("flipud")(lambda x: tj.flip(x, [0]))
entry("ravel")(lambda x: tj.reshape(x, [-1]) if x.numel else tj.reshape(x, [0]))
entry("slice")(lambda x, dim=0, start=None, end=None, step=1: tj.slice(x, dim, start or 0, tj.END_DIM if end is None else end, step))
entry("narrow", "narrow_copy")(lambda x, dim, start, length: tj.slice(x, dim, tj_int(start) + (x.shape[dim] if tj_int(start) < 0 else 0),
                                                                      (tj_int(start) + (x.shape[dim] if tj_int(start) < 0 else 0)) + length,
                                                                      1))
entry("select")(lambda x, dim, i: tj.squeeze(tj.slice(x, dim, i, i + 1 if i != -1 else tj.END_DIM, 1), [dim]))
entry("unfold", "unfold_copy")(lambda x, dim, size, step: tj.unfold(x, dim, size, step, 1) if x.rank else tj.reshape(x, [size]) )
entry("diagonal", "diagonal_copy")(lambda x, offset=0, dim1=0, dim2=1: tj.diagonal(x, offset, dim1, dim2))
entry("linalg.diagonal")(lambda x, offset=0, dim1=-2, dim2=-1: tj.diagonal(x, offset, dim1, dim2))


def tj_int(v):
    return v if isinstance(v, int) else int(tj.item(v))


def moved(x, source, to):
    source, to = [[d] if isinstance(d, int) else list(d) for d in (source, to)]
    source, to = [d % x.rank for d in source], [d % x.rank for d in to]
    order = [d for d in range(x.rank) if d not in source]
    for t, s in sorted(zip(to, source)):
        order.insert(t, s)
    return tj.permute(x, order)


entry("movedim")(lambda x, a, b: moved(x, a, b) if x.rank else same(x))
entry("flatten")(lambda x, start_dim=0, end_dim=-1: tj.flatten(x, start_dim, end_dim))
entry("unflatten")(lambda x, dim, sizes: tj.reshape(x, list(x.shape[:dim % x.rank]) + list(sizes) + list(x.shape[dim % x.rank + 1:]))
                   if math.prod(sizes) >= 0 else tj.unflatten(x, dim, sizes))


# ---- joining and splitting ----
entry("cat")(lambda l, dim=0, **k: tj.cat([t for t in l if t.shape != (0,)] or l[:1], dim))  # an empty list is any shape to PyTorch
entry("stack")(lambda l, dim=0: tj.stack(l, dim))


def at_least(x, n):
    s = x.shape
    if x.rank >= n:
        return x
    return tj.reshape(x, {1: [1] if not s else s, 2: [1, 1] if not s else [1, s[0] if s else 1],
                          3: {0: [1, 1, 1], 1: [1] + list(s) + [1], 2: list(s) + [1]}.get(x.rank)}[n])


for _k in (1, 2, 3):
    entry(f"atleast_{_k}d")(lambda *x, k=_k: [at_least(t, k) for t in (x[0] if len(x) == 1 and isinstance(x[0], (list, tuple)) else x)]
                            if len(x) > 1 or isinstance(x[0], (list, tuple)) else at_least(x[0], k))
entry("vstack")(lambda l: tj.cat([at_least(t, 2) for t in l], 0))
entry("hstack")(lambda l: tj.cat([at_least(t, 1) for t in l], 0 if at_least(l[0], 1).rank == 1 else 1))
entry("dstack")(lambda l: tj.cat([at_least(t, 3) for t in l], 2))
entry("column_stack")(lambda l: tj.cat([tj.reshape(t, [t.numel, 1]) if t.rank < 2 else t for t in l], 1))


def parts(x, dim, sizes):
    at, out = 0, []
    for n in sizes:
        out.append(tj.slice(x, dim, at, at + n, 1))
        at += n
    return out


def split(x, size, dim=0):
    n = x.shape[dim]
    if isinstance(size, (list, tuple)):
        return parts(x, dim, size)
    return parts(x, dim, [size] * (n // size) + ([n % size] if n % size else []) if n and size else [n])


entry("split", "split.list_args", "split_with_sizes", "split_with_sizes_copy", "unsafe_split")(split)
entry("chunk", "unsafe_chunk")(lambda x, chunks, dim=0: split(x, max(-(-x.shape[dim] // chunks), 1), dim))
entry("unbind", "unbind_copy")(lambda x, dim=0: [tj.squeeze(t, [dim]) for t in parts(x, dim, [1] * x.shape[dim])])


def tensor_split(x, n, dim=0):
    if is_tensor(n):
        raise NotHere("tensor_split by a tensor")
    size = x.shape[dim]
    if isinstance(n, int):
        return parts(x, dim, [size // n + (i < size % n) for i in range(n)])
    edges = [0] + [min(max(v + size if v < 0 else v, 0), size) for v in n] + [size]
    return [tj.slice(x, dim, a, max(a, b), 1) for a, b in zip(edges, edges[1:])]


entry("tensor_split")(tensor_split)
entry("hsplit")(lambda x, n: tensor_split(x, n, 0 if x.rank == 1 else 1))
entry("vsplit")(lambda x, n: tensor_split(x, n, 0))
entry("dsplit")(lambda x, n: tensor_split(x, n, 2))


# ---- moves ----
entry("roll")(lambda x, shifts, dims=(): rolled(x, shifts, dims))


def rolled(x, shifts, dims):
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims or ())
    if not dims:
        return tj.reshape(tj.roll(tj.reshape(x, [x.numel]), shifts[0], 0), x.shape)
    for n, d in zip(shifts, dims):
        x = tj.roll(x, n, d) if x.rank else x
    return same(x)


entry("repeat")(lambda x, *a: tj.repeat(x, shape_args(a)))
entry("tile")(lambda x, *a: tj.tile(x, shape_args(a)) if shape_args(a) else same(x))


@entry("repeat_interleave")
def _(x, repeats, dim=None, output_size=None):
    if is_tensor(repeats):
        raise NotHere("repeat_interleave by a tensor")
    return tj.repeat_interleave(tj.reshape(x, [x.numel]) if dim is None else x, repeats, 0 if dim is None else dim)


def pad(x, pads, mode="constant", value=None):
    n = len(pads) // 2
    order = [p for i in reversed(range(n)) for p in (pads[2 * i], pads[2 * i + 1])]
    return tj.pad(x, order, "TJ_PAD_" + mode.upper(), 0 if value is None else value)


for _m in ("constant", "reflect", "replicate", "circular", "replicate_negative"):
    entry(F + "pad." + _m)(pad)
entry("constant_pad_nd")(lambda x, pads, value=0: pad(x, pads, "constant", value))
entry("tril")(lambda x, diagonal=0: tj.tril(x, diagonal))
entry("triu")(lambda x, diagonal=0: tj.triu(x, diagonal))
entry("diag_embed")(lambda x, offset=0, dim1=-2, dim2=-1: moved(tj.diag_embed(x, offset), [-2, -1], [dim1, dim2]))
entry("diag")(lambda x, diagonal=0: tj.diag_embed(x, diagonal) if x.rank == 1 else tj.diagonal(x, diagonal, 0, 1))
entry("diagflat")(lambda x, offset=0: tj.diag_embed(tj.reshape(x, [x.numel]), offset))
entry("trace")(lambda x: tj.trace(x))
entry("rot90")(lambda x, k=1, dims=(0, 1): turned(x, k % 4, dims))


def turned(x, k, dims):
    a, b = dims
    return {0: lambda: same(x), 1: lambda: tj.transpose(tj.flip(x, [b]), a, b), 2: lambda: tj.flip(x, [a, b]),
            3: lambda: tj.flip(tj.transpose(x, a, b), [b])}[k]()


# ---- reductions ----
def summed(x, dim=None, keepdim=False, dtype=None):
    return cast(tj.sum(cast(x, dtype), axes_of(dim), keepdim), dtype)


entry("sum")(summed)
entry("sum_to_size")(lambda x, *a: to_size(x, shape_args(a)))


def to_size(x, shape):
    lead = x.rank - len(shape)
    axes = list(range(lead)) + [i + lead for i, n in enumerate(shape) if n == 1 and x.shape[i + lead] != 1]
    return tj.reshape(tj.sum(x, axes, True), shape) if axes or not x.rank else same(x)  # of no axes all are summed: integers become i64


entry("mean")(lambda x, dim=None, keepdim=False, dtype=None: tj.mean(cast(x, dtype), axes_of(dim), keepdim))


entry("prod")(lambda x, dim=None, keepdim=False, dtype=None: cast(tj.prod(cast(x, dtype), axes_of(dim), keepdim), dtype))


for _n in ("amax", "amin"):
    entry(_n)(lambda x, dim=(), keepdim=False, f=_n: getattr(tj, f)(x, axes_of(dim), keepdim))
for _n in ("any", "all"):
    entry(_n)(lambda x, dim=None, keepdim=False, f=_n: u8(x, cast(x, "bool")) if dim == () and x.rank == 0
              else u8(x, getattr(tj, f)(x, axes_of(dim), keepdim)))


def u8(x, y):
    return cast(y, "u8") if x.dtype == "u8" else y


entry("logsumexp")(lambda x, dim, keepdim=False: tj.logsumexp(x, axes_of(dim), keepdim))
entry("argmax")(lambda x, dim=None, keepdim=False: arg(tj.argmax, x, dim, keepdim))
entry("argmin")(lambda x, dim=None, keepdim=False: arg(tj.argmin, x, dim, keepdim))


def arg(f, x, dim, keepdim):
    if dim is None:
        return tj.reshape(f(x, tj.END_DIM, False), [1] * x.rank if keepdim else [])
    return f(x, dim, keepdim)


entry("max.reduction_with_dim")(lambda x, dim, keepdim=False: tj.max_with_indices(x, dim, keepdim))
entry("min.reduction_with_dim")(lambda x, dim, keepdim=False: tj.min_with_indices(x, dim, keepdim))
entry("max.reduction_no_dim")(lambda x: tj.amax(x, None, False))
entry("min.reduction_no_dim")(lambda x: tj.amin(x, None, False))


def var(x, dim=None, unbiased=None, keepdim=False, correction=None, f="var"):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    n = 1 if correction is None else correction
    if unbiased is not None:
        n = int(unbiased)
    return getattr(tj, f)(x, axes_of(dim), n, keepdim)


entry("var", "var.unbiased")(var)
for _n in ("std", "var_mean", "std_mean"):
    entry(_n, _n + ".unbiased")(lambda *a, f=_n, **k: var(*a, f=f, **k))
entry("count_nonzero")(lambda x, dim=None: tj.count_nonzero(x, axes_of(dim)))
entry("aminmax")(lambda x, dim=None, keepdim=False: (tj.amin(x, axes_of(dim), keepdim), tj.amax(x, axes_of(dim), keepdim)))
entry("nansum")(lambda x, dim=None, keepdim=False, dtype=None: cast(tj.nansum(cast(x, dtype), axes_of(dim), keepdim), dtype))
entry("nanmean")(lambda x, dim=None, keepdim=False, dtype=None: tj.nanmean(cast(x, dtype), axes_of(dim), keepdim))

# ---- along an axis ----
for _n in ("cumsum", "cumprod"):
    entry(_n)(lambda x, dim, dtype=None, f=_n: cast(getattr(tj, f)(cast(x, dtype), dim), dtype))
entry("cummax")(lambda x, dim: tj.cummax(x, dim))
entry("cummin")(lambda x, dim: tj.cummin(x, dim))
entry("logcumsumexp")(lambda x, dim: tj.logcumsumexp(x, dim))
entry("sort")(lambda x, dim=-1, descending=False, stable=False: tj.sort(x, dim, descending))
entry("msort")(lambda x: tj.sort(x, 0, False)[0])
entry("argsort")(lambda x, dim=-1, descending=False, stable=False: tj.argsort(x, dim, descending))
entry("topk")(lambda x, k, dim=-1, largest=True, sorted=True: tj.topk(x, k, dim, largest))


def searched(seq, v, right, out_int32):
    y = tj.searchsorted(seq, v, right)
    return tj.cast(y, "i32") if out_int32 else y


@entry("searchsorted")
def _(seq, v, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        seq = tj.gather(seq, -1, sorter)
    return searched(seq, v if is_tensor(v) else tj.full(seq.dtype, (), v), right or side == "right", out_int32)


entry("bucketize")(lambda v, edges, out_int32=False, right=False: searched(edges, v, right, out_int32))

# ---- products ----
entry("matmul", "mm", "bmm", "mv", "bmm.triton_optimized")(lambda a, b: tj.matmul(a, b))
for _n in "addmm addmv baddbmm addbmm addr".split():
    entry(_n)(lambda x, a, b, beta=1, alpha=1, f=_n: getattr(tj, f)(x, a, b, beta if is_float(a) else int(beta),
                                                                    alpha if is_float(a) else int(alpha)))
MAP["addmm.decomposed"] = MAP["addmm"]
for _n in "outer kron inner dot vdot".split():
    direct(_n)
entry("einsum")(lambda operands, equation: tj.einsum(equation, operands))
entry("tensordot")(lambda a, b, dims=2: tj.tensordot(a, b, *(([a.rank - dims + i for i in range(dims)], list(range(dims)))
                                                             if isinstance(dims, int) else [list(d) for d in dims])))
entry("cross")(lambda a, b, dim=None: tj.cross(a, b, next(i for i, n in enumerate(a.shape) if n == 3) if dim is None else dim))
entry("linalg.cross")(lambda a, b, dim=-1: tj.cross(a, b, dim))
entry("linalg.vecdot")(lambda a, b, dim=-1: tj.vecdot(a, b, dim))
entry("linalg.multi_dot")(lambda l: tj.multi_dot(l))
entry("linalg.matrix_power")(lambda x, n: tj.matrix_power(x, n) if n >= 0 else absent("an inverse"))
entry("linalg.vander")(lambda x, N=None: tj.vander(x, x.shape[-1] if N is None else N, True) if x.rank == 1 else absent("a batch"))
entry(F + "linear")(lambda x, w, b=None: tj.linear(x, w, b))

# ---- indexing ----
entry("gather")(lambda x, dim, index, sparse_grad=False: tj.gather(x, dim, index))
entry("index_select")(lambda x, dim, index: tj.index_select(x, dim, index))
entry(F + "embedding")(lambda w, index, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False:
                       tj.embedding(w, index) if max_norm is None else absent("max_norm"))
entry("scatter_add")(lambda x, dim, index, src: tj.scatter_add(x, dim, index, src))
entry("nonzero", "argwhere")(lambda x, as_tuple=False: tj.nonzero(x) if not as_tuple
                             else [tj.squeeze(t, [1]) for t in parts(tj.nonzero(at_least(x, 1)), 1, [1] * max(x.rank, 1))])
entry("masked_select")(lambda x, m: tj.masked_select(x, m))
entry(F + "one_hot")(lambda x, num_classes=-1: tj.one_hot(x, num_classes if num_classes != -1 else tj.item_i(tj.amax(x, None, False)) + 1))

# ---- norms, convolution, pools ----
def same_list(v, n):
    return [v] * n if isinstance(v, int) else list(v) * (n if len(v) == 1 else 1)


for _k in (1, 2, 3):
    def conv(x, w, b=None, stride=1, padding=0, dilation=1, groups=1, k=_k):
        o = dict(stride=same_list(stride, k), dilation=same_list(dilation, k), groups=groups)
        if padding == "same":
            o["same"] = True
        elif padding != "valid":
            o["padding"] = same_list(padding, k)
        return getattr(tj, f"conv{k}d")(x, w, b, **o)

    def conv_transpose(x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, k=_k):
        return getattr(tj, f"conv_transpose{k}d")(x, w, b, stride=same_list(stride, k), padding=same_list(padding, k),
                                                  output_padding=same_list(output_padding, k),
                                                  groups=groups, dilation=same_list(dilation, k))

    def max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, k=_k):
        return getattr(tj, f"max_pool{k}d" + "_with_indices" * return_indices)(x, same_list(kernel_size, k),
                                                                               stride=same_list(stride or 0, k),
                                                                               padding=same_list(padding, k), dilation=same_list(dilation,
                                                                                   k), ceil=ceil_mode)

    def avg_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, k=_k):
        return getattr(tj, f"avg_pool{k}d")(x, same_list(kernel_size, k), stride=same_list(stride or 0, k), padding=same_list(padding, k),
                                            ceil=ceil_mode,
                                            exclude_padding=not count_include_pad,
                                            divisor=abs(divisor_override or 0)) if (divisor_override or 1) > 0 else tj.neg(avg_pool(x,
                                                kernel_size, stride, padding, ceil_mode, count_include_pad, -divisor_override, k))

    def adaptive(x, sizes, return_indices=False, k=_k, kind="avg"):
        sizes = same_list(sizes, k)
        return getattr(tj, f"adaptive_{kind}_pool{k}d" + "_with_indices" * return_indices)(x,
                [x.shape[x.rank - k + i] if n is None else n for i, n in enumerate(sizes)])

    entry(F + f"conv{_k}d")(conv)
    entry(F + f"conv_transpose{_k}d")(conv_transpose)
    entry(F + f"max_pool{_k}d")(max_pool)
    entry(F + f"avg_pool{_k}d")(avg_pool)
    entry(F + f"adaptive_avg_pool{_k}d")(adaptive)
    entry(F + f"adaptive_max_pool{_k}d")(lambda x, sizes, return_indices=False, f=adaptive: f(x, sizes, return_indices, kind="max"))

# ---- writing by index ----
REDUCTION = dict(sum="TJ_REDUCE_SUM", prod="TJ_REDUCE_PROD", mean="TJ_REDUCE_MEAN", amax="TJ_REDUCE_AMAX", amin="TJ_REDUCE_AMIN",
                 add="TJ_REDUCE_SUM", multiply="TJ_REDUCE_PROD")


def source(x, index, v):
    return v if is_tensor(v) else tj.expand(tj.full(x.dtype, (), v), index.shape)


@entry("scatter")
def _(x, dim, index, src=None, value=None, reduce=None):
    src = source(x, index, src if value is None else value)
    return tj.scatter(x, dim, index, src) if reduce is None else tj.scatter_reduce(x, dim, index, src, REDUCTION[reduce], True)


for _r in "sum prod mean amax amin".split():
    entry("scatter_reduce." + _r)(lambda x, dim, index, src, reduce, include_self=True: tj.scatter_reduce(x, dim, index, src,
            REDUCTION[reduce], include_self))
    entry("index_reduce." + _r)(lambda x, dim, index, src, reduce, include_self=True: tj.index_reduce(x, dim, index, src, REDUCTION[reduce],
            include_self))
entry("index_add")(lambda x, dim, index, src, alpha=1: tj.index_add(x, dim, index,
                                                                    tj.logical_and(src, int(alpha)) if src.dtype == "bool"
                                                                    else scaled(src, alpha if is_float(src) else int(alpha))))
entry("index_copy")(lambda x, dim, index, src: tj.index_copy(x, dim, index, src))
entry("index_fill")(lambda x, dim, index, value: tj.index_fill(x, dim, index, value))
entry("index_put")(lambda x, indices, values, accumulate=False: tj.index_put(x, list(range(len(indices))), list(indices), values,
                                                                             accumulate))
entry("take")(lambda x, index: tj.take(x, index))
entry("put")(lambda x, index, src, accumulate=False: tj.put(x, index, src, accumulate))
entry("take_along_dim")(lambda x, index, dim=None: tj.take_along_dim(x, index, tj.END_DIM if dim is None else dim))
entry("masked_scatter")(lambda x, mask, src: tj.masked_scatter(x, mask, src))
entry("select_scatter")(lambda x, src, dim, i: tj.select_scatter(x, src, dim, i))
entry("slice_scatter")(lambda x, src, dim=0, start=None, end=None, step=1: tj.slice_scatter(x, src, dim, start or 0,
        tj.END_DIM if end is None else end, step))
entry("diagonal_scatter")(lambda x, src, offset=0, dim1=0, dim2=1: tj.diagonal_scatter(x, src, offset, dim1, dim2))

# ---- shapes ----
entry("block_diag")(lambda *l: tj.block_diag(list(l)))
entry("meshgrid.variadic_tensors")(lambda *l, indexing="ij": tj.meshgrid(list(l), indexing == "xy"))
entry("meshgrid.list_of_tensors")(lambda l, indexing="ij": tj.meshgrid(l, indexing == "xy"))
entry("broadcast_tensors")(lambda *l: tj.broadcast_tensors(list(l)))
entry("cartesian_prod")(lambda *l: tj.cartesian_prod(list(l)))
entry("combinations")(lambda x, r=2, with_replacement=False: tj.combinations(x, r, with_replacement))
entry("tril_indices")(lambda m, n, offset=0, dtype=None, **k: cast(tj.tril_indices(m, n, offset), dtype))
entry("triu_indices")(lambda m, n, offset=0, dtype=None, **k: cast(tj.triu_indices(m, n, offset), dtype))

# ---- statistics ----
entry("cov")(lambda x, correction=1, fweights=None, aweights=None: tj.cov(x, correction, fweights, aweights))
entry("corrcoef")(lambda x: tj.corrcoef(x))
entry("dist")(lambda a, b, p=2: tj.dist(a, b, p))
entry("cdist")(lambda a, b, p=2.0, compute_mode=None: tj.cdist(a, b, p, {"use_mm_for_euclid_dist": "TJ_CDIST_PRODUCT",
                                                                         "donot_use_mm_for_euclid_dist": "TJ_CDIST_EXACT"}.get(compute_mode,
                                                                             "TJ_CDIST_AUTO")))
entry(F + "pdist")(lambda x, p=2.0: tj.pdist(x, p))
entry(F + "pairwise_distance")(lambda a, b, p=2.0, eps=1e-6, keepdim=False: tj.pairwise_distance(a, b, p, eps, keepdim))
entry(F + "cosine_similarity")(lambda a, b, dim=1, eps=1e-8: tj.cosine_similarity(a, b, dim, eps))
for _n in ("median", "nanmedian"):
    entry(_n)(lambda x, dim=None, keepdim=False, f=_n: getattr(tj, f)(x, tj.END_DIM, False)[0] if dim is None
              else getattr(tj, f)(x, dim, keepdim))
entry("kthvalue")(lambda x, k, dim=-1, keepdim=False: tj.kthvalue(x, k, dim, keepdim))
entry("mode")(lambda x, dim=-1, keepdim=False: tj.mode(x, dim, keepdim))
for _n in ("quantile", "nanquantile"):
    entry(_n)(lambda x, q, dim=None, keepdim=False, interpolation="linear", f=_n: getattr(tj, f)(x, q, tj.END_DIM if dim is None else dim,
            keepdim, "TJ_" + interpolation.upper()))
@entry("_segment_reduce.lengths", "_segment_reduce.offsets")
def _(x, reduce, lengths=None, offsets=None, axis=0, unsafe=False, initial=None):
    if axis or len((offsets if lengths is None else lengths).shape) != 1 or (initial is not None and reduce == "mean"):
        absent("an axis behind another one, and means with an initial value")
    o = offsets if lengths is None else tj.cat([tj.full("i64", [1], 0), tj.cumsum(lengths, 0)], 0)
    y = tj.segment_reduce(x, o, "TJ_REDUCE_" + {"max": "AMAX", "min": "AMIN"}.get(reduce, reduce.upper()))
    join = {"max": tj.maximum, "min": tj.minimum, "sum": tj.add, "prod": tj.mul}
    return y if initial is None else join[reduce](y, float(initial))


entry("nonzero_static")(lambda x, size, fill_value=-1: tj.nonzero_static(x, size, fill_value)[0])
entry("unravel_index")(lambda x, shape: tj.unravel_index(x, [shape] if isinstance(shape, int) else list(shape)))
entry("bincount")(lambda x, weights=None, minlength=0: tj.bincount(x, weights if weights is None or weights.dtype == "f32"
                                                                   else cast(weights, "f64"), minlength, 0))
entry("histc")(lambda x, bins=100, min=0, max=0: tj.histc(x, bins, min, max))


@entry("histogram")
def _(x, bins, range=None, weight=None, density=False):
    edges = same(bins) if is_tensor(bins) else tj.histogram_bin_edges(x, bins, *(range or (0, 0)))
    return tj.histogram(x, edges, weight, density), edges


@entry("histogramdd")
def _(x, bins, range=None, weight=None, density=False):
    n = x.shape[-1]
    given = [bins] * n if isinstance(bins, int) else list(bins)
    if isinstance(given[0], int):
        ends = [range[2 * i:2 * i + 2] if range else (0, 0) for i in builtins.range(n)]
        edges = [tj.histogram_bin_edges(tj.select(x, -1, i), given[i], *ends[i]) for i in builtins.range(n)]
    else:
        edges = given
    return tj.histogramdd(x, edges, weight, density), [same(e) for e in edges]


entry("allclose")(lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: tj.truth(tj.allclose(a, b, rtol, atol, equal_nan)))
entry("equal")(lambda a, b: tj.truth(tj.equal(a, b)))
entry("isin")(lambda x, tests, assume_unique=False, invert=False: tj.isin(x, tests, invert))
entry("diff")(lambda x, n=1, dim=-1, prepend=None, append=None: tj.diff(x, n, dim, prepend, append))
entry("trapezoid", "trapz")(lambda y, x=None, dx=None, dim=-1: tj.trapezoid(y, x if x is not None else 1.0 if dx is None else dx, dim))
entry("cumulative_trapezoid")(lambda y, x=None, dx=None, dim=-1: tj.cumulative_trapezoid(y,
                                                                                         x if x is not None else 1.0 if dx is None else dx,
                                                                                         dim))


@entry("gradient")
def _(x, spacing=None, dim=None, edge_order=1):
    dims = list(range(x.rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    each = list(spacing) if isinstance(spacing, (list, tuple)) else [1.0 if spacing is None else spacing] * len(dims)
    return [tj.gradient(x, s, d, edge_order) for s, d in zip(each, dims)]


def norm(x, p=2, dim=None, keepdim=False, dtype=None):
    return tj.norm(cast(x, dtype), float(2 if p is None or p == "fro" else p), axes_of(dim), keepdim)


entry("linalg.vector_norm")(lambda x, ord=2, dim=None, keepdim=False, dtype=None: norm(x, ord, dim, keepdim, dtype))
entry("norm", "norm.fro", "norm.inf")(norm)
entry("renorm")(lambda x, p, dim, maxnorm: tj.renorm(x, p, dim, maxnorm))
entry(F + "normalize")(lambda x, p=2.0, dim=1, eps=1e-12: tj.normalize(x, dim, eps) if p == 2
                       else tj.div(x, tj.maximum(tj.norm(x, p, [dim], True), eps)))
entry("unique_consecutive")(lambda x, return_inverse=False, return_counts=False, dim=None: [t
        for t, w in zip(tj.unique_consecutive(x), (True, return_inverse, return_counts)) if w] if dim is None
        else absent("unique along an axis"))


@entry("unique")
def _(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        raise NotHere("unique along an axis")
    v, _, inverse, counts = tj.unique_all(x)
    return [t for t, w in zip((v, tj.reshape(inverse, x.shape), counts), (True, return_inverse, return_counts)) if w]


def tolerances(x, atol=None, rtol=None, hermitian=False, tol=None, rcond=None):
    given = [t for t in (atol, rtol, tol, rcond) if t is not None]
    if any(is_tensor(t) for t in given):
        raise NotHere("tolerances as tensors")
    atol, rtol = (tol if tol is not None else atol) or 0, (rcond if rcond is not None else rtol) or 0
    if given and not atol and not rtol:
        raise NotHere("a tolerance of 0")
    return dict(atol=float(atol), rtol=float(rtol), hermitian=bool(hermitian))


entry("linalg.eigvalsh")(lambda x, UPLO="L": tj.eigvalsh(x, upper=UPLO == "U"))
entry("linalg.svdvals")(lambda x, driver=None: tj.svdvals(x))
entry("linalg.pinv", "linalg.pinv.singular", "linalg.pinv.hermitian", "pinverse")(lambda x, *a, **k: tj.pinv(x, **tolerances(x, *a, **k)))
entry("linalg.matrix_rank", "linalg.matrix_rank.hermitian")(lambda x, *a, **k: tj.matrix_rank(x, **tolerances(x, *a, **k)))


@entry("linalg.cond")
def _(x, p=None):
    if p not in (None, 2, -2, "fro"):
        raise NotHere("condition numbers by inverses")
    return tj.matrix_cond(x, 0.0 if p == "fro" else float(p or 2))


@entry("linalg.matrix_norm")
def _(x, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    x = moved(cast(x, dtype), list(dim), [-2, -1])
    y = tj.nuclear_norm(x, keepdim) if ord == "nuc" else tj.matrix_norm(x, 0.0 if ord == "fro" else float(ord), keepdim)
    return moved(y, [-2, -1], list(dim)) if keepdim else y


# ---- norms, attention, losses ----
entry(F + "layer_norm")(lambda x, shape, weight=None, bias=None, eps=1e-5: tj.layer_norm_over(x, list(shape), weight, bias, eps))
entry(F + "rms_norm")(lambda x, shape, weight=None, eps=None: tj.rms_norm_over(x, list(shape), weight,
                                                                               (2.220446049250313e-16 if x.dtype == "f64"
                                                                                else 1.1920928955078125e-07) if eps is None else eps))
entry(F + "group_norm")(lambda x, groups, weight=None, bias=None, eps=1e-5: tj.group_norm(x, groups, weight, bias, eps))
entry(F + "local_response_norm")(lambda x, size, alpha=1e-4, beta=0.75, k=1.0: tj.local_response_norm(x, size, alpha, beta, k))
entry(F + "batch_norm", F + "batch_norm.without_cudnn")(
    lambda x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5: tj.batch_norm(
        x, None if training else mean, None if training else var, weight, bias, training=training, eps=eps))
entry(F + "instance_norm")(
    lambda x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5: tj.instance_norm(
        x, None if use_input_stats else running_mean, None if use_input_stats else running_var, weight, bias,
        training=use_input_stats, eps=eps))


@entry(F + "scaled_dot_product_attention")
def _(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p:
        raise NotHere("random numbers differ")
    o = dict(causal=is_causal, scale=scale or 0.0)
    if attn_mask is not None:
        o["mask"] = attn_mask
    return tj.scaled_dot_product_attention(q, k, v, **o)


@entry(F + "multi_head_attention_forward")
def _(q, k, v, width, heads, w, in_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_w, out_bias, training=True, key_padding_mask=None,
      need_weights=True, attn_mask=None,
      use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, is_causal=False, **_):
    if dropout_p and training:
        raise NotHere("random numbers differ")
    if add_zero_attn:
        raise NotHere("add_zero_attn")
    o = {n: t for n, t in dict(in_bias=in_bias, out_bias=out_bias, bias_k=bias_k, bias_v=bias_v, padding=key_padding_mask).items()
         if t is not None}
    if attn_mask is not None:
        mask = tj.logical_not(attn_mask) if attn_mask.dtype == "bool" else attn_mask
        o["mask"] = tj.reshape(mask, [-1, heads, *mask.shape[1:]]) if mask.rank == 3 and q.rank == 3 else mask
    w = tj.cat([q_proj_weight, k_proj_weight, v_proj_weight], 0) if use_separate_proj_weight else w
    q, k, v = (tj.transpose(t, 0, 1) if t.rank == 3 else t for t in (q, k, v))
    y = tj.multi_head_attention(q, k, v, heads, w, out_w, **o)
    return tj.transpose(y, 0, 1) if y.rank == 3 else y


def loss(ours, **defaults):
    """A loss of two operands, then numbers in the order of C."""
    def f(x, y, size_average=None, reduce=None, reduction="mean", **k):
        numbers = [k.pop(n, d) for n, d in defaults.items()]
        if k:
            raise NotHere(f"{ours}: {k}")
        return getattr(tj, ours)(x, y, *numbers, "TJ_LOSS_" + reduction.upper())
    entry(F + ours)(f)


for _n in "mse_loss l1_loss soft_margin_loss multilabel_margin_loss".split():
    loss(_n)
loss("smooth_l1_loss", beta=1.0)
loss("huber_loss", delta=1.0)
loss("kl_div", log_target=False)
loss("poisson_nll_loss", log_input=True, full=False, eps=1e-8)
loss("hinge_embedding_loss", margin=1.0)
entry(F + "gaussian_nll_loss")(lambda x, t, var, full=False, eps=1e-6, reduction="mean": tj.gaussian_nll_loss(x, t, var, full, eps,
        "TJ_LOSS_" + reduction.upper()))
entry(F + "margin_ranking_loss")(lambda a, b, t, margin=0.0, reduction="mean", **k: tj.margin_ranking_loss(a, b, t, margin,
        "TJ_LOSS_" + reduction.upper()))
entry(F + "cosine_embedding_loss")(lambda a, b, t, margin=0.0, reduction="mean", **k: tj.cosine_embedding_loss(a, b, t, margin,
        "TJ_LOSS_" + reduction.upper()))
entry(F + "triplet_margin_loss")(lambda a, b, n, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean", **k: tj.triplet_margin_loss(a,
        b, n, margin, p, swap, "TJ_LOSS_" + reduction.upper()))


def opts(reduction="mean", weight=None, pos_weight=None, ignore_index=None, label_smoothing=0.0, **_):
    o = dict(reduction="TJ_LOSS_" + reduction.upper(), label_smoothing=label_smoothing)
    if weight is not None:
        o["weight"] = weight
    if pos_weight is not None:
        o["pos_weight"] = pos_weight
    if ignore_index is not None:
        o.update(ignore=True, ignore_index=ignore_index)
    return o


for _n in "binary_cross_entropy binary_cross_entropy_with_logits multilabel_soft_margin_loss".split():
    entry(F + _n)(lambda x, t, f=_n, **k: getattr(tj, f)(x, t, **opts(**k)))
entry(F + "nll_loss")(lambda x, t, **k: tj.nll_loss(x, t, **opts(**({"ignore_index": -100} | k))))
entry(F + "cross_entropy")(lambda x, t, **k: tj.cross_entropy_loss(x, t, **opts(**({n: v for n, v in k.items() if n != "ignore_index"}
                                                                                   if is_float(t) else {"ignore_index": -100} | k))))
entry(F + "multi_margin_loss")(lambda x, t, p=1, margin=1.0, **k: tj.multi_margin_loss(x, t, p, margin, **opts(**k)))


# ---- layers ----
entry(F + "bilinear")(lambda a, b, w, bias=None: tj.bilinear(a, b, w, bias))
entry(F + "pixel_shuffle")(lambda x, upscale_factor: tj.pixel_shuffle(x, upscale_factor))
entry(F + "pixel_unshuffle")(lambda x, downscale_factor: tj.pixel_unshuffle(x, downscale_factor))
entry(F + "channel_shuffle")(lambda x, groups: tj.channel_shuffle(x, groups))


@entry(F + "unfold")
def _(x, kernel_size, dilation=1, padding=0, stride=1):
    return tj.im2col(x, same_list(kernel_size, 2), stride=same_list(stride, 2), padding=same_list(padding, 2),
                     dilation=same_list(dilation, 2))


for _k in (1, 2, 3):
    def unpool(x, indices, kernel_size, stride=None, padding=0, output_size=None, k=_k):
        step = same_list(kernel_size if stride is None else stride, k)
        size = [(n - 1) * s - 2 * p + w for n, s, p, w in zip(x.shape[x.rank - k:], step, same_list(padding, k), same_list(kernel_size, k))]
        return getattr(tj, f"max_unpool{k}d")(x, indices, size if output_size is None else list(output_size)[-k:])
    entry(F + f"max_unpool{_k}d", F + f"max_unpool{_k}d.grad")(unpool)


@entry(F + "embedding_bag")
def _(w, index, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
      include_last_offset=False, padding_idx=None):
    if max_norm is not None or include_last_offset:
        raise NotHere("max_norm")
    o = dict(mode="TJ_BAG_" + mode.upper())
    if offsets is not None:
        o["offsets"] = offsets
    if per_sample_weights is not None:
        o["weights"] = per_sample_weights
    if padding_idx is not None:
        o.update(pads=True, padding_index=padding_idx + (w.shape[0] if padding_idx < 0 else 0))
    return tj.embedding_bag(index, w, **o)

entry("native_dropout_backward")(lambda g, mask, scale: tj.mul(g, tj.mul(cast(mask, g.dtype), scale)))
entry("item")(lambda x: tj.item(x) if is_float(x) else bool(tj.item_i(x)) if x.dtype == "bool" else tj.item_i(x))

# ---- pictures ----
MODE = {"nearest": "TJ_SAMPLE_NEAREST", "nearest-exact": "TJ_SAMPLE_NEAREST_EXACT", "linear": "TJ_SAMPLE_LINEAR",
        "bilinear": "TJ_SAMPLE_LINEAR", "trilinear": "TJ_SAMPLE_LINEAR", "bicubic": "TJ_SAMPLE_CUBIC", "area": "TJ_SAMPLE_AREA"}


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    n, o = x.rank - 2, dict(mode=MODE[mode], align_corners=bool(align_corners), antialias=antialias)
    if size is not None:
        return tj.interpolate(x, same_list(size, n), **o)
    scale = [scale_factor] * n if isinstance(scale_factor, (int, float)) else list(scale_factor)
    if recompute_scale_factor:
        return tj.interpolate(x, [int(m * s) for m, s in zip(x.shape[2:], scale)], **o)
    return tj.interpolate(x, None, scale=scale, **o)


for _m in MODE:
    entry(F + "interpolate." + _m)(interpolate)
entry(F + "upsample_nearest")(lambda x, size=None, scale_factor=None: interpolate(x, size, scale_factor, "nearest"))
entry(F + "upsample_bilinear")(lambda x, size=None, scale_factor=None: interpolate(x, size, scale_factor, "bilinear", True))


@entry(F + "grid_sample", "grid_sampler_2d", "grid_sampler_3d")
def _(x, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    mode = {0: "bilinear", 1: "nearest", 2: "bicubic"}.get(mode, mode)
    padding_mode = {0: "zeros", 1: "border", 2: "reflection"}.get(padding_mode, padding_mode)
    padding = {"zeros": "TJ_PAD_CONSTANT", "border": "TJ_PAD_REPLICATE", "reflection": "TJ_PAD_REFLECT"}[padding_mode]
    return tj.grid_sample(x, grid, mode=MODE[mode], padding=padding, align_corners=bool(align_corners))


entry(F + "ctc_loss")(lambda x, t, il, tl, blank=0, reduction="mean", zero_infinity=False: tj.ctc_loss(x, t, as_lengths(il), as_lengths(tl),
        blank, zero_infinity, "TJ_LOSS_" + reduction.upper()))


def as_lengths(v):
    return v if is_tensor(v) else tj.stack([tj.full("i64", (), n) for n in v], 0)


# ---- windows ----
def window(ours, **defaults):
    def f(n, sym=True, dtype=None, **k):
        return getattr(tj, ours + "_window")(dtype or "f32", n, not sym, *[k.pop(a, d) for a, d in defaults.items()])
    entry("signal.windows." + ours)(f)


for _n in "bartlett blackman cosine hann nuttall".split():
    window(_n)
window("kaiser", beta=12.0)
window("gaussian", std=1.0)
window("exponential", tau=1.0)
entry("signal.windows.hamming")(lambda n, sym=True, dtype=None, **k: tj.hamming_window(dtype or "f32", n, not sym, 0.54, 0.46))
entry("signal.windows.general_hamming")(lambda n, alpha=0.54, sym=True, dtype=None, **k: tj.hamming_window(dtype or "f32", n, not sym,
        alpha, 1 - alpha))
entry("signal.windows.general_cosine")(lambda n, a, sym=True, dtype=None, **k: tj.general_cosine_window(dtype or "f32", n, not sym,
        tj.doubles(a), len(a)))

# ---- random numbers: only shapes and dtypes are compared ----
RANDOM = set()


def random(*names):
    RANDOM.update(names)
    return entry(*names)


random("bernoulli")(lambda x, p=None, generator=None: tj.bernoulli(x.dtype, x.shape, x if p is None else p))
random("multinomial")(lambda p, n, replacement=False, generator=None: tj.multinomial(p, n, replacement))
random("exponential")(lambda x, lambd=1.0, generator=None: tj.exponential(x.dtype, x.shape, lambd))
random("geometric")(lambda x, p, generator=None: tj.geometric(x.dtype, x.shape, p))
random("cauchy")(lambda x, median=0.0, sigma=1.0, generator=None: tj.cauchy(x.dtype, x.shape, median, sigma))
random("log_normal")(lambda x, mean=1.0, std=2.0, generator=None: tj.log_normal(x.dtype, x.shape, mean, std))
random("normal.in_place")(lambda x, mean=0.0, std=1.0, generator=None: tj.random_normal(x.dtype, x.shape, mean, std))
random(F + "rrelu")(lambda x, lower=1 / 8, upper=1 / 3, training=False, inplace=False: tj.rrelu(x, lower, upper, training))
random("uniform")(lambda x, a=0.0, b=1.0, generator=None: tj.random_uniform(x.dtype, x.shape, a, b))
random("rand_like")(lambda x, dtype=None, **k: tj.rand_like(cast(x, dtype)))
random("randn_like")(lambda x, dtype=None, **k: tj.randn_like(cast(x, dtype)))
random("randn")(lambda *a, dtype=None, **k: tj.normal(dtype or "f32", shape_args(a)))
random("randint")(lambda *a, dtype=None, **k: tj.randint(dtype or "i64", list(a[-1]), 0 if len(a) == 2 else a[0], a[-2]))
random("randint_like")(lambda x, *a, dtype=None, **k: tj.randint(dtype or x.dtype, x.shape, 0 if len(a) == 1 else a[0], a[-1]))
random("normal")(lambda mean, std=1.0, generator=None, **k: tj.random_normal(mean.dtype if is_tensor(mean) else std.dtype,
                                                                             (tj.add(mean, std) if is_tensor(std) else mean).shape, mean,
                                                                             std))
random("normal.number_mean")(lambda mean, std, generator=None, **k: tj.random_normal(std.dtype, std.shape, mean, std))
for _n in ("dropout", "dropout2d", "dropout3d", "alpha_dropout"):
    random(F + _n)(lambda x, p=0.5, training=True, inplace=False, f=_n: getattr(tj, f)(x, p, training))
random(F + "feature_alpha_dropout.with_train",
       F + "feature_alpha_dropout.without_train")(lambda x, p=0.5, training=False, inplace=False: tj.feature_alpha_dropout(x, p, training))
random("empty_like")(created(0))
random("empty")(created(0))
random("new_empty")(lambda x, shape, dtype=None, **k: tj.full(dtype or x.dtype, shape, 0))
