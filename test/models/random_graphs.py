# SPDX-License-Identifier: MIT
"""Makes random ONNX graphs with the results of onnxruntime, as cases for test/models/suite.c, and makes those that differ small.

  python3 test/models/random_graphs.py FOLDER [N [SEED]]          writes N graphs
  python3 test/models/random_graphs.py -min PROGRAM FOLDER NUMBER  prints the smallest part of a graph that PROGRAM (the suite) finds wrong

A graph has 5 to 40 nodes, opset 11 to 21. Each node is run by onnxruntime as it is made, on the values that its inputs have, so the
generator knows what it may ask for, and a node that onnxruntime refuses is not taken. All values are outputs, in the order of the nodes:
the first one that differs is where it went wrong.

A value is exact as long as its floats are sums and products of small multiples of 1/8, which no order of adding changes. Ops that jump
(Floor, Cast to integers, comparisons, ArgMax, quantisation, ...) only read exact values. Others are compared within 1e-3 (f16: 2e-2) of the
largest element.
"""

import os
import random
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper

np.seterr(all="ignore")
F32, F64, F16 = np.dtype("float32"), np.dtype("float64"), np.dtype("float16")
I64, I32, I8, U8, BOOL = (np.dtype(t) for t in ("int64", "int32", "int8", "uint8", "bool"))
FLOATS, WHOLE = (F32, F64, F16), (I64, I32, I8, U8)
TYPE = {
    F32: T.FLOAT,
    F64: T.DOUBLE,
    F16: T.FLOAT16,
    I64: T.INT64,
    I32: T.INT32,
    I8: T.INT8,
    U8: T.UINT8,
    BOOL: T.BOOL,
    np.dtype("int16"): T.INT16,
}
MOST = 6000  # elements of a value


def session(model):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])


def info(name, a, shape=None):
    return helper.make_tensor_value_info(name, TYPE[a.dtype], list(a.shape) if shape is None else shape)


class Refused(Exception):
    pass


class Value:
    def __init__(self, name, a, exact):
        a = np.asarray(a)
        self.name, self.a, self.exact = name, a, exact
        finite = a[np.isfinite(a)] if a.dtype.kind == "f" else a
        self.low = float(finite.min()) if finite.size and a.dtype != BOOL else 0.0
        self.high = float(finite.max()) if finite.size and a.dtype != BOOL else 0.0
        self.odd = a.dtype.kind == "f" and finite.size != a.size
        self.floats = a.dtype in FLOATS
        self.rank, self.shape = a.ndim, a.shape


class Graph:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.opset = self.r.choice([11, 12, 13, 13, 14, 15, 16, 17, 18, 18, 19, 20, 21])
        self.nodes, self.pool, self.inputs, self.init, self.outputs, self.n = [], [], [], [], [], 0

    # ---- values ----
    def name(self):
        self.n += 1
        return "v%d" % self.n

    def numbers(self, shape, dtype, odd=False):
        r = np.random.default_rng(self.r.randrange(1 << 30))
        if dtype == BOOL:
            return r.integers(0, 2, shape).astype(bool)
        if dtype in FLOATS:
            a = (r.integers(-24, 25, shape) / 8).astype(dtype)
            if a.size and odd and self.r.random() < 0.05:
                a.reshape(-1)[self.r.randrange(a.size)] = self.r.choice([np.nan, np.inf, -np.inf])
            return a
        return r.integers(0 if dtype == U8 else -5, 9, shape).astype(dtype)

    def shape(self):
        rank = self.r.choice([0, 1, 1, 2, 2, 3, 3, 4, 4])
        return tuple(0 if self.r.random() < 0.01 else self.r.choice([1, 1, 2, 3, 4, 5, 6, 8]) for _ in range(rank))

    def const(self, a, exact=True):
        a = np.asarray(a)
        v = Value(self.name(), a, exact)
        self.init.append(numpy_helper.from_array(np.ascontiguousarray(a).reshape(a.shape), v.name))
        return v

    def new_input(self):
        dtype = self.r.choice([F32] * 8 + [F64, F16, I64, I64, I32, I8, U8, BOOL])
        v = Value(self.name(), self.numbers(self.shape(), dtype, True), True)
        self.inputs.append(v)
        self.pool.append(v)
        return v

    def pick(self, ok):
        found = [v for v in self.pool if ok(v)]
        if not found:
            raise Refused
        return self.r.choice(found[-6:] if self.r.random() < 0.5 else found)

    def floats(self, ok=lambda v: True, exact=False, wide=False):
        return self.pick(lambda v: v.floats and (not exact or v.exact) and (wide or v.a.dtype != F16) and ok(v))

    # ---- nodes ----
    def emit(self, op, inputs, exact, outputs=1, **attrs):
        """Runs the node; its results join the pool."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(op, [v.name if v else "" for v in inputs], names, **attrs)
        outer = [v for v in self.pool if any(v.name in str(a) for a in node.attribute if a.type == a.GRAPH)]
        given = list({v.name: v for v in list(inputs) + outer if v}.values())
        g = helper.make_graph([node], "g", [info(v.name, v.a) for v in given], [onnx.ValueInfoProto(name=n) for n in names])
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        try:
            got = session(m).run(None, {v.name: v.a for v in given})
        except Exception as e:  # onnxruntime does not have it, or it does not fit
            raise Refused(str(e))
        made = []
        for name, a in zip(names, got):
            a = np.asarray(a)
            if a.dtype not in TYPE or a.size > MOST or a.ndim > 7:
                raise Refused
            v = Value(name, a, exact and (a.dtype.kind != "f" or self.small(a)))
            if max(abs(v.low), abs(v.high)) > (2e3 if a.dtype == F16 else 1e5 if v.floats else 1e15):
                raise Refused
            made.append(v)
        self.nodes.append(node)
        self.pool += made
        self.outputs += made
        return made[0] if outputs == 1 else made

    @staticmethod
    def small(a):
        f = a[np.isfinite(a)].astype(np.float64) * 64
        return bool((f == np.round(f)).all() and (not f.size or np.abs(f).max() < (1 << 11 if a.dtype == F16 else 1 << 20)))

    # ---- kinds of nodes ----
    def unary_exact(self):
        op = self.r.choice(["Neg", "Abs", "Identity", "Relu", "Sign", "Floor", "Ceil", "Round", "IsNaN", "IsInf", "Not"])
        if op == "Not":
            return self.emit(op, [self.pick(lambda v: v.a.dtype == BOOL)], True)
        v = (
            self.floats(exact=op not in ("Neg", "Abs", "Identity", "Relu"), wide=True)
            if self.r.random() < 0.7 or op in ("Relu", "Floor", "Ceil", "Round", "IsNaN", "IsInf")
            else self.pick(lambda v: v.a.dtype in (I64, I32, I8))
        )
        if op == "Sign" and v.odd:
            raise Refused  # onnxruntime: 0 for a NaN of f16
        return self.emit(op, [v], v.exact)

    def unary_smooth(self):
        r = self.r
        op, low, high, attrs = r.choice(
            [
                ("Exp", -20, 6, {}),
                ("Log", 0.1, 1e5, {}),
                ("Sqrt", 0.05, 1e5, {}),
                ("Sigmoid", -50, 50, {}),
                ("Tanh", -50, 50, {}),
                ("Erf", -50, 50, {}),
                ("Softplus", -50, 50, {}),
                ("Softsign", -1e4, 1e4, {}),
                ("Elu", -50, 1e4, {"alpha": r.choice([0.5, 1.0])}),
                ("Selu", -50, 1e4, {}),
                ("Celu", -50, 1e4, {"alpha": 0.7}),
                ("LeakyRelu", -1e4, 1e4, {"alpha": 0.1}),
                ("HardSigmoid", -1e4, 1e4, {"alpha": 0.3, "beta": 0.4}),
                ("HardSwish", -1e3, 1e3, {}),
                ("Mish", -50, 1e3, {}),
                ("Gelu", -50, 1e3, {"approximate": r.choice(["none", "tanh"])}),
                ("Sin", -30, 30, {}),
                ("Cos", -30, 30, {}),
                ("Atan", -1e4, 1e4, {}),
                ("Asinh", -1e3, 1e3, {}),
                ("Sinh", -6, 6, {}),
                ("Cosh", -6, 6, {}),
                ("Asin", -0.9, 0.9, {}),
                ("Acos", -0.9, 0.9, {}),
                ("Atanh", -0.9, 0.9, {}),
                ("Acosh", 1.2, 1e3, {}),
                ("Reciprocal", 0.1, 1e4, {}),
                ("Tan", -1.2, 1.2, {}),
            ]
        )
        v = self.floats(
            lambda v: v.low >= low and v.high <= high and not v.odd or (v.odd and r.random() < 0.2 and v.low >= low and v.high <= high),
            wide=True,
        )
        return self.emit(op, [v], False, **attrs)

    def partner(self, v, dtype=None):
        """A value that broadcasts with v: of the pool, or a constant."""
        r = self.r
        if r.random() < 0.5:

            def fits(w):
                if w.a.dtype != (dtype or v.a.dtype):
                    return False
                try:
                    return np.prod(np.broadcast_shapes(v.shape, w.shape), dtype=float) <= MOST
                except ValueError:
                    return False

            try:
                return self.pick(fits)
            except Refused:
                pass
        shape = [d if r.random() < 0.6 else 1 for d in v.shape][r.randrange(v.rank + 1) :]
        return self.const(self.numbers(shape, dtype or v.a.dtype))

    def binary(self):
        op = self.r.choice(["Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Mean", "Add", "Mul"])
        if op in ("Add", "Sub", "Mul", "Div", "Min", "Max") and self.r.random() < 0.3:
            v = self.pick(lambda v: v.a.dtype in (I64, I32))
        else:
            v = self.floats(wide=True)
        w = self.partner(v)
        if op == "Div" and (w.low <= 0.05 <= w.high or w.low <= 0 <= w.high):
            raise Refused
        if op == "Pow":
            if v.low < 0.1 or v.high > 20:
                raise Refused
            w = self.const(
                self.r.choice([np.array(2.0), np.array([0.5, 1.0]), np.array(-1.0), np.array(3.0), np.array(1.5)]).astype(v.a.dtype)
            )
        args = [v, w] + ([self.partner(v)] if op in ("Min", "Max", "Sum", "Mean") and self.r.random() < 0.3 else [])
        exact = all(a.exact for a in args) and op not in ("Pow", "Mean") and (op != "Div" or not v.floats)
        return self.emit(op, args, exact)

    def compare(self):
        op = self.r.choice(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor"])
        if op in ("And", "Or", "Xor"):
            v = self.pick(lambda v: v.a.dtype == BOOL)
        else:
            v = self.pick(lambda v: v.exact and v.a.dtype in (F32, F64, I64, I32))
        w = self.partner(v)
        if not w.exact:
            raise Refused
        return self.emit(op, [v, w], True)

    def where(self):
        v = self.pick(lambda v: v.a.dtype in (F32, F64, I64, I32, U8) and v.rank)
        w = self.partner(v)
        c = self.partner(v, BOOL)
        return self.emit("Where", [c, v, w], v.exact and w.exact)

    def modulo(self):
        v = self.pick(lambda v: v.exact and v.a.dtype in (F32, I64, I32, I8, U8) and not v.odd)
        w = np.asarray(self.r.choice([2, 3, 5, -3] if v.a.dtype != U8 else [2, 3])).astype(v.a.dtype)
        return self.emit("Mod", [v, self.const(w)], True, fmod=1 if v.floats else self.r.randrange(2))

    def bits(self):
        op = self.r.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"])
        v = self.pick(lambda v: v.a.dtype in ((U8,) if op == "BitShift" else WHOLE))
        if op == "BitwiseNot":
            return self.emit(op, [v], True)
        if op == "BitShift":
            return self.emit(op, [v, self.const(np.array(self.r.randrange(8), U8))], True, direction=self.r.choice(["LEFT", "RIGHT"]))
        return self.emit(op, [v, self.partner(v)], True)

    def cast(self):
        to = self.r.choice([F32, F64, F16, I64, I32, I8, U8, BOOL])
        whole = to.kind in "iu"
        v = self.pick(
            lambda v: (not v.floats or v.exact or to in FLOATS)
            and (not whole or not v.odd)
            and (not whole or v.low >= (0 if to == U8 else -128))
            and (not whole or v.high <= 127)
            and abs(v.high) < 6e4
        )
        return self.emit("Cast", [v], v.exact, to=TYPE[to])

    def clip(self):
        v = self.floats()
        low, high = sorted(self.r.choice([-2.0, -0.5, 0.0, 0.5, 1.0, 6.0]) for _ in range(2))
        args = [v, self.const(np.array(low, v.a.dtype)) if self.r.random() < 0.8 else None, self.const(np.array(high, v.a.dtype))]
        return self.emit("Clip", args, v.exact)

    # ---- moving elements ----
    def list_of(self, v):
        return self.const(np.array(v, I64).reshape(-1))

    def any(self, ok=lambda v: True):
        return self.pick(lambda v: v.a.dtype != np.dtype("int16") and ok(v))

    def axes_arg(self, op, v, axes, since, **attrs):
        if self.opset >= since:
            return self.emit(op, [v, self.list_of(axes)], v.exact, **attrs)
        return self.emit(op, [v], v.exact, axes=axes, **attrs)

    def axis(self, v):
        a = self.r.randrange(v.rank)
        return a - v.rank if self.r.random() < 0.4 else a

    def reshape(self):
        v = self.any(lambda v: v.a.size)
        n, dims = v.a.size, []
        while n > 1 and len(dims) < 4:
            d = self.r.choice([k for k in range(1, n + 1) if n % k == 0][:6])
            dims.append(d)
            n //= d
        dims.append(n)
        if self.r.random() < 0.5:
            dims[self.r.randrange(len(dims))] = -1
        elif self.r.random() < 0.3 and v.rank and dims[0] == v.shape[0]:
            dims[0] = 0
        return self.emit("Reshape", [v, self.list_of(dims)], v.exact)

    def reshape_computed(self):
        """A shape that is computed of the shape of x, as exporters write it."""
        v = self.any(lambda v: v.rank >= 2 and v.a.size)
        s = self.emit("Shape", [v], True)
        first = self.emit("Gather", [s, self.const(np.array(0, I64))], True, axis=0)
        kind = self.r.randrange(4)
        if kind == 0:
            a = self.axes_arg("Unsqueeze", first, [0], 13)
            shape = self.emit("Concat", [a, self.list_of([-1])], True, axis=0)
        elif kind == 1:
            tail = self.emit("Slice", [s, self.list_of([1]), self.list_of([1 << 40])], True)
            n = self.axes_arg("ReduceProd", tail, [0], 18, keepdims=1)
            a = self.axes_arg("Unsqueeze", first, [0], 13)
            shape = self.emit("Concat", [n, a], True, axis=0)
        elif kind == 2:
            back = self.emit("Slice", [s, self.list_of([-1]), self.list_of([-(1 << 40)]), self.list_of([0]), self.list_of([-1])], True)
            shape = self.emit("Mul", [back, self.list_of([1])], True)
        else:
            n = self.emit("Size", [v], True)
            q = self.emit("Div", [n, first], True)
            a, b = self.axes_arg("Unsqueeze", first, [0], 13), self.axes_arg("Unsqueeze", q, [0], 13)
            shape = self.emit("Concat", [b, a], True, axis=0)
        return self.emit("Reshape", [v, shape], v.exact)

    def shape_values(self):
        v = self.any(lambda v: v.rank)
        s = self.emit("Shape", [v], True, **({"start": self.r.randrange(2)} if self.opset >= 15 and self.r.random() < 0.4 else {}))
        kind = self.r.randrange(5)
        if kind == 0 and v.a.size <= 300:
            return self.emit(
                "ConstantOfShape",
                [s],
                True,
                value=numpy_helper.from_array(np.array([self.r.choice([0, 2, -1])], self.r.choice([F32, I64]))),
            )
        if kind == 1:
            n = self.emit("Gather", [s, self.const(np.array(0, I64))], True)
            return self.emit("Range", [self.const(np.array(0, I64)), n, self.const(np.array(1, I64))], True)
        if kind == 2:
            small = self.any(lambda w: w.a.dtype == v.a.dtype and w.a.size == 1 and w.rank <= v.rank)
            return self.emit("Expand", [small, s], small.exact)
        if kind == 3:
            f = self.emit("Cast", [s], True, to=T.FLOAT)
            return self.emit("Floor", [self.emit("Mul", [f, self.const(np.array(1.5, F32))], True)], True)
        return self.emit("Add", [s, self.list_of([1])], True)

    def view(self):
        r = self.r
        op = r.choice(
            ["Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"]
        )
        if op == "Flatten":
            v = self.any()
            return self.emit(op, [v], v.exact, axis=r.randrange(v.rank + 1))
        if op == "Transpose":
            v = self.any(lambda v: v.rank > 1)
            perm = list(range(v.rank))
            r.shuffle(perm)
            return self.emit(op, [v], v.exact, **({"perm": perm} if r.random() < 0.8 else {}))
        if op == "Squeeze":
            v = self.any(lambda v: 1 in v.shape)
            return self.axes_arg(op, v, [r.choice([i for i, d in enumerate(v.shape) if d == 1])], 13)
        if op == "Unsqueeze":
            v = self.any(lambda v: v.rank < 5)
            return self.axes_arg(
                op, v, sorted(r.sample(range(v.rank + 2), 2)) if r.random() < 0.3 else [r.randrange(-v.rank - 1, v.rank + 1)], 13
            )
        if op == "Dropout":
            v = self.floats()
            return self.emit(op, [v], v.exact)
        if op == "Expand":
            v = self.any()
            dims = [r.choice([2, 3]) if d == 1 else d for d in v.shape]
            return self.emit(op, [v, self.list_of(([r.choice([1, 2])] if r.random() < 0.3 else []) + dims)], v.exact)
        if op == "Tile":
            v = self.any(lambda v: v.rank)
            return self.emit(op, [v, self.list_of([r.choice([1, 1, 2, 3]) for _ in v.shape])], v.exact)
        v = self.floats(lambda v: v.rank == 4)
        if op == "DepthToSpace":
            return self.emit(op, [v], v.exact, blocksize=2, mode=r.choice(["DCR", "CRD"]))
        return self.emit(op, [v], v.exact, blocksize=2)

    def slice(self):
        r = self.r
        v = self.any(lambda v: v.rank)
        axes = sorted(r.sample(range(v.rank), r.randrange(1, v.rank + 1)))
        n = len(axes)
        starts = [r.choice([0, 1, -1, -2, 2, -100, 1 << 40]) for _ in axes]
        ends = [r.choice([1 << 62, 1 << 31, -1, 2, 3, -100, 0]) for _ in axes]
        steps = [r.choice([1, 1, 1, 2, -1, -2, 3]) for _ in axes]
        axes = [a - v.rank if r.random() < 0.3 else a for a in axes]
        args = [v] + [self.list_of(x) for x in (starts, ends, axes, steps)[: 4 if r.random() < 0.8 or n < v.rank else 2]]
        return self.emit("Slice", args, v.exact)

    def join(self):
        v = self.any(lambda v: v.rank)
        axis = self.axis(v)
        others = [v] + [
            self.pick(
                lambda w: w.a.dtype == v.a.dtype
                and w.rank == v.rank
                and all(a == b for i, (a, b) in enumerate(zip(v.shape, w.shape)) if i != axis % v.rank)
            )
            for _ in range(self.r.choice([1, 1, 2]))
        ]
        return self.emit("Concat", others, all(w.exact for w in others), axis=axis)

    def split(self):
        v = self.any(lambda v: v.rank and max(v.shape) > 1)
        axis = max(range(v.rank), key=lambda i: v.shape[i])
        n = v.shape[axis]
        k = self.r.randrange(1, n)
        if self.r.random() < 0.3 and n % 2 == 0:
            return self.emit("Split", [v], v.exact, outputs=2, axis=axis, **({"num_outputs": 2} if self.opset >= 18 else {}))
        if self.opset >= 13:
            return self.emit("Split", [v, self.list_of([k, n - k])], v.exact, outputs=2, axis=axis)
        return self.emit("Split", [v], v.exact, outputs=2, axis=axis, split=[k, n - k])

    def indices(self, n, shape):
        return np.array([self.r.randrange(-n, n) for _ in range(int(np.prod(shape, dtype=int)))], I64).reshape(shape)

    def gather(self):
        r = self.r
        op = r.choice(["Gather", "Gather", "GatherElements", "GatherND"])
        v = self.any(lambda v: v.rank and min(v.shape) > 0)
        axis = self.axis(v)
        n = v.shape[axis]
        if op == "Gather":
            index = self.indices(n, r.choice([(), (1,), (3,), (2, 2)]))
            return self.emit(op, [v, self.const(index if r.random() < 0.7 else index.astype(I32))], v.exact, axis=axis)
        if op == "GatherElements":
            shape = list(v.shape)
            shape[axis] = r.choice([1, 2, 5])
            return self.emit(op, [v, self.const(self.indices(n, shape))], v.exact, axis=axis)
        k = r.randrange(1, v.rank + 1)
        index = np.stack([self.indices(v.shape[i], (2, 3)) for i in range(k)], -1)
        return self.emit(op, [v, self.const(index)], v.exact)

    def scatter(self):
        r = self.r
        v = self.pick(lambda v: v.a.dtype in (F32, I64, F64) and v.rank and min(v.shape) > 0)
        attrs = (
            {"reduction": r.choice(["add", "mul", "max", "min"][: 4 if self.opset >= 18 else 2])}
            if self.opset >= 16 and r.random() < 0.5 and not v.odd
            else {}
        )
        if r.random() < 0.5:
            axis = r.randrange(v.rank)
            shape = [r.randrange(1, d + 1) for d in v.shape]
            index = np.argsort(np.random.default_rng(r.randrange(1 << 30)).random(shape), axis).astype(I64)  # each once
            return self.emit(
                "ScatterElements", [v, self.const(index), self.const(self.numbers(shape, v.a.dtype))], v.exact, axis=axis, **attrs
            )
        rows = r.sample(range(v.shape[0]), r.randrange(1, v.shape[0] + 1))
        index = np.array(rows, I64).reshape(-1, 1)
        return self.emit(
            "ScatterND", [v, self.const(index), self.const(self.numbers((len(rows),) + v.shape[1:], v.a.dtype))], v.exact, **attrs
        )

    def pad(self):
        r = self.r
        v = self.pick(lambda v: v.rank and v.a.size and v.a.dtype in (F32, I64, F64, I32))
        mode = r.choice(["constant", "constant", "reflect", "edge"] + (["wrap"] if self.opset >= 19 else []))
        most = 2 if mode in ("constant", "edge") else min(v.shape) - 1
        pads = [r.randrange(0, min(most, 2) + 1) if most > 0 else 0 for _ in range(2 * v.rank)]
        if mode == "constant" and r.random() < 0.3 and min(v.shape) > 1:
            pads[r.randrange(2 * v.rank)] = -1
        args = [v, self.list_of(pads)]
        if mode == "constant" and r.random() < 0.5:
            args.append(self.const(np.array(r.choice([1, -2]), v.a.dtype)))
        return self.emit("Pad", args, v.exact, mode=mode)

    def by_order(self):
        r = self.r
        op = r.choice(
            [
                "TopK",
                "ArgMax",
                "ArgMin",
                "Hardmax",
                "CumSum",
                "Trilu",
                "NonZero",
                "Compress",
                "Unique",
                "OneHot",
                "ReverseSequence",
                "EyeLike",
            ]
        )
        if op in ("TopK", "ArgMax", "ArgMin", "Hardmax"):
            v = self.pick(
                lambda v: v.exact
                and v.rank
                and v.a.size
                and not v.odd
                and v.a.dtype in ((F32, F64) if op == "Hardmax" else (F32, F64, I32, I64))
            )
            axis = self.axis(v)
            if op == "TopK":
                k = r.randrange(1, v.shape[axis] + 1)
                w = self.emit("TopK", [v, self.list_of([k])], True, outputs=2, axis=axis, largest=r.randrange(2))
                return w[0]
            attrs = (
                {}
                if op == "Hardmax"
                else {"keepdims": r.randrange(2), **({"select_last_index": r.randrange(2)} if self.opset >= 12 else {})}
            )
            return self.emit(op, [v], True, axis=axis, **attrs)
        if op == "CumSum":
            v = self.pick(lambda v: v.rank and v.a.dtype in (F32, F64, I32, I64))
            return self.emit(op, [v, self.const(np.array(self.axis(v), I64))], v.exact, exclusive=r.randrange(2), reverse=r.randrange(2))
        if op == "Trilu":
            v = self.pick(lambda v: v.rank > 1 and v.a.dtype in (F32, F64, I64))
            return self.emit(
                op,
                [v] + ([self.const(np.array(r.choice([-1, 0, 1, 5]), I64))] if r.random() < 0.7 else []),
                v.exact,
                upper=r.randrange(2),
            )
        if op == "NonZero":
            return self.emit(op, [self.pick(lambda v: v.exact and v.rank and v.a.dtype in (F32, I64, I32, BOOL, U8))], True)
        if op == "Compress":
            v = self.any(lambda v: v.rank and v.a.size)
            axis = self.axis(v)
            return self.emit(op, [v, self.const(self.numbers((v.shape[axis],), BOOL))], v.exact, axis=axis)
        if op == "Unique":
            v = self.pick(lambda v: v.exact and v.rank == 1 and v.a.size and not v.odd and v.a.dtype in (F32, I64, F64, I8))
            return self.emit(op, [v], True, outputs=4, sorted=r.randrange(2))[0]
        if op == "OneHot":
            v = self.pick(lambda v: v.a.dtype == I64 and v.rank < 4 and v.low >= -6 and v.high < 6)
            return self.emit(
                op, [v, self.const(np.array(6, I64)), self.const(np.array([0, 1], r.choice([F32, I64])))], True, axis=r.choice([-1, 0])
            )
        if op == "EyeLike":
            return self.emit(op, [self.pick(lambda v: v.rank == 2 and v.a.dtype in (F32, I64, F64, I32))], True, k=r.choice([-1, 0, 1]))
        v = self.pick(lambda v: v.rank > 1 and v.a.size and v.a.dtype in (F32, F64, I64))
        lengths = np.array([r.randrange(1, v.shape[0] + 1) for _ in range(v.shape[1])], I64)
        return self.emit(op, [v, self.const(lengths)], v.exact, time_axis=0, batch_axis=1)

    # ---- sums, products, windows ----
    def reduce(self):
        r = self.r
        op = r.choice(["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp", "LogSum"])
        v = self.pick(
            lambda v: v.a.dtype in (F32, F64, I64, I32)[: 2 if op in ("L2", "LogSumExp", "LogSum", "Mean") else 4]
            and (not v.odd or op not in ("Max", "Min"))
            and (v.a.size or op == "Sum")
            and (op != "Prod" or max(abs(v.low), abs(v.high)) < 4)
            and (op != "LogSum" or v.low > 0.1)
            and (op != "LogSumExp" or v.high < 50)
        )
        axes = sorted(r.sample(range(v.rank), r.randrange(1, v.rank + 1))) if v.rank and r.random() < 0.85 else []
        axes = [a - v.rank if r.random() < 0.3 else a for a in axes]
        exact = v.exact and op in ("Sum", "Max", "Min", "L1", "SumSquare", "Prod")
        since = 13 if op == "Sum" else 18
        keep = {"keepdims": r.randrange(2)}
        if not axes:
            return self.emit("Reduce" + op, [v], exact, **keep)
        if self.opset >= since:
            return self.emit("Reduce" + op, [v, self.list_of(axes)], exact, **keep)
        return self.emit("Reduce" + op, [v], exact, axes=axes, **keep)

    def softmax(self):
        v = self.floats(lambda v: v.rank and not v.odd and v.a.size, wide=True)
        return self.emit(self.r.choice(["Softmax", "LogSoftmax"]), [v], False, axis=self.axis(v))

    def matmul(self):
        r = self.r
        v = self.pick(lambda v: v.rank and v.shape[-1] and v.a.dtype in (F32, F32, F64, I32, F16) and not v.odd)
        k = v.shape[-1]
        if r.random() < 0.4 and v.rank == 2 and v.floats:
            tb = r.randrange(2)
            n = r.choice([1, 3, 8])
            b = self.const(self.numbers((n, k) if tb else (k, n), v.a.dtype))
            c = [self.const(self.numbers(r.choice([(n,), (1, n), (v.shape[0], n), ()]), v.a.dtype))] if r.random() < 0.7 else []
            return self.emit("Gemm", [v, b] + c, v.exact, transB=tb, alpha=r.choice([1.0, 0.5]), beta=r.choice([1.0, 2.0, 0.0]))
        shape = r.choice([(k,), (k, 5), (k, 1), (2, k, 3)][: 4 if v.rank < 3 else 3])
        b = self.const(self.numbers(shape, v.a.dtype))
        if r.random() < 0.2 and v.rank == 2 and len(shape) == 2 and self.opset >= 12 and v.floats:
            return self.emit("Einsum", [v, b], v.exact, equation=r.choice(["ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk"]))
        return self.emit("MatMul", [v, b], v.exact)

    def conv(self):
        r = self.r
        v = self.pick(lambda v: v.rank in (3, 4) and min(v.shape) > 0 and v.a.dtype == F32 and not v.odd)
        n, c = v.rank - 2, v.shape[1]
        kernel = [r.choice([1, 2, 3]) for _ in range(n)]
        attrs = {"strides": [r.choice([1, 1, 2]) for _ in range(n)], "dilations": [r.choice([1, 1, 2]) for _ in range(n)]}
        if r.random() < 0.3:
            attrs = {"auto_pad": r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]), "strides": attrs["strides"]}
        elif r.random() < 0.7:
            attrs["pads"] = [r.choice([0, 1, 2]) for _ in range(2 * n)]
        group = r.choice([g for g in (1, 1, 2, 3, c) if c % g == 0])
        out = group * r.choice([1, 2])
        if r.random() < 0.3:
            if "auto_pad" in attrs:
                attrs = {"strides": attrs["strides"]}
            if r.random() < 0.3 and 2 in attrs["strides"]:
                attrs["output_padding"] = [s - 1 for s in attrs["strides"]]
            w = self.const(self.numbers([c, out // group] + kernel, F32))
            op = "ConvTranspose"
        else:
            w = self.const(self.numbers([out, c // group] + kernel, F32))
            op = "Conv"
        b = [self.const(self.numbers((out,), F32))] if r.random() < 0.5 else []
        return self.emit(op, [v, w] + b, v.exact, group=group, **attrs)

    def pool_op(self):
        r = self.r
        v = self.pick(lambda v: v.rank in (3, 4, 5) and min(v.shape) > 0 and v.a.dtype == F32 and not v.odd)
        op = r.choice(
            ["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"]
        )
        if op.startswith("Global"):
            return self.emit(op, [v], v.exact and op == "GlobalMaxPool")
        n = v.rank - 2
        kernel = [r.choice([k for k in (1, 2, 3) if k <= d]) for d in v.shape[2:]]
        attrs = {"kernel_shape": kernel, "strides": [r.choice([1, 2]) for _ in range(n)]}
        if r.random() < 0.25:
            attrs["auto_pad"] = r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        elif r.random() < 0.7:
            attrs["pads"] = [r.randrange(k) for k in kernel] * 2
        if op != "LpPool" and r.random() < 0.3:
            attrs["ceil_mode"] = 1
        if op == "AveragePool" and r.random() < 0.5:
            attrs["count_include_pad"] = 1
        if op == "MaxPool":
            if r.random() < 0.3 and "auto_pad" not in attrs:
                attrs["dilations"] = [r.choice([1, 2]) if d > 4 else 1 for d in v.shape[2:]]
            if r.random() < 0.3:
                return self.emit(op, [v], v.exact, outputs=2, **attrs)[0] if v.exact else None
        return self.emit(op, [v], v.exact and op == "MaxPool", **attrs)

    def norm(self):
        r = self.r
        op = r.choice(
            [
                "BatchNormalization",
                "InstanceNormalization",
                "LayerNormalization",
                "GroupNormalization",
                "LRN",
                "LpNormalization",
                "MeanVarianceNormalization",
            ]
        )
        v = self.pick(lambda v: v.a.dtype == F32 and v.rank in (3, 4) and v.a.size and not v.odd and v.a.std() > 0.3)
        c = v.shape[1]

        def per_channel(n=c, least=None):
            a = self.numbers((n,), F32)
            return self.const(np.abs(np.nan_to_num(a, posinf=1, neginf=1)) + least if least else np.nan_to_num(a, posinf=1, neginf=1))

        if op == "BatchNormalization":
            return self.emit(op, [v, per_channel(), per_channel(), per_channel(), per_channel(least=0.5)], False, epsilon=1e-3)
        if op == "InstanceNormalization":
            return self.emit(op, [v, per_channel(), per_channel()], False, epsilon=0.1)
        if op == "LayerNormalization":
            axis = r.randrange(1, v.rank)
            n = v.shape[axis:]
            return self.emit(
                op,
                [v, self.const(np.abs(self.numbers(n, F32)))] + ([self.const(self.numbers(n, F32))] if r.random() < 0.5 else []),
                False,
                axis=axis,
                epsilon=0.1,
            )
        if op == "GroupNormalization":
            g = r.choice([k for k in (1, 2, 3, c) if c % k == 0])
            n = g if self.opset < 21 else c
            return self.emit(op, [v, per_channel(n), per_channel(n)], False, num_groups=g, epsilon=0.1)
        if op == "LRN":
            return self.emit(op, [v], False, size=r.choice([1, 3, 5]), alpha=0.01, bias=1.5)
        if op == "LpNormalization":
            if not v.exact:
                raise Refused  # of one element it is the sign, which may be that of an error
            return self.emit(op, [v], False, axis=self.axis(v), p=r.choice([1, 2]))
        if v.a.std((0,) + tuple(range(2, v.rank))).min() < 0.1:
            raise Refused  # onnxruntime gives NaN for a variance of 0
        return self.emit(op, [v], False, axes=[0] + list(range(2, v.rank)))

    def resize(self):
        r = self.r
        v = self.pick(lambda v: v.a.dtype == F32 and v.rank == 4 and v.a.size and not v.odd and v.exact)
        mode = r.choice(["nearest", "linear", "linear", "cubic"])
        attrs = {
            "mode": mode,
            "coordinate_transformation_mode": r.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]),
        }
        if mode == "nearest":
            attrs["nearest_mode"] = r.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
        none = self.const(np.zeros(0, F32))
        if r.random() < 0.5:
            if attrs["coordinate_transformation_mode"] == "align_corners":  # onnxruntime rounds the length, ONNX does not
                attrs["coordinate_transformation_mode"] = "half_pixel"
            scales = self.const(np.array([1, 1, r.choice([0.5, 2, 1.5, 3]), r.choice([0.5, 2, 1, 1.25])], F32))
            if any(f != 1 and int(f * d) == d for f, d in zip((1.5, 1.25), v.shape[2:])):
                raise Refused  # onnxruntime copies where the size stays
            return self.emit("Resize", [v, none, scales], mode == "nearest", **attrs)
        sizes = self.list_of(list(v.shape[:2]) + [r.choice([1, 2, 5, 7, 12]), r.choice([1, 3, 6, 9])])
        return self.emit(
            "Resize", [v, none if self.opset < 13 else None, none if self.opset < 13 else None, sizes], mode == "nearest", **attrs
        )

    def grid(self):
        v = self.pick(lambda v: v.a.dtype == F32 and v.rank == 4 and v.a.size and not v.odd)
        grid = np.random.default_rng(self.r.randrange(1 << 30)).uniform(-1.2, 1.2, (v.shape[0], 3, 4, 2)).astype(F32)
        linear, cubic = ("linear", "cubic") if self.opset >= 20 else ("bilinear", "bicubic")
        return self.emit(
            "GridSample",
            [v, self.const(grid)],
            False,
            mode=self.r.choice([linear, "nearest", cubic]),
            padding_mode=self.r.choice(["zeros", "border", "reflection"]),
            align_corners=self.r.randrange(2),
        )

    def recurrent(self):
        r = self.r
        v = self.pick(lambda v: v.a.dtype == F32 and v.rank == 3 and v.a.size and not v.odd and max(abs(v.low), abs(v.high)) < 20)
        op, gates = r.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
        length, n, size = v.shape
        hidden, way = r.choice([1, 3, 4]), r.choice(["forward", "reverse", "bidirectional"])
        d = 2 if way == "bidirectional" else 1
        small = lambda *s: self.const(np.nan_to_num(self.numbers(s, F32), posinf=1, neginf=1) / 8)  # noqa: E731
        args = [
            v,
            small(d, gates * hidden, size),
            small(d, gates * hidden, hidden),
            small(d, 2 * gates * hidden) if r.random() < 0.6 else None,
        ]
        if r.random() < 0.4:
            args += [self.const(np.array([r.randrange(1, length + 1) for _ in range(n)], I32)), small(d, n, hidden)]
        attrs = {"linear_before_reset": r.randrange(2)} if op == "GRU" else {}
        return self.emit(op, args, False, outputs=3 if op == "LSTM" else 2, hidden_size=hidden, direction=way, **attrs)[0]

    def more(self):
        """Ops that come seldom."""
        r = self.r
        op = r.choice(
            [
                "ThresholdedRelu",
                "Shrink",
                "PRelu",
                "SoftmaxCrossEntropyLoss",
                "NegativeLogLikelihoodLoss",
                "NonMaxSuppression",
                "RoiAlign",
                "DFT",
                "STFT",
                "Det",
                "MaxUnpool",
                "CastLike",
                "DynamicQuantizeLinear",
                "Col2Im",
                "CenterCropPad",
                "HannWindow",
                "QLinearConv",
                "Loop",
                "MelWeightMatrix",
            ]
        )
        fresh = lambda *s: np.nan_to_num(self.numbers(s, F32), posinf=1, neginf=1)  # noqa: E731
        if op in ("ThresholdedRelu", "Shrink"):
            v = self.floats(exact=True)
            return self.emit(op, [v], v.exact, **({"alpha": 0.5} if op == "ThresholdedRelu" else {"lambd": 0.75, "bias": 0.25}))
        if op == "PRelu":
            v = self.floats(lambda v: v.rank)
            return self.emit(op, [v, self.const(self.numbers(r.choice([(1,), v.shape[-1:]]), v.a.dtype))], v.exact)
        if op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
            v = self.floats(lambda v: v.a.dtype == F32 and v.rank >= 2 and v.a.size and not v.odd)
            target = np.abs(self.indices(v.shape[1], (v.shape[0],) + v.shape[2:])) % v.shape[1]
            args = [v, self.const(target)] + ([self.const(np.abs(fresh(v.shape[1])) + 0.5)] if r.random() < 0.5 else [])
            return self.emit(
                op, args, False, reduction=r.choice(["none", "sum", "mean"]), **({"ignore_index": 0} if r.random() < 0.3 else {})
            )
        if op == "NonMaxSuppression":
            boxes, scores = np.abs(fresh(1, 8, 4)) * 3, np.arange(16, dtype=F32).reshape(1, 2, 8) * 7 % 17
            return self.emit(
                op,
                [
                    self.const(boxes),
                    self.const(scores.astype(F32)),
                    self.const(np.array([r.choice([2, 9])], I64)),
                    self.const(np.array([0.3], F32)),
                    self.const(np.array([1.5], F32)),
                ],
                True,
            )
        if op == "RoiAlign":
            v = self.pick(lambda v: v.a.dtype == F32 and v.rank == 4 and v.a.size and not v.odd)
            rois = np.array([[0, 0, 2, 2], [0.5, 1, 3, 2.5]], F32)
            return self.emit(
                op,
                [v, self.const(rois), self.const(np.array([0, v.shape[0] - 1], I64))],
                False,
                output_height=2,
                output_width=3,
                sampling_ratio=2,
                mode=r.choice(["avg", "max"]) if r.random() < 0.3 else "avg",
            )
        if op == "DFT":
            v = self.const(fresh(2, r.choice([4, 5, 6]), r.choice([1, 2])))
            attrs = {"inverse": r.randrange(2)} if v.shape[2] == 2 else {"onesided": r.randrange(2)}
            return self.emit(op, [v, None] + ([self.const(np.array(1, I64))] if self.opset >= 20 else []), False, **attrs)
        if op == "STFT":
            return self.emit(op, [self.const(fresh(1, 16, 1)), self.const(np.array(4, I64)), None, self.const(np.array(8, I64))], False)
        if op == "Det":
            return self.emit(op, [self.const(fresh(2, 3, 3))], False)
        if op == "MaxUnpool":
            v = self.pick(
                lambda v: v.a.dtype == F32 and v.rank == 4 and v.exact and min(v.shape) > 0 and min(v.shape[2:]) > 1 and not v.odd
            )
            y, index = self.emit("MaxPool", [v], True, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
            return self.emit(op, [y, index], True, kernel_shape=[2, 2], strides=[2, 2])
        if op == "CastLike":
            v = self.pick(lambda v: v.exact and not v.odd and -100 < v.low and v.high < 100)
            return self.emit(op, [v, self.const(np.zeros(1, r.choice([F32, F64, I64, I32])))], True)
        if op == "DynamicQuantizeLinear":
            v = self.const((np.arange(12) * 8 - 24).astype(F32))
            return self.emit(op, [v], False, outputs=3)[0] and None
        if op == "Col2Im":
            return self.emit(op, [self.const(fresh(1, 8, 9)), self.list_of([4, 4]), self.list_of([2, 2])], True)
        if op == "CenterCropPad":
            v = self.floats(lambda v: v.rank == 2)
            return self.emit(op, [v, self.list_of([r.choice([1, 4, 7]), r.choice([2, 5])])], v.exact)
        if op == "HannWindow":
            return self.emit(
                r.choice([op, "HammingWindow", "BlackmanWindow"]),
                [self.const(np.array(r.choice([4, 9]), I64))],
                False,
                periodic=r.randrange(2),
            )
        if op == "QLinearConv":
            v = self.pick(lambda v: v.a.dtype == U8 and v.rank == 4 and min(v.shape) > 0)
            half, zero = self.const(np.array(0.5, F32)), self.const(np.array(1, U8))
            w = self.const(self.numbers((2, v.shape[1], 1, 1), U8))
            return self.emit(op, [v, half, zero, w, half, zero, half, zero, self.const(np.array([1, -2], I32))], True)
        if op == "MelWeightMatrix":
            return self.emit(
                op, [self.const(np.array(k, I64)) for k in (4, 16, 8000)] + [self.const(np.array(k, F32)) for k in (0, 4000)], False
            )
        v = self.pick(lambda v: v.a.dtype == I64 and 0 < v.a.size < 50)  # a loop over a value that grows
        p = self.name()
        body = helper.make_graph(
            [helper.make_node("Concat", [p + "x", p + "x"], [p + "y"], axis=0), helper.make_node("Identity", [p + "c"], [p + "d"])],
            p,
            [
                helper.make_tensor_value_info(p + "i", T.INT64, []),
                helper.make_tensor_value_info(p + "c", T.BOOL, []),
                helper.make_tensor_value_info(p + "x", T.INT64, None),
            ],
            [helper.make_tensor_value_info(p + "d", T.BOOL, []), helper.make_tensor_value_info(p + "y", T.INT64, None)],
        )
        return self.emit("Loop", [self.const(np.array(r.randrange(4), I64)), self.const(np.array(True)), v], True, body=body)

    # ---- integers with scales ----
    def quantised(self):
        r = self.r
        kind = r.randrange(6)
        zero = self.const(np.array(r.choice([0, 3]), r.choice([I8, U8])))
        scale = self.const(np.array(r.choice([0.125, 0.25, 0.5]), F32))
        if kind == 0:
            v = self.pick(lambda v: v.a.dtype == F32 and v.exact and not v.odd)
            return self.emit("QuantizeLinear", [v, scale, zero], True)
        if kind == 1:
            v = self.pick(lambda v: v.a.dtype in (I8, U8))
            return self.emit("DequantizeLinear", [v, scale, self.const(np.array(2, v.a.dtype))], True)
        if kind == 2 and self.opset >= 13:
            v = self.pick(lambda v: v.a.dtype == F32 and v.exact and not v.odd and v.rank > 1 and v.a.size)
            axis = self.axis(v)
            n = v.shape[axis]
            return self.emit(
                "QuantizeLinear",
                [
                    v,
                    self.const(np.array([r.choice([0.125, 0.25, 0.5]) for _ in range(n)], F32)),
                    self.const(np.array([r.choice([0, 3]) for _ in range(n)], I8)),
                ],
                True,
                axis=axis,
            )
        if kind == 3:
            v = self.pick(lambda v: v.a.dtype in (I8, U8) and v.rank == 2 and v.a.size)
            b = self.const(self.numbers((v.shape[1], 3), r.choice([I8, U8])))
            return self.emit("MatMulInteger", [v, b, self.const(np.array(1, v.a.dtype)), self.const(np.array(2, b.a.dtype))], True)
        if kind == 4:
            v = self.pick(lambda v: v.a.dtype == U8 and v.rank == 4 and min(v.shape) > 1)
            b = self.const(self.numbers((2, v.shape[1], 2, 2), U8))
            return self.emit("ConvInteger", [v, b, self.const(np.array(1, U8))], True, pads=[1, 0, 1, 0])
        v = self.pick(lambda v: v.a.dtype in (I8, U8) and v.rank == 2 and v.a.size)
        b = self.const(self.numbers((v.shape[1], 3), v.a.dtype))
        half = self.const(np.array(0.5, F32))
        return self.emit(
            "QLinearMatMul",
            [
                v,
                half,
                self.const(np.array(1, v.a.dtype)),
                b,
                half,
                self.const(np.array(0, b.a.dtype)),
                half,
                self.const(np.array(4, v.a.dtype)),
            ],
            True,
        )

    # ---- control flow ----
    def branch(self, v, op, name):
        out = "%s_%s" % (name, op)
        k = numpy_helper.from_array(np.array(2, v.a.dtype), out + "k")
        return helper.make_graph([helper.make_node(op, [v.name, out + "k"], [out])], out, [], [onnx.ValueInfoProto(name=out)], [k])

    def condition(self):
        v = self.pick(lambda v: v.a.dtype == F32 and v.a.size)
        c = self.pick(lambda v: v.a.dtype == BOOL and v.a.size == 1)
        name = self.name()
        return self.emit(
            "If",
            [c],
            v.exact,
            then_branch=self.branch(v, self.r.choice(["Add", "Mul"]), name + "t"),
            else_branch=self.branch(v, self.r.choice(["Sub", "Max"]), name + "e"),
        )

    def loop(self):
        r = self.r
        v = self.pick(lambda v: v.a.dtype == F32 and 0 < v.a.size <= 300 and max(abs(v.low), abs(v.high)) < 100)
        p, turns = self.name(), r.choice([0, 1, 2, 3, 9, 12])
        shape = list(v.shape) if r.random() < 0.5 else None
        nodes = [
            helper.make_node("Add", [p + "x", v.name], [p + "y"]),
            helper.make_node("Identity", [p + "c"], [p + "d"]),
            helper.make_node("Cast", [p + "i"], [p + "f"], to=T.FLOAT),
            helper.make_node("Mul", [p + "y", p + "f"], [p + "z"]),
        ]
        if r.random() < 0.3:
            nodes[1] = helper.make_node("Less", [p + "f", p + "limit"], [p + "d"])
        body = helper.make_graph(
            nodes,
            p,
            [
                helper.make_tensor_value_info(p + "i", T.INT64, []),
                helper.make_tensor_value_info(p + "c", T.BOOL, []),
                helper.make_tensor_value_info(p + "x", T.FLOAT, shape),
            ],
            [
                helper.make_tensor_value_info(p + "d", T.BOOL, []),
                helper.make_tensor_value_info(p + "y", T.FLOAT, shape),
                helper.make_tensor_value_info(p + "z", T.FLOAT, shape),
            ],
            [numpy_helper.from_array(np.array(3, F32), p + "limit")],
        )
        m = (
            self.const(np.array(turns, I64))
            if r.random() < 0.7
            else self.pick(lambda w: w.a.dtype == I64 and w.rank == 0 and 0 <= w.high <= 12)
        )
        return self.emit("Loop", [m, self.const(np.array(True)), v], v.exact, outputs=2, body=body)[0]

    def scan(self):
        v = self.pick(lambda v: v.a.dtype == F32 and v.rank >= 2 and 0 < v.a.size <= 500 and max(abs(v.low), abs(v.high)) < 100)
        p = self.name()
        rest = list(v.shape[1:])
        tensor = helper.make_tensor_value_info
        body = helper.make_graph(
            [helper.make_node("Add", [p + "s", p + "x"], [p + "t"]), helper.make_node("Mul", [p + "t", p + "x"], [p + "y"])],
            p,
            [tensor(p + "s", T.FLOAT, rest), tensor(p + "x", T.FLOAT, rest)],
            [tensor(p + "t", T.FLOAT, rest), tensor(p + "y", T.FLOAT, rest)],
        )
        s = self.const(np.nan_to_num(self.numbers(rest, F32), posinf=1, neginf=1))
        back = {"scan_input_directions": [1], "scan_output_directions": [1]} if self.r.random() < 0.4 else {}
        return self.emit("Scan", [s, v], v.exact, outputs=2, body=body, num_scan_inputs=1, **back)[0]

    KINDS = [
        "unary_exact",
        "unary_smooth",
        "unary_smooth",
        "binary",
        "binary",
        "binary",
        "compare",
        "where",
        "modulo",
        "bits",
        "cast",
        "cast",
        "clip",
        "reshape",
        "reshape_computed",
        "shape_values",
        "view",
        "view",
        "view",
        "slice",
        "slice",
        "join",
        "split",
        "gather",
        "gather",
        "scatter",
        "pad",
        "by_order",
        "by_order",
        "reduce",
        "reduce",
        "softmax",
        "matmul",
        "matmul",
        "conv",
        "conv",
        "pool_op",
        "norm",
        "resize",
        "grid",
        "recurrent",
        "quantised",
        "quantised",
        "condition",
        "loop",
        "scan",
        "more",
        "more",
    ]

    def make(self):
        want = self.r.randrange(5, 41)
        for _ in range(self.r.randrange(2, 5)):
            self.new_input()
        for _ in range(40 * want):
            if len(self.nodes) >= want:
                break
            before = len(self.init)
            if self.r.random() < 0.04 and len(self.inputs) < 10:
                self.new_input()
            try:
                getattr(self, self.r.choice(self.KINDS))()
            except Refused:
                if len(self.nodes) == 0:
                    del self.init[before:]
        return self

    def model(self):
        sizes = self.r.random() < 0.5
        ins = [
            info(v.name, v.a, ["n%d_%d" % (k, i) if sizes and self.r.random() < 0.5 else d for i, d in enumerate(v.shape)])
            for k, v in enumerate(self.inputs)
        ]
        outs = [info(v.name, v.a, [None] * v.rank) for v in self.outputs]
        used = {i for n in self.nodes for i in n.input}
        g = helper.make_graph(self.nodes, "random", ins, outs, [t for t in self.init if t.name in used])
        return helper.make_model(g, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def write_case(folder, number, model, inputs, outputs, cases):
    at = f"{folder}/{number}"
    os.makedirs(at, exist_ok=True)
    onnx.save(model, f"{at}/model.onnx")
    for kind, values in (("in", inputs), ("out", outputs)):
        for k, a in enumerate(values):
            np.save(f"{at}/{kind}{k}.npy", np.ascontiguousarray(a).reshape(a.shape))
    ops = model.graph.node
    cases.write(
        f"{number} graph{number}_{len(ops)}_{ops[0].op_type if len(ops) == 1 else 'ops'} {len(inputs)} {len(outputs)} 1e-3 1e-3 scaled\n"
    )


def write(folder, n, seed):
    os.makedirs(folder, exist_ok=True)
    count = {}
    with open(f"{folder}/cases.txt", "w") as cases:
        number = 0
        while number < n:
            g = Graph(seed)
            seed += 1
            g.make()
            if len(g.nodes) < 5:
                continue
            m = g.model()
            try:
                got = session(m).run(None, {v.name: v.a for v in g.inputs})
            except Exception as e:  # what is fine node by node may be refused as a whole
                print("seed", seed - 1, "is refused:", str(e)[:200])
                continue
            for node in g.nodes:
                count[node.op_type] = count.get(node.op_type, 0) + 1
            write_case(folder, number, m, [v.a for v in g.inputs], got, cases)
            number += 1
    print(n, "graphs,", sum(count.values()), "nodes of", len(count), "ops")


# ---- a graph that differs, made small ----
def needed(model, name):
    """The nodes that a value needs."""
    maker = {o: n for n in model.graph.node for o in n.output}
    found, todo = [], [name]
    while todo:
        n = maker.get(todo.pop())
        if n is None or n in found:
            continue
        found.append(n)
        inner = [i for a in n.attribute if a.type == a.GRAPH for x in a.g.node for i in x.input]
        todo += list(n.input) + inner
    return [n for n in model.graph.node if n in found]


def part(model, nodes, values, outputs):
    """These nodes alone; what others made are inputs with the recorded values."""
    made = {o for n in nodes for o in n.output}
    inner = lambda n: [i for a in n.attribute if a.type == a.GRAPH for x in a.g.node for i in x.input]  # noqa: E731
    reads = [i for n in nodes for i in list(n.input) + inner(n)]
    init = [t for t in model.graph.initializer if t.name in reads]
    known = {t.name for t in init}
    ins = list(dict.fromkeys(i for i in reads if i and i in values and i not in made and i not in known))
    g = helper.make_graph(nodes, "part", [info(i, values[i]) for i in ins], [onnx.ValueInfoProto(name=o) for o in outputs], init)
    m = helper.make_model(g, opset_imports=model.opset_import, ir_version=8)
    inputs = [values[i] for i in ins]
    return m, inputs, session(m).run(None, dict(zip(ins, inputs)))


def differs(program, m, inputs, outputs, folder):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/cases.txt", "w") as cases:
        write_case(folder, 0, m, inputs, outputs, cases)
    p = subprocess.run([program, folder], capture_output=True, text=True)
    return p.stdout.split("\n")[0] if not p.stdout.startswith("1 agree") else ""


def minimise(program, folder, number):
    at = f"{folder}/{number}"
    m = onnx.load(f"{at}/model.onnx")
    values = {v.name: np.load(f"{at}/in{k}.npy") for k, v in enumerate(m.graph.input)}
    values.update({v.name: np.load(f"{at}/out{k}.npy") for k, v in enumerate(m.graph.output)})
    tried = f"{folder}/minimised"
    told = best = None
    for v in m.graph.output:  # the first value that is wrong when it is the only output
        nodes = needed(m, v.name)
        if len(nodes) == 0:
            continue
        try:
            case = part(m, nodes[-1:], values, [v.name])
            told = differs(program, *case, tried)
            if told:
                best = case
                break
        except Exception as e:
            print("not alone:", v.name, str(e)[:100])
    if best is None:  # no node is wrong alone
        for v in m.graph.output:
            nodes = needed(m, v.name)
            case = part(m, nodes, values, [v.name])
            told = differs(program, *case, tried)
            if not told:
                continue
            best = case
            for n in list(nodes):
                less = [x for x in nodes if x is not n]
                try:
                    case = part(m, less, values, [v.name])
                    now = differs(program, *case, tried)
                except Exception:
                    continue
                if now:
                    nodes, best, told = less, case, now
            break
    if best is None:
        return print(number, "agrees in all its parts")
    differs(program, *best, tried)
    print(number, told)
    print(onnx.printer.to_text(best[0])[:3000])
    for a in best[1]:
        print(a.dtype, a.shape, a.reshape(-1)[:12])


if __name__ == "__main__":
    if sys.argv[1] == "-min":
        minimise(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        write(sys.argv[1], int((sys.argv + [0, 100])[2] or 100), int((sys.argv + [0, 0, 1])[3] or 1) * 1000000)
