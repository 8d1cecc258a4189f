# SPDX-License-Identifier: MIT
"""Runs the files that onnx-out wrote in ONNX Runtime, and compares with the results that it recorded.

  python3 test/models/out.py FOLDER [WORD]

Each model must pass onnx.checker and load; its results must be those of tjit: integers and bool exactly, floats within some units of the
last place, since each library has its own exp(). What ONNX Runtime has no kernel for (some functions in f64) is counted, not compared.
"""
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper

warnings.filterwarnings("ignore")
# a unit of the last place, the most units, and how far results near 0 may be off: ONNX Runtime's sigmoid is good to 1e-7, not to an ulp
UNITS = {"float32": (2.0**-23, 1e9, 4e-6), "float64": (2.0**-52, 1e9, 1e-13),
         "float16": (2.0**-10, 4, 1e-5), "bfloat16": (2.0**-7, 4, 1e-5)}

# what ONNX Runtime computes less exactly than tjit: more units
LESS = {"glu": 1e5, "silu": 1e5, "layer_norm": 512}
# what it computes otherwise: it multiplies and adds up i64 in f64; infinite elements of log_softmax and of weights
OTHER = [("prod", "i"), ("prod", "u8"), ("log_softmax", "f"), ("glu", "i"), ("conv_transpose", "f")]
CHAOTIC = 0.03  # of the random graphs: a sine or a remainder of large numbers makes much of a rounding


def widen(model):
    """NumPy has no bf16: inputs and outputs of that dtype become f32, which holds all of its values."""
    graph, before, after, dtypes = model.graph, [], [], []
    for v in graph.input:
        if v.type.tensor_type.elem_type == T.BFLOAT16:
            before.append(helper.make_node("Cast", [v.name + "/wide"], [v.name], to=T.BFLOAT16))
            v.name += "/wide"
            v.type.tensor_type.elem_type = T.FLOAT
    for v in graph.output:
        dtypes.append("bfloat16" if v.type.tensor_type.elem_type == T.BFLOAT16 else None)
        if dtypes[-1]:
            after.append(helper.make_node("Cast", [v.name], [v.name + "/wide"], to=T.FLOAT))
            v.name += "/wide"
            v.type.tensor_type.elem_type = T.FLOAT
    nodes = before + list(graph.node) + after
    del graph.node[:]
    graph.node.extend(nodes)
    return dtypes


def load(path):
    a = np.load(path)
    if a.dtype.kind == "V":
        a = (np.atleast_1d(a).view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(a.shape)
    return a


def differs(got, want, dtype, ulps):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        bad = got != want
    else:
        unit, most, near_zero = UNITS[dtype or want.dtype.name]
        p, q = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.abs(p - q) <= min(ulps, most) * unit * np.abs(q) + near_zero
        bad = ~((p == q) | (np.isnan(p) & np.isnan(q)) | near)
    if not bad.any():
        return ""
    k = tuple(i[0] for i in np.nonzero(bad)) if bad.ndim else ()
    return f"element {list(map(int, k))} is {got[k]}, not {want[k]}"


def run(folder, number, nin, nout, ulps):
    model = onnx.load(f"{folder}/{number}/model.onnx")
    onnx.checker.check_model(model)
    dtypes = widen(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    except Exception as e:
        if "NOT_IMPLEMENTED" in str(e):
            return "none", str(e).split("for the node ")[-1][:60]
        raise
    inputs = {v.name: load(f"{folder}/{number}/in{k}.npy") for k, v in enumerate(session.get_inputs())}
    for k, got in enumerate(session.run(None, inputs)):
        why = differs(np.asarray(got), load(f"{folder}/{number}/out{k}.npy"), dtypes[k], ulps)
        if why:
            return "differs", f"output {k}: {why}"
    return "agrees", ""


def main(folder, word=""):
    count = {"agrees": 0, "differs": 0, "none": 0, "fails": 0}
    missing, known, graphs, odd = {}, 0, 0, 0
    for line in open(f"{folder}/cases.txt"):
        number, nin, nout, ulps, name = line.rstrip("\n").split(" ", 4)
        if word not in name:
            continue
        op, dtype = name.split(" ")[:2]
        allowed = max(float(ulps), 4096 if op == "graph" else LESS.get(op, 32))
        try:
            how, why = run(folder, int(number), int(nin), int(nout), allowed)
        except Exception as e:  # the runtime tells in many ways
            how, why = "fails", str(e).replace("\n", " ")[:300]
        count[how] += 1
        graphs += op == "graph"
        odd += op == "graph" and how == "differs"
        if how == "none":
            missing[why] = missing.get(why, 0) + 1
        elif how == "differs" and any(op == o and dtype.startswith(d) for o, d in OTHER):
            known += 1
        elif how != "agrees":
            print(f"{how.upper()} {number} {name}: {why}", flush=True)
    for why in sorted(missing, key=missing.get, reverse=True)[:20]:
        print(f"no kernel, {missing[why]} times: {why}")
    print("{agrees} agree, {differs} differ, ".format(**count) + f"{known} of them as known, {odd} of {graphs} random graphs, " +
          "{fails} fail, {none} have no kernel in ONNX Runtime".format(**count))
    return count["fails"] > 0 or count["differs"] > known + odd or odd > CHAOTIC * graphs


sys.exit(main(*sys.argv[1:]))
