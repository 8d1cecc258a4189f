# SPDX-License-Identifier: MIT
"""The Python array API (2024.12) over tjit, for array-api-tests. No complex numbers, no u16, u32, u64, no DLPack: include/tj.h has none of them."""
import builtins
import math

import numpy as np

import tj

context = tj.Context()
__array_api_version__ = "2024.12"
NAMES = dict(bool="bool", uint8="u8", int8="i8", int16="i16", int32="i32", int64="i64", float32="f32", float64="f64")


class DType:
    def __init__(self, name):
        self.name, self.ours, self.numpy = name, NAMES[name], np.dtype(name)

    def __repr__(self):
        return "tjit." + self.name

    def __eq__(self, other):
        return isinstance(other, DType) and self.name == other.name

    def __hash__(self):
        return hash(self.name)


DT = {n: DType(n) for n in NAMES}
globals().update(DT)
OF = {d.ours: d for d in DT.values()}
pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
INTS, FLOATS = ("uint8", "int8", "int16", "int32", "int64"), ("float32", "float64")


class Array:
    __slots__ = ("t",)
    __array_priority__ = 100

    def __init__(self, t):
        self.t = t

    dtype = property(lambda a: OF[a.t.dtype])
    shape = property(lambda a: a.t.shape)
    ndim = property(lambda a: a.t.rank)
    size = property(lambda a: a.t.numel)
    device = property(lambda a: "cpu")
    T = property(lambda a: Array(tj.transpose(a.t, 0, 1)))
    mT = property(lambda a: matrix_transpose(a))

    def numpy(self):
        y = np.empty(self.shape, self.dtype.numpy)
        self.t.read(y.ctypes.data)
        return y

    def __array_namespace__(self, api_version=None):
        import sys
        return sys.modules[__name__]

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def item(self):
        return self.numpy()[()].item()

    def __bool__(self): return builtins.bool(self.item())
    def __int__(self): return builtins.int(self.item())
    def __float__(self): return builtins.float(self.item())
    def __complex__(self): return complex(self.item())
    def __index__(self):
        if self.dtype.name not in INTS or self.ndim:
            raise TypeError("an index is an integer")
        return self.item()
    def __len__(self): return self.shape[0]
    def __repr__(self): return f"Array({self.numpy()!r})"
    def __iter__(self): return (self[i] for i in range(self.shape[0]))
    def to_device(self, device, stream=None): return self

    def __getitem__(self, key):
        return Array(index(self.t, key))

    def __setitem__(self, key, value):  # arrays of tjit are values: the object takes a new one
        y = self.numpy()
        y[tuple(k.numpy() if isinstance(k, Array) else k for k in key) if isinstance(key, tuple) else key.numpy() if isinstance(key, Array) else key] = value.numpy() if isinstance(value, Array) else value
        self.t = of_numpy(y)

    def __neg__(self): return Array(tj.neg(self.t))
    def __pos__(self): return positive(self)
    def __abs__(self): return abs(self)
    def __invert__(self): return bitwise_invert(self)


def of_numpy(x):
    x = np.ascontiguousarray(x).reshape(np.shape(x))
    return tj.tensor(NAMES[x.dtype.name], x.shape, x.ctypes.data)


def index(t, key):
    """Integers, slices, None, ... in any order, and one mask or arrays of integers."""
    key = list(key) if isinstance(key, tuple) else [key]
    if len(key) == 1 and isinstance(key[0], Array) and key[0].dtype.name == "bool":
        mask = key[0].t
        if mask.rank > t.rank or [m for m, n in zip(mask.shape, t.shape) if m not in (n, 0)]:
            raise IndexError("a mask of another shape")
        if mask.shape != t.shape[:mask.rank]:  # an axis of size 0 is for an axis of any size
            return tj.full(t.dtype, (0, *t.shape[mask.rank:]), 0)
        if mask.rank == t.rank:
            return tj.masked_select(t, mask)
        rows = tj.nonzero(mask)
        lead = [tj.squeeze(tj.slice(rows, 1, i, i + 1, 1), [1]) for i in range(mask.rank)]
        return tj.index(t, list(range(mask.rank)), lead) if lead else tj.index_select(tj.unsqueeze(t, 0), 0, tj.full("i64", (1 if tj.truth(mask) else 0,), 0))
    named = [k for k in key if k is not None and k is not Ellipsis]
    if Ellipsis not in [k for k in key if not isinstance(k, Array)]:
        key.append(Ellipsis)
    at = next(i for i, k in enumerate(key) if k is Ellipsis)
    key[at:at + 1] = [slice(None)] * (t.rank - len(named))
    if len(named) > t.rank:
        raise IndexError("too many indices")
    axis, lists, axes = 0, [], []
    for k in key:
        if k is None:
            t, axis = tj.unsqueeze(t, axis), axis + 1
        elif isinstance(k, slice):
            t, axis = tj.slice(t, axis, *bounds(k, t.shape[axis])), axis + 1
        elif isinstance(k, Array) and k.ndim:
            axes.append(axis)
            lists.append(k.t)
            axis += 1
        else:
            i, n = k.__index__(), t.shape[axis]
            if not -n <= i < n:
                raise IndexError("out of range")
            t = tj.select(t, axis, i)
    return tj.index(t, axes, lists) if lists else t


def bounds(s, n):
    start, stop, step = s.indices(n)
    return start, (tj.END_DIM if stop < 0 else stop), step


# ---- operands ----
def arr(x):
    return x.t if isinstance(x, Array) else x


def as_pair(a, b):
    """A Python number takes the dtype of the array beside it."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Array) and isinstance(y, complex):
            raise TypeError("complex numbers are not there")
    if isinstance(a, Array) and not isinstance(b, Array):
        return a.t, tj.full(a.t.dtype, (), wrapped(b, a))
    if isinstance(b, Array) and not isinstance(a, Array):
        return tj.full(b.t.dtype, (), wrapped(a, b)), b.t
    if a.dtype != b.dtype:  # PyTorch's and our promotion does not widen for an array without axes
        t = result_type(a, b).ours
        return tj.cast(a.t, t), tj.cast(b.t, t)
    return a.t, b.t


def wrapped(v, a):
    if isinstance(v, builtins.float) and a.dtype.name not in FLOATS:
        raise TypeError("a float beside an array of integers")
    return v


def binary(ours):
    def f(a, b, /):
        return Array(getattr(tj, ours)(*as_pair(a, b)))
    return f


def unary(ours, same_ints=False):
    def f(x, /):
        if same_ints and x.dtype.name not in FLOATS:
            return Array(tj.reshape(x.t, x.shape))
        return Array(getattr(tj, ours)(x.t))
    return f


for _n in "add subtract:sub multiply:mul divide:div floor_divide remainder pow maximum minimum hypot copysign nextafter logaddexp atan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift:shift_left " \
          "bitwise_right_shift:shift_right equal:eq not_equal:ne less:lt less_equal:le greater:gt greater_equal:ge logical_and logical_or logical_xor".split():
    _a, _, _b = _n.partition(":")
    globals()[_a] = binary(_b or _a)
for _n in "abs acos acosh asin asinh atan atanh cos cosh exp expm1 isfinite isinf isnan log log1p log2 log10 logical_not negative:neg reciprocal sin sinh sqrt square tan tanh signbit bitwise_invert:bitwise_not".split():
    _a, _, _b = _n.partition(":")
    globals()[_a] = unary(_b or _a)
for _n in "ceil floor round trunc".split():
    globals()[_n] = unary(_n, True)


def positive(x, /): return Array(tj.reshape(x.t, x.shape))
def sign(x, /): return Array(tj.sign(x.t))
def real(x, /): return positive(x)
def conj(x, /): return positive(x)
def clip(x, /, min=None, max=None):
    y = x.t
    for limit, f in ((min, tj.maximum), (max, tj.minimum)):
        if limit is not None:
            y = tj.cast(f(y, limit.t if isinstance(limit, Array) else tj.full(x.t.dtype, (), limit)), x.t.dtype)
    return Array(y)


for _op, _f in dict(add="add", sub="subtract", mul="multiply", truediv="divide", floordiv="floor_divide", mod="remainder", pow="pow", lshift="bitwise_left_shift", rshift="bitwise_right_shift",
                    **{"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}, matmul="matmul").items():
    def _make(f):
        def go(a, b): return globals()[f](a, b) if isinstance(b, (Array, builtins.bool, builtins.int, builtins.float)) else NotImplemented
        def back(a, b): return globals()[f](b, a) if isinstance(b, (builtins.bool, builtins.int, builtins.float, Array)) else NotImplemented
        def inplace(a, b):
            y = globals()[f](a, b)
            a.t = tj.cast(y.t, a.t.dtype)
            return a
        return go, back, inplace
    for _prefix, _g in zip(("", "r", "i"), _make(_f)):
        setattr(Array, f"__{_prefix}{_op}__", _g)
for _op, _f in dict(eq="equal", ne="not_equal", lt="less", le="less_equal", gt="greater", ge="greater_equal").items():
    setattr(Array, f"__{_op}__", lambda a, b, f=_f: globals()[f](a, b))
Array.__hash__ = None


# ---- creation ----
def default(v):
    return DT["bool"] if isinstance(v, builtins.bool) else DT["int64"] if isinstance(v, builtins.int) else DT["float64"]


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    if isinstance(obj, Array):
        return Array(tj.cast(obj.t, dtype.ours) if dtype is not None and dtype != obj.dtype else tj.reshape(obj.t, obj.shape)) if copy is not False or dtype not in (None, obj.dtype) else obj
    x = np.asarray(_plain(obj))
    x = x.astype(dtype.numpy) if dtype is not None else x
    return Array(of_numpy(x))


def _plain(x):
    return [_plain(y) for y in x] if isinstance(x, (list, tuple)) else x.item() if isinstance(x, Array) else x


def full(shape, fill_value, *, dtype=None, device=None):
    return Array(tj.full((dtype or default(fill_value)).ours, [shape] if isinstance(shape, builtins.int) else list(shape), fill_value))


def zeros(shape, *, dtype=None, device=None): return full(shape, 0, dtype=dtype or DT["float64"])
def ones(shape, *, dtype=None, device=None): return full(shape, 1, dtype=dtype or DT["float64"])
empty = zeros
def full_like(x, /, fill_value, *, dtype=None, device=None): return full(x.shape, fill_value, dtype=dtype or x.dtype)
def zeros_like(x, /, *, dtype=None, device=None): return full(x.shape, 0, dtype=dtype or x.dtype)
def ones_like(x, /, *, dtype=None, device=None): return full(x.shape, 1, dtype=dtype or x.dtype)
empty_like = zeros_like


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    start, stop = (0, start) if stop is None else (start, stop)
    t = dtype or (DT["int64"] if builtins.all(isinstance(v, builtins.int) for v in (start, stop, step)) else DT["float64"])
    n = builtins.max(math.ceil((stop - start) / step), 0)
    if t.name in INTS and isinstance(start, builtins.int) and isinstance(step, builtins.int):
        return Array(tj.arange(t.ours, start, start + n * step, step) if n else tj.full(t.ours, (0,), 0))
    return Array(tj.cast(tj.add(tj.mul(tj.arange("f64", 0, n, 1), builtins.float(step)), builtins.float(start)) if n else tj.full("f64", (0,), 0), t.ours))


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    t = (dtype or DT["float64"]).ours
    return Array(tj.linspace(t, start, stop, num) if endpoint or not num else tj.slice(tj.linspace(t, start, stop, num + 1), 0, 0, num, 1))


def eye(n, m=None, /, *, k=0, dtype=None, device=None):
    m, t = n if m is None else m, (dtype or DT["float64"]).ours
    row, column = (tj.arange("i64", 0, v, 1) if v else tj.full("i64", (0,), 0) for v in (n, m))
    k = builtins.max(builtins.min(k, 1 << 60), -1 << 60)
    return Array(tj.cast(tj.eq(tj.add(tj.unsqueeze(row, 1), k), tj.unsqueeze(column, 0)), t))


def tril(x, /, *, k=0): return Array(tj.tril(x.t, k))
def triu(x, /, *, k=0): return Array(tj.triu(x.t, k))
def meshgrid(*arrays, indexing="xy"):
    return [Array(t) for t in tj.meshgrid([a.t for a in arrays], indexing == "xy")] if builtins.all(a.ndim for a in arrays) else [Array(t) for t in tj.meshgrid([tj.reshape(a.t, [a.size]) for a in arrays], indexing == "xy")]


def from_dlpack(x, /, *, device=None, copy=None):
    raise BufferError("DLPack is not there")


# ---- dtypes ----
def astype(x, dtype, /, *, copy=True, device=None): return Array(tj.cast(x.t, dtype.ours))
def can_cast(a, to, /):
    a = a.dtype if isinstance(a, Array) else a
    return result_type(a, to) == to


def result_type(*xs):
    kinds = [x.dtype if isinstance(x, Array) else x for x in xs if isinstance(x, (Array, DType))]
    y = kinds[0]
    for k in kinds[1:]:
        y = OF[tj.add(tj.full(y.ours, (1,), 0), tj.full(k.ours, (1,), 0)).dtype]
    for x in xs:
        if isinstance(x, builtins.float) and y.name not in FLOATS:
            raise TypeError("a float beside integers")
    return y


def isdtype(dtype, kind):
    groups = {"bool": ("bool",), "signed integer": ("int8", "int16", "int32", "int64"), "unsigned integer": ("uint8",), "integral": INTS, "real floating": FLOATS, "complex floating": (), "numeric": INTS + FLOATS}
    return builtins.any(isdtype(dtype, k) for k in kind) if isinstance(kind, tuple) else dtype == kind if isinstance(kind, DType) else dtype.name in groups[kind]


class _Info:
    def __init__(self, dtype, info, *names):
        self.dtype, self.bits = dtype, info.bits
        for n in names:
            setattr(self, n, (builtins.int if isinstance(info, np.iinfo) else builtins.float)(getattr(info, n)))


def _dtype_of(t): return t.dtype if isinstance(t, Array) else t
def finfo(t, /): return _Info(_dtype_of(t), np.finfo(_dtype_of(t).numpy), "eps", "max", "min", "smallest_normal")
def iinfo(t, /): return _Info(_dtype_of(t), np.iinfo(_dtype_of(t).numpy), "max", "min")


# ---- shapes ----
def broadcast_arrays(*xs): return [Array(t) for t in tj.broadcast_tensors([x.t for x in xs])]
def broadcast_to(x, /, shape): return Array(tj.expand(x.t, list(shape)))
def concat(xs, /, *, axis=0):
    t = result_type(*xs).ours
    return Array(tj.cat([tj.cast(tj.reshape(x.t, [x.size]) if axis is None else x.t, t) for x in xs], 0 if axis is None else axis))
def stack(xs, /, *, axis=0): return Array(tj.stack([x.t for x in xs], axis))
def expand_dims(x, /, *, axis=0):
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError("axis out of range")
    return Array(tj.unsqueeze(x.t, axis))
def flip(x, /, *, axis=None): return Array(tj.flip(x.t, list(range(x.ndim)) if axis is None else _axes(axis))) if x.ndim else positive(x)
def moveaxis(x, source, destination, /): return Array(tj.movedim(x.t, _axes(source), _axes(destination))) if x.ndim else positive(x)
def permute_dims(x, /, axes): return Array(tj.permute(x.t, list(axes)))
def matrix_transpose(x, /): return Array(tj.transpose(x.t, -2, -1))
def repeat(x, repeats, /, *, axis=None):
    t, axis = (tj.reshape(x.t, [x.size]), 0) if axis is None else (x.t, axis)
    if isinstance(repeats, Array) and repeats.size == 1:
        repeats = repeats.item()
    if isinstance(repeats, builtins.int):
        return Array(tj.repeat_interleave(t, repeats, axis))
    return Array(tj.index_select(t, axis, of_numpy(np.repeat(np.arange(t.shape[axis]), repeats.numpy()))))
def reshape(x, /, shape, *, copy=None): return Array(tj.reshape(x.t, [shape] if isinstance(shape, builtins.int) else list(shape)))
def roll(x, /, shift, *, axis=None):
    if axis is None:
        return Array(tj.reshape(tj.roll(tj.reshape(x.t, [x.size]), shift, 0), x.shape)) if x.ndim else positive(x)
    y = x.t
    axes = _axes(axis)
    for s, a in zip([shift] * len(axes) if isinstance(shift, builtins.int) else shift, axes):
        y = tj.roll(y, s, a)
    return Array(y)
def squeeze(x, /, axis):
    if builtins.any(x.shape[a] != 1 for a in _axes(axis)):
        raise ValueError("an axis is not of size 1")
    return Array(tj.squeeze(x.t, _axes(axis))) if _axes(axis) else positive(x)
def tile(x, repetitions, /): return Array(tj.tile(x.t, list(repetitions))) if len(repetitions) else positive(x)
def unstack(x, /, *, axis=0): return tuple(Array(t) for t in tj.unbind(x.t, axis, x.shape[axis]))
def _axes(a): return [a] if isinstance(a, builtins.int) else list(a)


# ---- reductions ----
def _over(f, x, axis, keepdims):
    axes = list(range(x.rank)) if axis is None else _axes(axis)
    return f(x, axes, keepdims) if axes else tj.reshape(x, x.shape)


def sum(x, /, *, axis=None, dtype=None, keepdims=False): return _accumulated(tj.sum, x, axis, dtype, keepdims)
def prod(x, /, *, axis=None, dtype=None, keepdims=False): return _accumulated(tj.prod, x, axis, dtype, keepdims)
def _accumulated(f, x, axis, dtype, keepdims):
    to = dtype or (DT["int64"] if x.dtype.name in INTS or x.dtype.name == "bool" else x.dtype)
    return Array(tj.cast(_over(f, tj.cast(x.t, to.ours), axis, keepdims), to.ours))
def max(x, /, *, axis=None, keepdims=False): return Array(_over(tj.amax, x.t, axis, keepdims))
def min(x, /, *, axis=None, keepdims=False): return Array(_over(tj.amin, x.t, axis, keepdims))
def mean(x, /, *, axis=None, keepdims=False): return Array(_over(tj.mean, x.t, axis, keepdims))
def var(x, /, *, axis=None, correction=0.0, keepdims=False): return Array(_spread(x, axis, correction, keepdims, "var_mean"))
def std(x, /, *, axis=None, correction=0.0, keepdims=False): return Array(_spread(x, axis, correction, keepdims, "std"))
def _spread(x, axis, correction, keepdims, f):
    axes = list(range(x.ndim)) if axis is None else _axes(axis)
    if not axes:
        return tj.div(tj.sub(x.t, x.t), builtins.max(1.0 - correction, 0.0))
    y = getattr(tj, f)(x.t, axes, builtins.float(correction), keepdims)
    return y[0] if isinstance(y, tuple) else y
def all(x, /, *, axis=None, keepdims=False): return Array(_over(tj.all, tj.cast(x.t, "bool"), axis, keepdims))
def any(x, /, *, axis=None, keepdims=False): return Array(_over(tj.any, tj.cast(x.t, "bool"), axis, keepdims))
def count_nonzero(x, /, *, axis=None, keepdims=False): return Array(_over(tj.sum, tj.cast(tj.cast(x.t, "bool"), "i64"), axis, keepdims))
def argmax(x, /, *, axis=None, keepdims=False): return Array(_arg(tj.argmax, x.t, axis, keepdims))
def argmin(x, /, *, axis=None, keepdims=False): return Array(_arg(tj.argmin, x.t, axis, keepdims))
def _arg(f, x, axis, keepdims): return tj.reshape(f(x, tj.END_DIM, False), [1] * x.rank if keepdims else []) if axis is None else f(x, axis, keepdims)
def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False): return _cumulated(tj.cumsum, 0, x, axis, dtype, include_initial)
def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False): return _cumulated(tj.cumprod, 1, x, axis, dtype, include_initial)
def _cumulated(f, first, x, axis, dtype, include_initial):
    axis = 0 if axis is None else axis
    to = dtype or (DT["int64"] if x.dtype.name in INTS or x.dtype.name == "bool" else x.dtype)
    y = tj.cast(f(tj.cast(x.t, to.ours), axis), to.ours)
    if include_initial:
        shape = [1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)]
        y = tj.cat([tj.full(to.ours, shape, first), y], axis)
    return Array(y)
def diff(x, /, *, axis=-1, n=1, prepend=None, append=None): return Array(tj.diff(x.t, n, axis, None if prepend is None else prepend.t, None if append is None else append.t))


# ---- order, search, sets ----
def sort(x, /, *, axis=-1, descending=False, stable=True): return Array(tj.sort(x.t, axis, descending)[0]) if x.ndim else positive(x)
def argsort(x, /, *, axis=-1, descending=False, stable=True): return Array(tj.argsort(x.t, axis, descending))
def searchsorted(x1, x2, /, *, side="left", sorter=None): return Array(tj.searchsorted(x1.t if sorter is None else tj.index_select(x1.t, 0, sorter.t), x2.t, side == "right"))
def nonzero(x, /):
    if not x.ndim:
        raise ValueError("a 0-d array")
    y = tj.nonzero(x.t)
    return tuple(Array(tj.select(y, 1, i)) for i in range(x.ndim))
def where(c, a, b, /): return Array(tj.where(c.t, *as_pair(a, b))) if isinstance(a, Array) or isinstance(b, Array) else Array(tj.where(c.t, a, b))
def take(x, indices, /, *, axis=None): return Array(tj.index_select(x.t, 0 if axis is None else axis, _positive(indices, x.shape[axis or 0])))
def take_along_axis(x, indices, /, *, axis=-1): return Array(tj.take_along_dim(x.t, _positive(indices, x.shape[axis]), axis))
def _positive(i, n): return tj.where(tj.lt(i.t, 0), tj.add(i.t, n), i.t)
def unique_all(x, /):
    from collections import namedtuple
    v, i, inverse, counts = tj.unique_all(x.t)
    return namedtuple("unique_all_result", "values indices inverse_indices counts")(Array(v), Array(i), Array(tj.reshape(inverse, x.shape)), Array(counts))
def unique_counts(x, /):
    from collections import namedtuple
    y = unique_all(x)
    return namedtuple("unique_counts_result", "values counts")(y.values, y.counts)
def unique_inverse(x, /):
    from collections import namedtuple
    y = unique_all(x)
    return namedtuple("unique_inverse_result", "values inverse_indices")(y.values, y.inverse_indices)
def unique_values(x, /): return Array(tj.unique(x.t))


# ---- products ----
def matmul(a, b, /):
    if not (isinstance(a, Array) and isinstance(b, Array)):
        raise TypeError("matmul takes arrays")
    return Array(tj.matmul(a.t, b.t))
def tensordot(a, b, /, *, axes=2):
    x, y = (list(range(a.ndim - axes, a.ndim)), list(range(axes))) if isinstance(axes, builtins.int) else (list(v) for v in axes)
    return Array(tj.tensordot(a.t, b.t, x, y))
def vecdot(a, b, /, *, axis=-1):
    t = result_type(a, b).ours
    if (a.shape[axis] if -axis <= a.ndim else 1) != (b.shape[axis] if -axis <= b.ndim else 1):  # tj_vecdot() broadcasts the axis, as PyTorch does
        raise ValueError("axes that are summed have one size")
    return Array(tj.vecdot(tj.cast(a.t, t), tj.cast(b.t, t), axis))


class __array_namespace_info__:
    def capabilities(self): return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}
    def default_device(self): return "cpu"
    def devices(self): return ["cpu"]
    def default_dtypes(self, *, device=None): return {"real floating": DT["float64"], "complex floating": None, "integral": DT["int64"], "indexing": DT["int64"]}
    def dtypes(self, *, device=None, kind=None): return {n: d for n, d in DT.items() if kind is None or isdtype(d, kind)}
