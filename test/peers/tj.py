# SPDX-License-Identifier: MIT
"""libtj from Python, for tests that compare it with other libraries. Reads the declarations of include/tj.h, so it has every function of
it.

    import tj
    c = tj.Context()
    y = tj.add(tj.tensor(c, "f32", (2, 3), address), 0.5)     # tj_add_at(); numbers become handles
    v, i = tj.sort(y, -1, False)                              # results that C takes as pointers are returned, too
    y = tj.conv2d(x, w, None, stride=[2, 2])                  # names are fields of the options
    f = tj.compile(lambda x: tj.exp(x), nin=1, nout=1, mode=tj.DIRECT)

An error raises tj.Error with the message and the hint."""
import ctypes as C
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
lib = C.CDLL(os.path.join(BUILD, "libtj.so"))

VERIFY, DIRECT = 0, 1
AUTO, OFF, ON = 0, 1, 2
DTYPES = ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"]
SIZE = dict(bool=1, u8=1, i8=1, i16=2, i32=4, i64=8, f16=2, bf16=2, f32=4, f64=8)
END_DIM, END = -(1 << 63), 8
BODY = C.CFUNCTYPE(None, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p), C.c_void_p)
SITE = b"peers"


class Error(Exception):
    def __init__(self, code, op, message, hint):
        super().__init__(f"{op}: {message}" + (f" ({hint})" if hint else ""))
        self.code, self.op = code, op


class Tensor:
    __slots__ = ("handle",)

    def __init__(self, handle):
        self.handle = handle

    rank = property(lambda t: lib.tj_rank(t.handle))
    shape = property(lambda t: tuple(lib.tj_dim(t.handle, i) for i in range(t.rank)))
    dtype = property(lambda t: DTYPES[lib.tj_dtype_of(t.handle)])
    numel = property(lambda t: lib.tj_numel(t.handle))

    def read(self, address):
        """Writes the elements to memory of the right size, row-major."""
        done(lib.tj_read_at(SITE, self.handle, address, self.numel * SIZE[self.dtype]))


# ---- the header ----
def declarations():
    text = open(os.path.join(ROOT, "include", "tj.h")).read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    return re.sub(r"^#.*$", "", text, flags=re.M)


SCALARS = {"int": C.c_int, "int64_t": C.c_int64, "uint64_t": C.c_uint64, "size_t": C.c_size_t, "bool": C.c_bool, "double": C.c_double,
           "float": C.c_float,
           "tj_status": C.c_int, "tj_device": C.c_int, "tj_dtype": C.c_int, "void": None, "tj_dims": C.c_void_p, "tj_list": C.c_void_p}
TEXT = declarations()
CONSTANTS = {}
for _body, _name in re.findall(r"typedef enum \w+ \{([^}]*)\} (\w+);", TEXT):
    SCALARS[_name] = C.c_int
    for _i, _word in enumerate(w for w in re.split(r"[,\s]+", _body) if re.fullmatch(r"TJ_\w+", w)):
        CONSTANTS[_word] = _i
STRUCTS = {}


def c_type(text):
    text = text.replace("const", "").strip()
    if text in SCALARS:
        return SCALARS[text]
    return STRUCTS.get(text, C.c_void_p)


def fields(body):
    for part in filter(None, (p.strip() for p in body.split(";"))):
        if "(" in part:
            yield re.search(r"\(\*(\w+)\)", part).group(1), C.c_void_p, "pointer"
            continue
        base, names = re.match(r"((?:const\s+)?\w+)\s+(.*)", part, re.S).groups()
        for name in names.split(","):
            stars, word, count = re.match(r"\s*((?:\*\s*(?:const)?\s*)*)(\w+)\s*(?:\[(\d+)\])?", name).groups()
            kind = base + ("*" * stars.count("*"))
            base_type = C.c_void_p if stars else c_type(base)
            yield word, base_type * int(count) if count else base_type, kind + ("[]" if count else "")


for _body, _name in re.findall(r"typedef struct \w+ \{([^}]*)\} (\w+);", TEXT):
    _list = list(fields(_body))
    STRUCTS[_name] = type(_name, (C.Structure,), {"_fields_": [(n, t) for n, t, _ in _list], "kinds": {n: k for n, _, k in _list}})


# ---- arguments ----
def number(v):
    if isinstance(v, bool):
        return call("full", "bool", (), int(v)).handle
    if isinstance(v, int):
        if abs(v) <= 1 << 51:
            return lib.tj_i_at(SITE, v)
        return lib.tj_constant_at(SITE, lib.tj_ctx_current(), DTYPES.index("i64"), dims(()), C.byref(C.c_int64(v)))
    return lib.tj_f(float(v))


def handle(v):
    return None if v is None else v.handle if isinstance(v, Tensor) else number(v)


def dims(v):
    return None if v is None else (C.c_int64 * (len(v) + 1))(*v, END_DIM)


def doubles(v):
    """An argument of type const double *; the memory lives on."""
    KEPT.append((C.c_double * len(v))(*v))
    return C.addressof(KEPT[-1])


KEPT = []


def tensors(v):
    return (C.c_void_p * (len(v) + 1))(*[handle(t) for t in v], END)


def options(name, given, kept):
    o = STRUCTS[name]()
    o.size = C.sizeof(o)
    for key, v in given.items():
        kind = o.kinds[key]
        if kind.endswith("[]"):
            array = getattr(o, key)
            for i, x in enumerate(v if isinstance(v, (list, tuple)) else [v] * len(array)):
                array[i] = x
            continue
        if kind == "tj_tensor*":
            v = handle(v)
        elif kind in ("tj_dims", "tj_list"):
            kept.append(dims(v) if kind == "tj_dims" else tensors(v))
            v = C.cast(kept[-1], C.c_void_p)
        elif kind == "tj_dtype":
            v = DTYPES.index(v) if isinstance(v, str) else v
        elif kind == "const char*":
            v = C.cast(C.c_char_p(v.encode()), C.c_void_p)
        setattr(o, key, CONSTANTS[v] if isinstance(v, str) else v)
    kept.append(o)
    return C.byref(o)


FUNCTIONS = {}
for _result, _name, _args in re.findall(r"TJ_API ((?:const )?\w+ \**)(tj_\w+)\(([^;{]*)\)\s*(?:TJ_PRINTF\([^)]*\))?;", TEXT):
    _function = getattr(lib, _name, None)
    if _function is None or "..." in _args:
        continue
    _list = [] if _args.strip() in ("", "void") else [re.match(r"(.*?)(\w+)(\[\])?$", a.strip()).groups()
                                                      for a in re.split(r",(?![^(]*\))", _args) if "(" not in a]
    _function.restype = C.c_void_p if "*" in _result else c_type(_result)
    if "(" not in _args:
        _function.argtypes = [c_type(k) if "*" not in k else C.c_char_p if k.replace(" ", "") == "constchar*" else C.c_void_p
                              for k, _, _ in _list]
    FUNCTIONS[re.sub(r"_at$", "", _name[3:])] = (_function, [(k.replace(" ", ""), n) for k, n, _ in _list], _result.replace(" ", ""))


class LastError(C.Structure):
    _fields_ = [("code", C.c_int), ("op", C.c_char_p), ("message", C.c_char_p), ("site", C.c_char_p), ("hint", C.c_char_p)]


lib.tj_last_error.restype = C.POINTER(LastError)
lib.tj_wrap_at.argtypes = [C.c_char_p, C.c_void_p, C.c_int] + [C.c_void_p] * 5


def done(status=0):
    c = lib.tj_ctx_current()
    code = lib.tj_check(c) or status
    if code:
        e = lib.tj_last_error(c)
        raise Error(code, *(getattr(e.contents, n).decode() for n in ("op", "message", "hint"))) if e else Error(code, "", "failed", "")


def call(name, *args, **opts):
    """tj_<name>(). Arguments in the order of C, without the site and without pointers for results, which are returned."""
    function, params, result = FUNCTIONS[name]
    kept, out, given, left = [], [], [], list(args)
    for kind, param in params:
        if param == "site":
            given.append(SITE)
        elif kind == "tj_tensor**" and result == "int":  # a list of results, whose number is returned
            several = (C.c_void_p * 1024)()
            given.append(C.addressof(several))
        elif kind == "tj_tensor**":
            out.append(C.c_void_p())
            given.append(C.addressof(out[-1]))
        elif kind == "tj_ctx*":
            given.append(lib.tj_ctx_current())
        elif kind.startswith("consttj_") and kind.endswith("_opts*"):
            given.append(options(kind[5:-1], opts, kept) if opts else None)
        else:
            v = left.pop(0)
            if kind == "tj_tensor*":
                v = handle(v)
            elif kind == "tj_dims":
                kept.append(dims(v))
                v = kept[-1]
            elif kind == "tj_list":
                kept.append(tensors(v))
                v = kept[-1]
            elif kind == "tj_dtype" and isinstance(v, str):
                v = DTYPES.index(v)
            elif kind == "constchar*":
                v = v.encode()
            elif isinstance(v, str):
                v = CONSTANTS[v]
            given.append(v)
    if left:
        raise TypeError(f"{name}: {len(left)} arguments too many")
    r = function(*given)
    if result == "int" and any(kind == "tj_tensor**" for kind, _ in params):
        done(0 if r >= 0 else 1)
        return [Tensor(several[i]) for i in range(r)]
    if result == "tj_status":
        done(r)
    if result == "tj_tensor*":
        if lib.tj_is_poison(r):
            done(1)
        results = [Tensor(r)]
    else:
        results = [] if result in ("tj_status", "void") else [r]
    results += [Tensor(o.value) for o in out if o.value]
    return results[0] if len(results) == 1 else tuple(results)


def __getattr__(name):
    if name not in FUNCTIONS:
        raise AttributeError(name)
    return lambda *a, **k: call(name, *a, **k)


def is_number(t):
    """Whether the handle holds a number."""
    return lib.tj_rank(t.handle) == 0 and t.handle >> 48 != 0


# ---- contexts, tensors, functions ----
class Context:
    def __init__(self, **opts):
        kept = []
        self.c = lib.tj_open(options("tj_open_opts", opts, kept))

    def __enter__(self):
        self.scope = lib.tj_push_at(SITE, self.c)
        return self

    def __exit__(self, *_):
        lib.tj_pop_at(SITE, self.scope)

    def close(self):
        lib.tj_close(self.c)


def tensor(dtype, shape, address, strides=None):
    """A copy of row-major memory; with strides, in elements, a tensor over the memory, which the caller keeps."""
    c, t, kept = lib.tj_ctx_current(), DTYPES.index(dtype), dims(shape)
    if strides is None:
        r = lib.tj_from_data_at(SITE, c, t, kept, address)
    else:
        r = lib.tj_wrap_at(SITE, c, t, kept, dims(strides), address, None, None)
    if lib.tj_is_poison(r):
        done(1)
    return Tensor(r)


class compile:
    """A compiled function. body takes and returns tensors; an exception in it fails the call and is raised there."""

    def __init__(self, body, nin, nout, **opts):
        self.body, self.nin, self.nout, self.raised = body, nin, nout, None
        self.callback = BODY(self.run)
        kept = []
        self.f = lib.tj_compile_at(SITE, lib.tj_ctx_current(), C.cast(self.callback, C.c_void_p), None,
                                   options("tj_compile_opts", dict(opts, nin=nin, nout=nout), kept))
        if not self.f:
            done(1)

    def run(self, out, given, _):
        try:
            results = self.body(*[Tensor(given[i]) for i in range(self.nin)])
            for i, r in enumerate(results if isinstance(results, (tuple, list)) else [results]):
                out[i] = handle(r)
        except Exception as e:  # ctypes would print it and go on
            self.raised = e

    def __call__(self, *args):
        out = (C.c_void_p * self.nout)()
        self.raised = None
        status = lib.tj_call_at(SITE, self.f, C.addressof(out), tensors(args))
        if self.raised:
            lib.tj_check(lib.tj_ctx_current())
            raise self.raised
        done(status)
        return [Tensor(o) for o in out]

    def stats(self):
        s = STRUCTS["tj_stats"]()
        s.size = C.sizeof(s)
        lib.tj_fn_stats(self.f, C.byref(s))
        return s

    def free(self):
        lib.tj_fn_free_at(SITE, self.f)
