# SPDX-License-Identifier: MIT
"""Changes ONNX's node cases at random and runs them: nothing may crash, hang, or take memory without measure.

  python3 test/models/mutate.py PROGRAM CASES [N [SEED [FOLDER]]]

PROGRAM is mutate.c under sanitizers, CASES the folder of cases.py. A change is one of a message: an input is left out, doubled or
another value; an attribute has another value, length or type; a tensor another shape or dtype; inputs become constants, so that the host
computes; a node becomes a function whose attributes are those of its call. Models that end the program are kept in FOLDER (/tmp/mutated),
with what the program said, one for each place of the code.
"""

import glob
import os
import random
import re
import struct
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

np.seterr(all="ignore")
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    -2,
    -3,
    64,
    100,
    255,
    1 << 15,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    1 << 32,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
]
FLOATS = [0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -1e30, float("nan"), float("inf"), float("-inf"), 1e-7, 3.0]
WORDS = [
    "",
    "add",
    "mul",
    "max",
    "min",
    "none",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "NOTSET",
    "linear",
    "nearest",
    "cubic",
    "floor",
    "ceil",
    "reflect",
    "edge",
    "wrap",
    "constant",
    "reverse",
    "bidirectional",
    "forward",
    "half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "pytorch_half_pixel",
    "not_larger",
    "not_smaller",
    "LEFT",
    "RIGHT",
    "CRD",
    "DCR",
    "tanh",
    "Sigmoid",
    "Affine",
    "ij,jk->ik",
    "...i->...",
    "i->ii",
    "border",
    "zeros",
    "sum",
    "mean",
    "avg",
    "gated_delta",
    "delta",
    "linear",
]
DTYPES = [T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.INT8, T.UINT8, T.INT16, T.INT32, T.INT64, T.BOOL, T.STRING, T.UINT16]
SIZES = [0, 1, 1, 2, 2, 3, 4, 5, 8, 17]


class Mutator:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def number(self):
        return self.r.choice(NUMBERS[:15]) if self.r.random() < 0.6 else self.r.choice(NUMBERS)

    def array(self, a):
        """Another shape, dtype or other values."""
        r = self.r
        how = r.randrange(6)
        if how == 0 or a.dtype == object:
            shape = [r.choice(SIZES) for _ in range(r.choice([0, 1, 1, 2, 3, 4, 5]))]
            a = np.asarray(r.choice([0, 1, 2, -1, 0.5])) * np.ones(shape)
        elif how == 1:
            a = a.astype(r.choice([np.float32, np.float64, np.int64, np.int32, np.uint8, np.int8, np.bool_, np.float16, np.int16]))
        elif how == 2 and a.size:
            a = a.copy()
            flat = a.reshape(-1)
            for _ in range(r.choice([1, 1, 3])):
                v = self.number() if a.dtype.kind in "iu" else r.choice(FLOATS)
                if a.dtype.kind in "iu":
                    v = max(np.iinfo(a.dtype).min, min(np.iinfo(a.dtype).max, v))
                flat[r.randrange(flat.size)] = v
        elif how == 3:
            a = a.reshape(-1)[: r.randrange(a.size + 1)]
        elif how == 4:
            a = a[None] if r.random() < 0.5 or not a.ndim else a[..., :0]
        else:
            a = a.reshape(-1)[:1].reshape(()) if a.size else np.zeros((), a.dtype)
        if a.size > 100000:
            a = a.reshape(-1)[:7]
        if a.dtype == np.float64 and r.random() < 0.7:
            a = a.astype(np.float32 if r.random() < 0.7 else np.int64)
        return a

    def constant(self, g, name, a):
        """A value of the graph becomes known."""
        for i, v in enumerate(g.input):
            if v.name == name and self.r.random() < 0.9:
                del g.input[i]
                break
        for i, t in enumerate(g.initializer):
            if t.name == name:
                del g.initializer[i]
                break
        g.initializer.append(numpy_helper.from_array(np.ascontiguousarray(a).reshape(a.shape), name))

    def attribute(self, n):
        r = self.r
        if not n.attribute or r.random() < 0.25:
            try:
                schema = onnx.defs.get_schema(n.op_type, 28, n.domain)
                name = r.choice(sorted(schema.attributes))
            except Exception:  # no such op, or no attributes
                return
            kind = schema.attributes[name].type
            v = {
                1: r.choice(FLOATS),
                2: self.number(),
                3: r.choice(WORDS),
                6: [r.choice(FLOATS) for _ in range(r.randrange(5))],
                7: [self.number() for _ in range(r.randrange(6))],
                8: [r.choice(WORDS) for _ in range(r.randrange(4))],
            }.get(int(kind))
            for i in reversed(range(len(n.attribute))):
                if n.attribute[i].name == name:
                    del n.attribute[i]
            if v is not None:
                n.attribute.append(helper.make_attribute(name, v, attr_type=kind))
            return
        i = r.randrange(len(n.attribute))
        a = n.attribute[i]
        how = r.randrange(8)
        if how == 0:
            del n.attribute[i]
        elif how == 1:
            a.type = r.randrange(12)
        elif a.type == a.INT:
            a.i = self.number()
        elif a.type == a.FLOAT:
            a.f = r.choice(FLOATS)
        elif a.type == a.STRING:
            a.s = r.choice(WORDS).encode()
        elif a.type == a.TENSOR:
            try:
                a.t.CopyFrom(numpy_helper.from_array(self.array(numpy_helper.to_array(a.t))))
            except Exception:  # a dtype that NumPy does not have
                a.t.data_type = r.choice(DTYPES)
        elif a.type == a.GRAPH:
            self.change(a.g)
        else:
            v = a.ints if a.type == a.INTS else a.floats if a.type == a.FLOATS else a.strings
            new = self.number() if a.type == a.INTS else r.choice(FLOATS) if a.type == a.FLOATS else r.choice(WORDS).encode()
            if v and r.random() < 0.5:
                v[r.randrange(len(v))] = new
            elif v and r.random() < 0.5:
                del v[r.randrange(len(v)) :]
            else:
                v.append(new)

    def ends(self, n, names):
        r = self.r
        ends = n.input if r.random() < 0.7 else n.output
        names = names + [""]
        how = r.randrange(6)
        if how == 0 and ends:
            del ends[r.randrange(len(ends))]
        elif how == 1 and ends:
            ends[r.randrange(len(ends))] = ""
        elif how == 2:
            ends.append(r.choice(names) if ends is n.input else "more%d" % r.randrange(9))
        elif how == 3 and len(ends) > 1:
            i, j = r.randrange(len(ends)), r.randrange(len(ends))
            ends[i], ends[j] = ends[j], ends[i]
        elif ends is n.input and ends:
            ends[r.randrange(len(ends))] = r.choice(names)

    def value(self, v):
        """Another type of an input or output."""
        r = self.r
        t = v.type.tensor_type
        how = r.randrange(5)
        dims = t.shape.dim
        if how == 0:
            t.elem_type = r.choice(DTYPES)
        elif how == 1 and dims:
            d = dims[r.randrange(len(dims))]
            if r.random() < 0.3:
                d.dim_param = "n"
            else:
                d.dim_value = r.choice(SIZES) if r.random() < 0.8 else self.number()
        elif how == 2 and dims:
            del dims[r.randrange(len(dims))]
        elif how == 3:
            dims.add().dim_value = r.choice(SIZES)
        else:
            t.ClearField("shape")

    def change(self, g):
        r = self.r
        how = r.randrange(10)
        names = [v.name for v in g.input] + [t.name for t in g.initializer] + [o for n in g.node for o in n.output if o]
        if how < 4 and g.node:
            self.attribute(r.choice(g.node))
        elif how < 6 and g.node:
            self.ends(r.choice(g.node), names)
        elif how == 6 and len(g.input) + len(g.output):
            self.value(r.choice(list(g.input) + list(g.output)))
        elif how == 7 and g.initializer:
            t = r.choice(g.initializer)
            if r.random() < 0.3:
                t.data_type = r.choice(DTYPES)
            else:
                try:
                    self.constant(g, t.name, self.array(numpy_helper.to_array(t)))
                except Exception:
                    t.data_type = r.choice(DTYPES)
        elif how == 8 and g.node:
            n = r.choice(g.node)
            n.op_type = r.choice(self.ops) if r.random() < 0.7 else r.choice(["If", "Loop", "Scan", "Identity", "Resize", "Split"])
        else:
            ends = g.input if r.random() < 0.5 else g.output
            if ends and r.random() < 0.5:
                del ends[r.randrange(len(ends))]
            elif ends:
                ends.append(r.choice(ends))
            elif names:
                g.output.append(helper.make_tensor_value_info(r.choice(names), T.FLOAT, None))

    def function(self, m):
        """A node becomes a call of a function whose node takes its attributes from the call."""
        g = m.graph
        if not g.node:
            return
        n = self.r.choice(g.node)
        inner = onnx.NodeProto()
        inner.CopyFrom(n)
        f = helper.make_function("f", "F", list(n.input), list(n.output), [inner], list(m.opset_import))
        for a in inner.attribute:
            kept = a.type
            name = a.name
            a.Clear()
            a.name, a.type, a.ref_attr_name = name, kept, name
        del f.node[:]
        f.node.append(inner)
        n.op_type, n.domain = "F", "f"
        m.functions.append(f)
        m.opset_import.append(helper.make_opsetid("f", 1))
        self.ends(n, [])
        for _ in range(self.r.choice([1, 2])):
            self.attribute(n)

    def mutate(self, m, inputs):
        r = self.r
        g = m.graph
        for v, a in zip(list(g.input), inputs):
            if a is not None and a.dtype != np.dtype("V2") and r.random() < self.known:
                self.constant(g, v.name, a if r.random() < 0.7 else self.array(a))
        if r.random() < 0.1:
            for o in m.opset_import:
                if o.domain in ("", "ai.onnx"):
                    o.version = r.choice([7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26])
        if r.random() < 0.1:
            self.function(m)
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            self.change(g)


def cases(folder):
    found = []
    for p in sorted(glob.glob(f"{folder}/*/model.onnx")):
        if os.path.getsize(p) > 20000:
            continue
        inputs = []
        for i in range(20):
            at = f"{os.path.dirname(p)}/in{i}.npy"
            if not os.path.exists(at):
                break
            a = np.load(at)
            inputs.append(a if a.size < 5000 else None)
        found.append((onnx.load(p), inputs))
    return found


def place(text):
    """What an error is known by: its kind and the first function of ours."""
    text = text.decode(errors="replace")
    kind = re.search(r"ERROR: AddressSanitizer: ([\w-]+)|runtime error: ([^\n]{0,60})|LeakSanitizer", text)
    ours = re.findall(r"#\d+ 0x\w+ in (\w+) [^\n]*?/((?:kit|jit|ir|lower|runtime|functions|guards)/\w+(?:/\w+)*\.c:\d+)", text)
    ours = ours or re.findall(r"()((?:kit|jit|ir|lower|runtime|functions|guards)/\w+(?:/\w+)*\.c:\d+)", text)
    return (kind.group(0) if kind else "ended"), (ours[0][0] + " " + ours[0][1] if ours else "?")


def main(program, folder, n=20000, seed=1, to="/tmp/mutated"):
    os.makedirs(to, exist_ok=True)
    all_cases = cases(folder)
    mutator = Mutator(int(seed))
    mutator.ops = sorted({n.op_type for m, _ in all_cases for n in m.graph.node})
    counts, seen, p = {}, {}, None
    for i in range(int(n)):
        source, inputs = all_cases[mutator.r.randrange(len(all_cases))]
        m = onnx.ModelProto()
        m.CopyFrom(source)
        mutator.known = mutator.r.choice([0, 0.3, 1])
        try:
            mutator.mutate(m, inputs)
            data = m.SerializeToString()
        except (ValueError, TypeError, OverflowError) as e:  # no value of that field
            counts["not made"] = counts.get("not made", 0) + 1
            continue
        if p is None:
            err = open(f"{to}/stderr", "wb+")
            p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        try:
            p.stdin.write(struct.pack("<Q", len(data)) + data)
            p.stdin.flush()
            verdict = p.stdout.read(1).decode()
        except BrokenPipeError:
            verdict = ""
        counts[verdict] = counts.get(verdict, 0) + 1
        if verdict and verdict != "b":
            continue
        key = ("memory", "") if verdict else None
        if not verdict:
            p.wait()
            err.seek(0)
            text = err.read()
            key = ("too long", ",".join(x.op_type for x in m.graph.node)) if p.returncode == -14 else place(text)
            p = None
        if key not in seen:
            seen[key] = 0
            name = f"{to}/{seed}-{i}.onnx"
            open(name, "wb").write(data)
            if not verdict:
                open(name + ".txt", "wb").write(text)
            print(key, name, flush=True)
        seen[key] += 1
    if p:
        p.stdin.close()
        p.wait()
        err.seek(0)
        sys.stdout.write(err.read().decode(errors="replace")[:3000])
    print({"o": counts.get("o", 0), **counts})
    for k, c in sorted(seen.items(), key=lambda x: -x[1]):
        print(c, *k)
    return 1 if seen or (p and p.returncode) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
