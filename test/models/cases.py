# SPDX-License-Identifier: MIT
"""Writes ONNX's backend node cases as files, for test/models/suite.c.

  python3 test/models/cases.py FOLDER

Each case becomes FOLDER/N/: model.onnx, in0.npy ..., out0.npy ... of each of its data sets. FOLDER/cases.txt has a line for each case:
number, name, inputs, outputs, relative and absolute tolerance, "values" or "shapes" (random results: only their shapes are compared).
FOLDER/left.txt has the cases that need a dtype or a kind of value that tjit does not have, with the reason.
"""
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

warnings.filterwarnings("ignore")
DTYPES = {T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE, T.INT8, T.UINT8, T.INT16, T.INT32, T.INT64, T.BOOL}
RANDOM = {"Bernoulli", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal", "Multinomial"}


def wants(model):
    """What the inputs and outputs of a model need that tjit does not have."""
    found = set()
    for v in list(model.graph.input) + list(model.graph.output):
        kind = v.type.WhichOneof("value")
        if kind != "tensor_type":
            found.add(kind.replace("_type", ""))
        elif v.type.tensor_type.elem_type not in DTYPES:
            found.add(T.DataType.Name(v.type.tensor_type.elem_type).lower())
    return sorted(found)


def is_random(graph):
    return any(n.op_type in RANDOM or (n.op_type == "Dropout" and len(n.input) > 2) for n in graph.node)


def array(value):
    if isinstance(value, T):
        value = numpy_helper.to_array(value)
    value = np.asarray(value)
    if value.dtype.name == "bfloat16":  # NumPy has no such dtype: two bytes
        value = value.view("V2")
    return value


def main(folder):
    os.makedirs(folder, exist_ok=True)
    number = 0
    with open(f"{folder}/cases.txt", "w") as cases, open(f"{folder}/left.txt", "w") as left:
        for case in sorted(collect_testcases(None), key=lambda c: c.name):
            needs = wants(case.model)
            if needs:
                left.write(f"{case.name}: {', '.join(needs)}\n")
                continue
            sets = [(i, o) for i, o in case.data_sets if not any(v is None for v in list(i) + list(o))]
            if not sets:
                left.write(f"{case.name}: values that are left out\n")
                continue
            for inputs, outputs in sets:
                at = f"{folder}/{number}"
                os.makedirs(at, exist_ok=True)
                with open(f"{at}/model.onnx", "wb") as f:
                    f.write(case.model.SerializeToString())
                for name, values in (("in", inputs), ("out", outputs)):
                    for k, v in enumerate(values):
                        np.save(f"{at}/{name}{k}.npy", np.ascontiguousarray(array(v)).reshape(np.shape(array(v))))
                how = "shapes" if is_random(case.model.graph) else "values"
                cases.write(f"{number} {case.name} {len(inputs)} {len(outputs)} {case.rtol} {case.atol} {how}\n")
                number += 1
    print(f"{number} cases in {folder}")


if __name__ == "__main__":
    main(sys.argv[1])
