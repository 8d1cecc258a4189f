#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shares memory with NumPy and PyTorch by DLPack, both ways:  python3 test/dlpack.py build

Without NumPy it is skipped; PyTorch is asked if it is there."""
import ctypes as C, gc, sys
try:
    import numpy as np
except ImportError:
    print("SKIP dlpack: no numpy\n0 passed, 0 failed, 1 skipped")
    sys.exit()
try:
    import torch
except ImportError:
    torch = None
lib = C.CDLL(f"{sys.argv[1]}/libtj.so", mode=C.RTLD_GLOBAL)
kit = C.CDLL(f"{sys.argv[1]}/libtjkit.so")
P, SITE = C.c_void_p, b"dlpack.py:1"
for f, args in {(lib, "tj_open"): [P], (lib, "tj_data_at"): [C.c_char_p, P], (lib, "tj_from_data_at"): [C.c_char_p, P, C.c_int, P, P],
                (kit, "tj_to_dlpack_at"): [C.c_char_p, P], (kit, "tj_to_dlpack_legacy_at"): [C.c_char_p, P],
                (kit, "tj_from_dlpack_at"): [C.c_char_p, P, P], (kit, "tj_from_dlpack_legacy_at"): [C.c_char_p, P, P],
                (lib, "tj_push_at"): [C.c_char_p, P], (lib, "tj_square_at"): [C.c_char_p, P]}.items():
    getattr(*f).argtypes, getattr(*f).restype = args, P
lib.tj_pop_at.argtypes = [C.c_char_p, P]
lib.tj_check.argtypes = lib.tj_close.argtypes = [P]
lib.tj_numel.argtypes, lib.tj_numel.restype = [P], C.c_int64
py = C.pythonapi
py.PyCapsule_New.argtypes, py.PyCapsule_New.restype = [P, C.c_char_p, P], C.py_object
py.PyCapsule_GetPointer.argtypes, py.PyCapsule_GetPointer.restype = [C.py_object, C.c_char_p], P
py.PyCapsule_SetName.argtypes = [C.py_object, C.c_char_p]
NAME = {True: b"dltensor_versioned", False: b"dltensor"}
c = lib.tj_open(None)
passed = failed = 0
def check(ok, what):
    global passed, failed
    ok = ok and lib.tj_check(c) == 0
    passed, failed = passed + ok, failed + (not ok)
    if not ok: print("FAIL", what)

class Ours:  # what a consumer asks
    def __init__(self, t): self.t = t
    def __dlpack_device__(self): return (1, 0)
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        new = max_version is not None and max_version[0] >= 1
        m = (kit.tj_to_dlpack_at if new else kit.tj_to_dlpack_legacy_at)(SITE, self.t)
        return py.PyCapsule_New(m, NAME[new], None)

def tensor(dtype, shape, data):
    return lib.tj_from_data_at(SITE, c, dtype, (C.c_int64 * (len(shape) + 1))(*shape, -2**63), data.ctypes.data)
def give(theirs, new):  # a tensor of ours over an array of theirs
    capsule = theirs.__dlpack__(max_version=(1, 0)) if new else theirs.__dlpack__()
    name = NAME[b"versioned" in repr(capsule).encode()]
    f = kit.tj_from_dlpack_at if name == NAME[True] else kit.tj_from_dlpack_legacy_at
    t = f(SITE, c, py.PyCapsule_GetPointer(capsule, name))
    py.PyCapsule_SetName(capsule, b"used_" + name)
    return t
def read(t, like): return np.frombuffer(C.string_at(lib.tj_data_at(SITE, t), like.nbytes), like.dtype).reshape(like.shape)

DTYPES = {0: np.bool_, 1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.float16, 8: np.float32, 9: np.float64}
def both(name, take, make):
    for number, d in DTYPES.items():
        a = (np.arange(24).reshape(2, 3, 4) % 7 - 2).astype(d)
        s = lib.tj_push_at(SITE, c)
        t = tensor(number, a.shape, a)
        where = lib.tj_data_at(SITE, t)
        b = take(Ours(t))
        check((np.asarray(b) == a).all() and np.asarray(b).dtype == a.dtype, f"{name} reads {d.__name__}")
        lib.tj_pop_at(SITE, s)
        check((np.asarray(b) == a).all(), f"{name} keeps {d.__name__}")
        del b
        gc.collect()
        for new in (True, False):
            for view in (lambda x: x, lambda x: x[:, ::2, 1:], lambda x: x[0, 0, 0]):
                s = lib.tj_push_at(SITE, c)
                theirs = make(a)
                part = view(theirs)
                want = np.ascontiguousarray(np.asarray(part)) if np.asarray(part).ndim else np.asarray(part)
                t = give(part, new) if hasattr(part, "__dlpack__") else give(np.asarray(part), new)
                del theirs, part
                gc.collect()
                check(lib.tj_numel(t) == want.size and (read(t, want) == want).all(), f"{name} gives {d.__name__}")
                lib.tj_pop_at(SITE, s)
both("numpy", np.from_dlpack, lambda a: a.copy())
if torch: both("torch", lambda o: torch.from_dlpack(o), lambda a: torch.from_numpy(a.copy()))
a = np.arange(6, dtype=np.float32)
t = tensor(8, (6,), a)
b = np.from_dlpack(Ours(t))
check(b.ctypes.data == lib.tj_data_at(SITE, t) and not b.flags.writeable, "numpy shares memory, read only")
del b
gc.collect()
lib.tj_close(c)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed != 0)
