#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/kit/recorded_gguf.inc: a file of the package gguf with all types, and a hash of what it makes of each tensor.

    python3 test/kit/record_gguf.py >test/kit/recorded_gguf.inc        needs gguf and numpy
    python3 test/kit/record_gguf.py FILE                               prints name, type, shape and hash of the tensors of a file
"""
import importlib.metadata, sys, tempfile
import numpy as np
from gguf import GGUFReader, GGUFWriter, GGMLQuantizationType as T, GGUFValueType as V
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

def fnv(v):
    h = 0xcbf29ce484222325
    for b in v: h = (h ^ b) * 0x100000001b3 % 2**64
    return h
HALF = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "Q2_K": [80, 82], "Q3_K": [108],
        "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}  # where a block has f16
def blocks(r, name, n):
    size, bytes_ = GGML_QUANT_SIZES[T[name]]
    v = r.integers(0, 256, (n, bytes_), dtype=np.uint8)
    for at in HALF[name]:
        v[:, at:at + 2] = (r.standard_normal(n).astype(np.float16) / np.float16(8)).reshape(n, 1).view(np.uint8)
    return v
def written(path):
    r = np.random.default_rng(3)
    w = GGUFWriter(path, "test")
    w.add_uint8("u8", 200); w.add_int8("i8", -100); w.add_uint16("u16", 60000); w.add_int16("i16", -30000)
    w.add_uint32("u32", 4000000000); w.add_int32("i32", -2000000000); w.add_float32("f32", 0.1); w.add_bool("bool", True)
    w.add_string("text", "Grüße 😀"); w.add_uint64("u64", 2**64 - 1); w.add_int64("i64", -2**62); w.add_float64("f64", 0.1)
    w.add_array("texts", ["a", "", "ccc"]); w.add_array("ints", [1, -2, 3]); w.add_array("floats", [0.5, -1.5])
    w.add_array("bools", [True, False])
    for t in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        w.add_tensor(np.dtype(t).name, (np.arange(6).reshape(2, 3) - 2).astype(t))
    w.add_tensor("bfloat16", np.array([[0x3F80, 0xC000, 0x7F80]], dtype=np.uint16).view(np.uint8), raw_dtype=T.BF16)
    for name in HALF:
        n = 2 if name.endswith("K") else 6
        v = blocks(r, name, n)
        w.add_tensor(name, v.reshape(2, -1), raw_dtype=T[name])
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def made():  # some rows are all zeros, and some have very small numbers
    i = np.arange(64 * 32)
    x = ((i * 7919 + 17) % 241 - 120).astype(np.float32) / np.float32(100)
    return np.where(i % 512 < 32, np.float32(0), np.where(i % 512 < 64, x * np.float32(1e-6), x)).astype(np.float32).reshape(8, 256)

def report(path):
    for t in GGUFReader(path).tensors:
        x = dequantize(t.data, t.tensor_type) if t.tensor_type not in (T.I8, T.I16, T.I32, T.I64, T.F64) else t.data
        if t.tensor_type == T.F16: x = t.data
        yield t.name, t.tensor_type.name, [int(d) for d in reversed(t.shape)], fnv(np.ascontiguousarray(x).tobytes())

if len(sys.argv) > 1:
    for line in report(sys.argv[1]): print(*line[:2], ",".join(map(str, line[2])), f"{line[3]:016x}")
    sys.exit()
with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
    written(f.name)
    data = open(f.name, "rb").read()
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Written by test/kit/record_gguf.py: gguf {importlib.metadata.version('gguf')}. */")
    print("static const unsigned char recorded[] = {")
    for i in range(0, len(data), 32): print("\t" + ",".join(map(str, data[i:i + 32])) + ",")
    print("};")
    print("static const struct { const char *name, *type; unsigned long long hash; } recorded_hash[] = {")
    for name, type_, shape, h in report(f.name): print(f'\t{{ "{name}", "{type_}", 0x{h:016x} }},')
    print("};")
    for name in ("Q8_0", "Q4_0"):
        print(f"static const unsigned long long written_{name.lower()} = 0x{fnv(quantize(made(), T[name]).tobytes()):016x};")
