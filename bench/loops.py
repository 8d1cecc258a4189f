# SPDX-License-Identifier: MIT
"""The cases of tj-bench --loops in PyTorch, JAX, Numba and (pictures and grids) Halide, for bench/peers.py --loops. Names, shapes, operands
and tolerances are those of bench/loopcases.c; Expected has the results of its loops in C, which each peer must have before it is timed.

Arrays has a case as one writes it with whole arrays, m being Torch or Jax; Loops as loops for Numba, with outputs (and arrays for what is
between) allocated beforehand; the class Halide as functions with a schedule."""
import json, math, os, re, subprocess, tempfile
import numpy as np

F = np.float32
prange = range   # Numba's, when that is the peer
TYPES = {"f": "float32", "d": "float64", "b": "uint8", "o": "uint8", "h": "int16", "x": "int32", "l": "int64"}
BELOW = {"b": 256, "o": 2, "h": 65536, "x": 1000}
TAPS = (0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125)
TAP = np.array(TAPS, F)


# ---- what tj-bench says ----
def run(build, *more):
    return subprocess.run([os.path.join(build, "tj-bench"), "--loops", *more], capture_output=True, text=True, check=True)


def table(build): return {p["case"]: p for p in map(json.loads, run(build, "--list").stdout.splitlines())}


def size(text, p):
    factor, letter, more = re.fullmatch(r"(\d*)([nm]?)(?:\+(\d+))?", text).groups()
    return int(factor or 1) * (p[letter] if letter else 1) + int(more or 0)


def operands(p, side):
    """(letter, shape) of each input (side 0) or output (side 1)."""
    text = p["shapes"].split("->")[side]
    return [(t, tuple(size(s, p) for s in dims.split(",") if s)) for t, dims in re.findall(r"(\w)\[([^]]*)\]", text)]


def fill(letter, shape, seed):
    """The numbers of fill() in loops.c."""
    n = math.prod(shape)
    power = np.full(n + 1, 1664525, np.uint32)
    power[0] = 1
    power = np.multiply.accumulate(power, dtype=np.uint32)
    r = (power[1:] * np.uint32(seed) + np.add.accumulate(power[:-1], dtype=np.uint32) * np.uint32(1013904223)) >> np.uint32(8)
    x = r / (1 << 23) - 1 if letter in "fd" else r % np.uint32(BELOW[letter])
    return x.astype(TYPES[letter]).reshape(shape)


def inputs(p): return [fill(t, s, i + 1) for i, (t, s) in enumerate(operands(p, 0))]


class Expected:
    def __init__(s, build, p):
        with tempfile.TemporaryDirectory() as d:
            run(build, "--write", d, f"^{p['case']}$")
            s.out = [np.fromfile(f"{d}/{p['case']}.{k}", TYPES[t]).reshape(shape) for k, (t, shape) in enumerate(operands(p, 1))]
        floor = {"f": 1e-4, "d": 1e-9}
        s.tolerance = [max(p["tolerance"], floor.get(t, 0)) for t, _ in operands(p, 1)]
    def check(s, got):
        """Raises unless the arrays are the results; whole numbers may have fewer bits than ours."""
        if len(got) != len(s.out): raise ValueError(f"{len(got)} results, not {len(s.out)}")
        for y, want, most in zip(got, s.out, s.tolerance):
            y, real = np.asarray(y), want.dtype.kind == "f"
            if y.shape != want.shape or (y.dtype != want.dtype and want.dtype != np.int64):
                raise ValueError(f"result {y.dtype}{list(y.shape)}, not {want.dtype}{list(want.shape)}")
            error = np.abs(y.astype("f8") - want.astype("f8")) / (1 + np.abs(want.astype("f8")) if real else 1)
            if not error.max() <= most: raise ValueError(f"differs by {error.max():g}, allowed {most:g}")


# ---- with whole arrays ----
def grey_of(m, x):
    x = m.f32(x)
    return x[..., 0] * 0.299 + x[..., 1] * 0.587 + x[..., 2] * 0.114


def blur(m, x, axis):
    n = x.shape[axis]
    p = m.edge(x, [(3, 3) if a == axis else (0, 0) for a in range(2)])
    return sum(m.cut(p, axis, k, n) * t for k, t in enumerate(TAPS))


def laplace(m, u): return m.roll(u, 1, 1) + m.roll(u, -1, 1) + m.roll(u, 1, 0) + m.roll(u, -1, 0) - u * 4


def pull(m, x, power, mass=None):
    d = x[None] - x[:, None]
    r2 = (d * d).sum(-1) + 0.01
    w = r2 ** -1.5 if power else 1 / (r2 * m.sqrt(r2))
    return (d * (w if mass is None else w * mass)[..., None]).sum(1)


def call_price(m, x, y, z):
    cdf = lambda x: (m.erf(x * 0.70710678118654752) + 1) * 0.5
    s, k, t = abs(x) + 0.5, abs(y) + 0.5, abs(z) + 0.1
    v = m.sqrt(t) * 0.3
    d = (m.log(s / k) + t * (0.02 + 0.3 * 0.3 / 2)) / v
    return s * cdf(d) - k * m.exp(t * -0.02) * cdf(d - v)


class Arrays:
    def dots3(m, x, y): return (x * y).sum(-1)
    def affine3(m, x, w, b): return x @ w + b
    def mats4(m, x, y): return x @ y
    def normals3(m, x, y):
        c = m.cross(x, y)
        return c / m.sqrt((c * c).sum(-1))[:, None]
    def quats(m, x, y):
        a, b, c, d = (x[:, k] for k in range(4))
        e, f, g, h = (y[:, k] for k in range(4))
        return m.stack([a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g, a * g - b * h + c * e + d * f,
                        a * h + b * g - c * f + d * e], -1)
    def nearest8(m, x, y):
        d = x[:, None] - y
        return (d * d).sum(-1).argmin(-1)

    def grey(m, x): return m.u8(grey_of(m, x))
    def blend(m, x, y, a):
        a = m.i32(a)
        return m.u8((m.i32(x) * a + m.i32(y) * (255 - a) + 128) * 257 >> 16)
    def planes(m, x): return m.dense((m.f32(m.permute(x, (2, 0, 1))) * (1 / 255) - 0.45) / 0.225)
    def edges(m, x):
        h, w = x.shape[:2]
        g = m.edge(blur(m, blur(m, grey_of(m, x), 1), 0), [(1, 1), (1, 1)])
        r = [g[k:k + h] for k in range(3)]
        dx = [a[:, 2:] - a[:, :w] for a in r]
        sm = [a[:, :w] + a[:, 1:w + 1] * 2 + a[:, 2:] for a in r]
        x, y = dx[0] + dx[1] * 2 + dx[2], sm[2] - sm[0]
        return m.u8(m.clip(m.sqrt(x * x + y * y), 0, 255))
    def equalise(m, x):
        total = m.counts(x).cumsum(0)
        return m.take(m.u8(total * 255 // x.shape[0]), x)

    def wave(m, u, v): return u * 2 - v + laplace(m, u) * 0.2
    def grayscott(m, u, v):
        uvv = u * v * v
        return u + (laplace(m, u) * 0.16 - uvv + (1 - u) * 0.035), v + (laplace(m, v) * 0.08 + uvv - v * 0.1)
    def heat3(m, x):
        n, p = x.shape[0], m.edge(x, [(1, 1)] * 3)
        i = slice(1, n + 1)
        return x + (p[:n, i, i] + p[2:, i, i] + p[i, :n, i] + p[i, 2:, i] + p[i, i, :n] + p[i, i, 2:] - x * 6) * 0.1
    def life(m, x):
        c = m.roll(x, 1, 1) + x + m.roll(x, -1, 1)
        n = m.roll(c, 1, 0) + c + m.roll(c, -1, 0) - x
        return m.u8((n == 3) | ((n == 2) & (x != 0)))
    def upwind(m, u, c): return u - c * m.where(c > 0, u - m.roll(u, 1, 0), m.roll(u, -1, 0) - u)

    def fir32(m, x, w): return sum(x[k:k + x.shape[0] - 31] * w[k] for k in range(32))
    def gain16(m, x): return m.i16(m.clip(m.i32(x) * 13 >> 3, -32768, 32767))
    def midside(m, x):
        l, r = m.i32(x[:, 0]), m.i32(x[:, 1])
        return m.i16(m.stack([l + r >> 1, l - r >> 1], -1))
    def haar(m, x): return (x[::2] + x[1::2]) * 0.70710678, (x[::2] - x[1::2]) * 0.70710678
    def cmul(m, x, y):
        a, b, c, d = x[:, 0], x[:, 1], y[:, 0], y[:, 1]
        return m.stack([a * c - b * d, a * d + b * c], -1)

    def lut8(m, x, t): return m.take(t, x)
    def palette(m, x, t): return m.take(t, x)
    def lerp_table(m, x, t):
        v = m.clip(x, 0, 0.999) * 1024
        k = m.i32(v)
        a = m.take(t, k)
        return a + (v - m.f32(k)) * (m.take(t, k + 1) - a)
    def hist8(m, x): return m.counts(x)
    def groupby(m, k, x): return m.sums(k, x, 1000)

    def nbody(m, x, mass): return pull(m, x, False, mass)
    def nbody_pow(m, x): return pull(m, x, True)
    def lennard(m, x):
        d, one = x[None] - x[:, None], m.eye(x)
        s = 0.01 / ((d * d).sum(-1) + one)
        s3 = s * s * s
        return (s3 * (s3 - 1) * (1 - one)).sum() * 2
    def drift(m, x, v):
        y = x + v * 0.01
        return y - m.floor(y)

    blackscholes = blackscholes64 = call_price
    def bonds(m, x): return (m.exp(-(abs(x) * 0.1)[:, None] * m.count_from_1(20)) * 0.05).sum(-1)
    def bars(m, x): return m.stack([x[:, 0], m.amax(x), m.amin(x), x[:, 15]], -1)
    def volatility(m, x):
        x = abs(x) + 1
        return m.std(m.log(x[1:] / x[:-1]))

    def utf8(m, x): return (x & 0xC0 != 0x80).sum()
    def upper(m, x): return m.where((x >= 97) & (x <= 122), x - 32, x)
    def sad(m, x, y): return abs(m.i32(x) - m.i32(y)).sum()
    def hex(m, x):
        digit = lambda d: d + m.where(d < 10, m.byte(48), m.byte(87))
        return m.stack([digit(x >> 4), digit(x & 15)], -1)
    def mask(m, x, y): return x & y ^ 0x5A


class Torch:
    def __init__(s, threads):
        import torch
        s.t = t = torch
        t.set_num_threads(threads); t.set_grad_enabled(False)
        for n in "where roll stack sqrt exp log erf floor clip std".split(): setattr(s, n, getattr(t, n))
        s.cross, s.permute, s.amax, s.amin = t.linalg.cross, t.permute, lambda x: t.amax(x, -1), lambda x: t.amin(x, -1)
        s.cut, s.counts, s.dense = t.narrow, lambda x: t.bincount(x, minlength=256), lambda x: x.contiguous()
        for n, d in ("f32", t.float32), ("i32", t.int32), ("u8", t.uint8), ("i16", t.int16): setattr(s, n, lambda x, d=d: x.to(d))
    def version(s): return "PyTorch " + s.t.__version__.split("+")[0]
    def edge(s, x, pads): return s.t.nn.functional.pad(x[None, None], [n for p in reversed(pads) for n in p], "replicate")[0, 0]
    def take(s, x, i): return x[s.i32(i)]
    def sums(s, k, x, n): return s.t.zeros(n).scatter_add(0, k.long(), x)
    def eye(s, x): return s.t.eye(x.shape[0], dtype=x.dtype)
    def count_from_1(s, n): return s.t.arange(1, n + 1, dtype=s.t.float32)
    def byte(s, x): return s.t.tensor(x, dtype=s.t.uint8)
    def open(s, p, arrays):
        f, args = getattr(Arrays, p["case"]), [s.t.from_numpy(x) for x in arrays]
        s.t._dynamo.reset()
        g = s.t.compile(lambda *a: f(s, *a))
        return lambda: g(*args)
    def sync(s, y): pass


class Jax:
    def __init__(s, threads):
        import jax, jax.numpy as jnp
        s.j, s.n = jax, jnp
        for n in "where roll stack sqrt exp log floor clip cross".split(): setattr(s, n, getattr(jnp, n))
        s.erf, s.permute, s.amax, s.amin = jax.scipy.special.erf, jnp.transpose, lambda x: x.max(-1), lambda x: x.min(-1)
        s.counts, s.dense = lambda x: jnp.bincount(x, length=256), lambda x: x
        s.cut = lambda x, axis, start, n: jax.lax.slice_in_dim(x, start, start + n, axis=axis)
        for n, d in ("f32", "float32"), ("i32", "int32"), ("u8", "uint8"), ("i16", "int16"): setattr(s, n, lambda x, d=d: x.astype(d))
    def version(s): return "JAX " + s.j.__version__
    def edge(s, x, pads): return s.n.pad(x, pads, "edge")
    def take(s, x, i): return x[i]
    def sums(s, k, x, n): return s.n.zeros(n, "float32").at[k].add(x)
    def eye(s, x): return s.n.eye(x.shape[0], dtype=x.dtype)
    def count_from_1(s, n): return s.n.arange(1, n + 1, dtype="float32")
    def byte(s, x): return s.n.uint8(x)
    def std(s, x): return s.n.std(x, ddof=1)
    def open(s, p, arrays):
        s.j.config.update("jax_enable_x64", "d[" in p["shapes"])
        f, args = getattr(Arrays, p["case"]), [s.j.device_put(x) for x in arrays]
        g = s.j.jit(lambda *a: f(s, *a))
        return lambda: g(*args)
    def sync(s, y): s.j.block_until_ready(y)


# ---- as loops ----
def price(x, y, z, half, five, rate, vol, tenth, one):
    s, k, t = abs(x) + five, abs(y) + five, abs(z) + tenth
    v = vol * math.sqrt(t)
    d = (math.log(s / k) + t * (rate + vol * vol * five)) / v
    return s * five * (one + math.erf(d * half)) - k * math.exp(-rate * t) * five * (one + math.erf((d - v) * half))


class Loops:
    """SERIAL: too small for two threads."""
    SERIAL = "mats4", "upwind", "blackscholes64", "mask"

    def dots3(x, y, o):
        for i in prange(len(x)): o[i] = x[i, 0] * y[i, 0] + x[i, 1] * y[i, 1] + x[i, 2] * y[i, 2]
    def affine3(x, w, b, o):
        for i in prange(len(x)):
            p, q, r = x[i, 0], x[i, 1], x[i, 2]
            o[i, 0] = p * w[0, 0] + q * w[1, 0] + r * w[2, 0] + b[0]
            o[i, 1] = p * w[0, 1] + q * w[1, 1] + r * w[2, 1] + b[1]
            o[i, 2] = p * w[0, 2] + q * w[1, 2] + r * w[2, 2] + b[2]
    def mats4(x, y, o):
        for i in range(len(x)):
            for r in range(4):
                for c in range(4):
                    o[i, r, c] = x[i, r, 0] * y[i, 0, c] + x[i, r, 1] * y[i, 1, c] + x[i, r, 2] * y[i, 2, c] + x[i, r, 3] * y[i, 3, c]
    def normals3(x, y, o):
        for i in prange(len(x)):
            a, b, c, d, e, f = x[i, 0], x[i, 1], x[i, 2], y[i, 0], y[i, 1], y[i, 2]
            p, q, r = b * f - c * e, c * d - a * f, a * e - b * d
            s = F(1) / math.sqrt(p * p + q * q + r * r)
            o[i, 0], o[i, 1], o[i, 2] = p * s, q * s, r * s
    def quats(x, y, o):
        for i in prange(len(x)):
            a, b, c, d, e, f, g, h = x[i, 0], x[i, 1], x[i, 2], x[i, 3], y[i, 0], y[i, 1], y[i, 2], y[i, 3]
            o[i, 0] = a * e - b * f - c * g - d * h
            o[i, 1] = a * f + b * e + c * h - d * g
            o[i, 2] = a * g - b * h + c * e + d * f
            o[i, 3] = a * h + b * g - c * f + d * e
    def nearest8(x, y, o):
        for i in prange(len(x)):
            best, at = F(1e30), 0
            for k in range(8):
                u, v = x[i, 0] - y[k, 0], x[i, 1] - y[k, 1]
                d = u * u + v * v
                at = k if d < best else at
                best = d if d < best else best
            o[i] = at

    def grey(x, o):
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                o[i, j] = np.uint8(F(0.299) * F(x[i, j, 0]) + F(0.587) * F(x[i, j, 1]) + F(0.114) * F(x[i, j, 2]))
    def blend(x, y, w, o):
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                a = np.int32(w[i, j, 0])
                for k in range(3): o[i, j, k] = (x[i, j, k] * a + y[i, j, k] * (255 - a) + 128) * 257 >> 16
    def planes(x, o):
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                for k in range(3): o[k, i, j] = (F(x[i, j, k]) * F(1 / 255) - F(0.45)) * F(1 / 0.225)
    def edges(x, o, g, b, c):
        n, m = o.shape
        for i in prange(n):
            for j in range(m): g[i, j] = F(0.299) * F(x[i, j, 0]) + F(0.587) * F(x[i, j, 1]) + F(0.114) * F(x[i, j, 2])
            for j in range(3, m - 3):
                s = F(0)
                for k in range(7): s += TAP[k] * g[i, j + k - 3]
                b[i, j] = s
            for e in range(6):
                j, s = e if e < 3 else m - 6 + e, F(0)
                for k in range(7): s += TAP[k] * g[i, min(max(j + k - 3, 0), m - 1)]
                b[i, j] = s
        for i in prange(n):
            r0, r1, r2, r3 = b[max(i - 3, 0)], b[max(i - 2, 0)], b[max(i - 1, 0)], b[i]
            r4, r5, r6 = b[min(i + 1, n - 1)], b[min(i + 2, n - 1)], b[min(i + 3, n - 1)]
            for j in range(m):
                c[i, j] = TAP[0] * (r0[j] + r6[j]) + TAP[1] * (r1[j] + r5[j]) + TAP[2] * (r2[j] + r4[j]) + TAP[3] * r3[j]
        for i in prange(n):
            u, v, w = c[max(i - 1, 0)], c[i], c[min(i + 1, n - 1)]
            for j in range(1, m - 1):
                p = u[j + 1] - u[j - 1] + F(2) * (v[j + 1] - v[j - 1]) + w[j + 1] - w[j - 1]
                q = w[j - 1] + F(2) * w[j] + w[j + 1] - u[j - 1] - F(2) * u[j] - u[j + 1]
                o[i, j] = np.uint8(min(math.sqrt(p * p + q * q), F(255)))
            for j in (0, m - 1):
                l, r = max(j - 1, 0), min(j + 1, m - 1)
                p = u[r] - u[l] + F(2) * (v[r] - v[l]) + w[r] - w[l]
                q = w[l] + F(2) * w[j] + w[r] - u[l] - F(2) * u[j] - u[r]
                o[i, j] = np.uint8(min(math.sqrt(p * p + q * q), F(255)))
    def equalise(x, o):
        some = np.zeros((32, 4, 256), np.uint32)
        step, total, map = (len(x) + 31) // 32, 0, np.empty(256, np.uint8)
        for b in prange(32):
            mine = some[b]
            for i in range(b * step, min(b * step + step, len(x))): mine[i & 3, x[i]] += 1
        for k in range(256):
            for b in range(32):
                for q in range(4): total += some[b, q, k]
            map[k] = total * 255 // len(x)
        for i in prange(len(x)): o[i] = map[x[i]]

    def wave(u, v, o):
        n, m = u.shape
        for i in prange(n):
            c, p, q = u[i], u[i - 1 if i else n - 1], u[i + 1 if i < n - 1 else 0]
            for j in range(1, m - 1): o[i, j] = F(2) * c[j] - v[i, j] + F(0.2) * (c[j - 1] + c[j + 1] + p[j] + q[j] - F(4) * c[j])
            for j in (0, m - 1):
                l, r = j - 1 if j else m - 1, j + 1 if j < m - 1 else 0
                o[i, j] = F(2) * c[j] - v[i, j] + F(0.2) * (c[l] + c[r] + p[j] + q[j] - F(4) * c[j])
    def grayscott(u, v, s, t):
        n = len(u)
        for i in prange(n):
            a, b = i - 1 if i else n - 1, i + 1 if i < n - 1 else 0
            for j in range(1, n - 1):
                p = u[i, j - 1] + u[i, j + 1] + u[a, j] + u[b, j] - F(4) * u[i, j]
                q = v[i, j - 1] + v[i, j + 1] + v[a, j] + v[b, j] - F(4) * v[i, j]
                e = u[i, j] * v[i, j] * v[i, j]
                s[i, j] = u[i, j] + F(0.16) * p - e + F(0.035) * (F(1) - u[i, j])
                t[i, j] = v[i, j] + F(0.08) * q + e - F(0.1) * v[i, j]
            for j in (0, n - 1):
                l, r = j - 1 if j else n - 1, j + 1 if j < n - 1 else 0
                p = u[i, l] + u[i, r] + u[a, j] + u[b, j] - F(4) * u[i, j]
                q = v[i, l] + v[i, r] + v[a, j] + v[b, j] - F(4) * v[i, j]
                e = u[i, j] * v[i, j] * v[i, j]
                s[i, j] = u[i, j] + F(0.16) * p - e + F(0.035) * (F(1) - u[i, j])
                t[i, j] = v[i, j] + F(0.08) * q + e - F(0.1) * v[i, j]
    def heat3(x, o):
        n = len(x)
        for i in prange(n):
            for j in range(n):
                c, u, d = x[i, j], x[max(i - 1, 0), j], x[min(i + 1, n - 1), j]
                f, b = x[i, max(j - 1, 0)], x[i, min(j + 1, n - 1)]
                for k in range(1, n - 1): o[i, j, k] = c[k] + F(0.1) * (u[k] + d[k] + f[k] + b[k] + c[k - 1] + c[k + 1] - F(6) * c[k])
                for k in (0, n - 1):
                    o[i, j, k] = c[k] + F(0.1) * (u[k] + d[k] + f[k] + b[k] + c[max(k - 1, 0)] + c[min(k + 1, n - 1)] - F(6) * c[k])
    def life(x, o):
        n = len(x)
        for i in prange(n):
            u, c, d = x[i - 1 if i else n - 1], x[i], x[i + 1 if i < n - 1 else 0]
            for j in range(1, n - 1):
                s = np.uint8(u[j - 1] + u[j] + u[j + 1] + c[j - 1] + c[j + 1] + d[j - 1] + d[j] + d[j + 1])
                o[i, j] = np.uint8(s == 3) | (np.uint8(s == 2) & c[j])
            for j in (0, n - 1):
                l, r = j - 1 if j else n - 1, j + 1 if j < n - 1 else 0
                s = np.uint8(u[l] + u[j] + u[r] + c[l] + c[r] + d[l] + d[j] + d[r])
                o[i, j] = np.uint8(s == 3) | (np.uint8(s == 2) & c[j])
    def upwind(u, c, o):
        n = len(u)
        for i in range(1, n - 1): o[i] = u[i] - c[i] * (u[i] - u[i - 1] if c[i] > 0 else u[i + 1] - u[i])
        o[0] = u[0] - c[0] * (u[0] - u[n - 1] if c[0] > 0 else u[1] - u[0])
        o[n - 1] = u[n - 1] - c[n - 1] * (u[n - 1] - u[n - 2] if c[n - 1] > 0 else u[0] - u[n - 1])

    def fir32(x, w, o):
        for i in prange(len(o)):
            s = F(0)
            for k in range(32): s += w[k] * x[i + k]
            o[i] = s
    def gain16(x, o):
        for i in prange(len(x)): o[i] = min(max(np.int32(x[i]) * np.int32(13) >> 3, -32768), 32767)
    def midside(x, o):
        for i in prange(len(x)):
            l, r = np.int32(x[i, 0]), np.int32(x[i, 1])
            o[i, 0], o[i, 1] = l + r >> 1, l - r >> 1
    def haar(x, lo, hi):
        for i in prange(len(lo)): lo[i], hi[i] = (x[2 * i] + x[2 * i + 1]) * F(0.70710678), (x[2 * i] - x[2 * i + 1]) * F(0.70710678)
    def cmul(x, y, o):
        for i in prange(len(x)):
            a, b, c, d = x[i, 0], x[i, 1], y[i, 0], y[i, 1]
            o[i, 0], o[i, 1] = a * c - b * d, a * d + b * c

    def lut8(x, t, o):
        for i in prange(len(x)): o[i] = t[x[i]]
    def palette(x, t, o):
        for i in prange(len(x)):
            k = x[i]
            o[i, 0], o[i, 1], o[i, 2] = t[k, 0], t[k, 1], t[k, 2]
    def lerp_table(x, t, o):
        for i in prange(len(x)):
            v = min(max(x[i], F(0)), F(0.999)) * F(1024)
            k = np.int32(v)
            o[i] = t[k] + (v - F(k)) * (t[k + 1] - t[k])
    def hist8(x, o):
        some, step = np.zeros((32, 4, 256), np.uint32), (len(x) + 31) // 32
        for b in prange(32):
            mine = some[b]
            for i in range(b * step, min(b * step + step, len(x))): mine[i & 3, x[i]] += 1
        for k in range(256):
            o[k] = 0
            for b in range(32):
                for q in range(4): o[k] += some[b, q, k]
    def groupby(k, x, o):
        some, step = np.zeros((4, len(o)), F), (len(x) + 3) // 4
        for b in prange(4):
            mine = some[b]
            for i in range(b * step, min(b * step + step, len(x))): mine[k[i]] += x[i]
        for i in range(len(o)): o[i] = some[0, i] + some[1, i] + some[2, i] + some[3, i]

    def nbody(x, mass, o, u, v, w):
        n = len(x)
        for i in range(n): u[i], v[i], w[i] = x[i, 0], x[i, 1], x[i, 2]
        for i in prange(n):
            p, q, r = F(0), F(0), F(0)
            for j in range(n):
                a, b, c = u[j] - u[i], v[j] - v[i], w[j] - w[i]
                r2 = a * a + b * b + c * c + F(0.01)
                s = mass[j] / (r2 * math.sqrt(r2))
                p += a * s
                q += b * s
                r += c * s
            o[i, 0], o[i, 1], o[i, 2] = p, q, r
    def nbody_pow(x, o, u, v, w):
        n = len(x)
        for i in range(n): u[i], v[i], w[i] = x[i, 0], x[i, 1], x[i, 2]
        for i in prange(n):
            p, q, r = F(0), F(0), F(0)
            for j in range(n):
                a, b, c = u[j] - u[i], v[j] - v[i], w[j] - w[i]
                r2 = a * a + b * b + c * c + F(0.01)
                s = F(1) / (r2 * math.sqrt(r2))
                p += a * s
                q += b * s
                r += c * s
            o[i, 0], o[i, 1], o[i, 2] = p, q, r
    def lennard(x, o):
        n, total = len(x), 0.0
        for i in prange(n // 2):
            for side in range(2):   # a short row and a long one
                a = n - 1 - np.int64(i) if side else np.int64(i)
                for j in range(a):
                    p, q, r = x[a, 0] - x[j, 0], x[a, 1] - x[j, 1], x[a, 2] - x[j, 2]
                    s = 0.01 / (p * p + q * q + r * r)
                    s3 = s * s * s
                    total += s3 * (s3 - 1)
        o[()] = 4 * total
    def drift(x, v, o):
        for i in prange(len(x)):
            for k in range(3):
                y = x[i, k] + F(0.01) * v[i, k]
                o[i, k] = y - np.floor(y)

    def blackscholes(x, y, z, o):
        for i in prange(len(x)): o[i] = price(x[i], y[i], z[i], F(0.70710678), F(0.5), F(0.02), F(0.3), F(0.1), F(1))
    def blackscholes64(x, y, z, o):
        for i in range(len(x)): o[i] = price(x[i], y[i], z[i], 0.70710678118654752, 0.5, 0.02, 0.3, 0.1, 1.0)
    def bonds(x, o):
        for i in prange(len(x)):
            rate, s = F(0.1) * abs(x[i]), F(0)
            for k in range(1, 21): s += F(0.05) * math.exp(-rate * F(k))
            o[i] = s
    def bars(x, o):
        for i in prange(len(x)):
            most = least = x[i, 0]
            for k in range(1, 16): most, least = max(most, x[i, k]), min(least, x[i, k])
            o[i, 0], o[i, 1], o[i, 2], o[i, 3] = x[i, 0], most, least, x[i, 15]
    def volatility(x, o, r):
        n, total, square = len(x) - 1, 0.0, 0.0
        for i in prange(n):
            r[i] = math.log((abs(x[i + 1]) + 1) / (abs(x[i]) + 1))
            total += r[i]
        mean = total / n
        for i in prange(n): square += (r[i] - mean) * (r[i] - mean)
        o[()] = math.sqrt(square / (n - 1))

    def utf8(x, o):
        n = 0
        for i in prange(len(x)): n += (x[i] & 0xC0) != 0x80
        o[()] = n
    def upper(x, o):
        for i in prange(len(x)): o[i] = x[i] - 32 if 97 <= x[i] <= 122 else x[i]
    def sad(x, y, o):
        n = 0
        for i in prange(len(x)): n += abs(np.int32(x[i]) - np.int32(y[i]))
        o[()] = n
    def hex(x, o):
        for i in prange(len(x)):
            h, l = x[i] >> 4, x[i] & 15
            o[i, 0], o[i, 1] = h + (48 if h < 10 else 87), l + (48 if l < 10 else 87)
    def mask(x, y, o):
        for i in range(len(x)): o[i] = x[i] & y[i] ^ 0x5A


class Numba:
    def __init__(s, threads):
        global prange, price
        import numba
        s.n, prange, price = numba, numba.prange, numba.njit(fastmath=True)(price)
        numba.set_num_threads(threads)
    def version(s): return "Numba " + s.n.__version__
    def open(s, p, arrays):
        f, out = getattr(Loops, p["case"]), [np.empty(shape, TYPES[t]) for t, shape in operands(p, 1)]
        x = arrays[0]
        shape, between = x.shape[:-1] if x.ndim > 1 else x.shape, x.dtype if x.dtype.kind == "f" else F
        more = [np.empty(shape, between) for _ in range(f.__code__.co_argcount - len(arrays) - len(out))]
        g, args = s.n.njit(parallel=p["case"] not in Loops.SERIAL, fastmath=True)(f), (*arrays, *out, *more)
        def call():
            g(*args)
            return out
        return call
    def sync(s, y): pass


# ---- as functions with a schedule ----
class Halide:
    """Pictures and grids. The dimensions of a buffer are NumPy's from last to first. Rows are shared out in strips, vectors go along x."""
    def __init__(s, threads):
        import halide
        from importlib.metadata import version
        s.h, s.name = halide, version("halide")
        s.k = halide.f32
        s.x, s.y, s.z, s.c, s.o, s.i = (halide.Var(n) for n in "xyzcoi")
    def version(s): return "Halide " + s.name
    def open(s, p, arrays):
        make = getattr(s, p["case"], None)
        if not make: return None
        in_, out = [s.h.ImageParam(s.type(a), a.ndim) for a in arrays], [np.empty(n, TYPES[t]) for t, n in operands(p, 1)]
        for q, a in zip(in_, arrays): s.place(q, a)
        f = make(p, *in_)
        for k, (q, a) in enumerate(zip(f.output_buffers(), out)): s.place(q, a, bounds=not k)   # Halide: all outputs are like the first
        g, args = f.compile_to_callable(in_, s.h.get_host_target()), [s.h.Buffer(a) for a in (*arrays, *out)]
        def call():
            g(*args)
            return out
        return call
    def sync(s, y): pass
    def type(s, a): return {"f": s.h.Float, "u": s.h.UInt}[a.dtype.kind](8 * a.dtype.itemsize)
    def place(s, q, a, bounds=True):
        """Sizes and strides, as constants of the code."""
        stride = 1
        for k, n in enumerate(reversed(a.shape)):
            if bounds: q.dim(k).set_bounds(0, n)
            q.dim(k).set_stride(stride)
            stride *= n
    def f32(s, x): return s.h.cast(s.h.Float(32), x)
    def u8(s, x): return s.h.cast(s.h.UInt(8), x)
    def rows(s, f, y, strip, lanes): return f.split(y, s.o, s.i, strip).parallel(s.o).vectorize(s.x, lanes)
    def around(s, q, *sizes): return s.h.BoundaryConditions.repeat_image(q, [(0, n) for n in sizes])
    def edge(s, q, *sizes): return s.h.BoundaryConditions.repeat_edge(q, [(0, n) for n in sizes])
    def grey_at(s, q, x, y): return s.f32(q[0, x, y]) * s.k(0.299) + s.f32(q[1, x, y]) * s.k(0.587) + s.f32(q[2, x, y]) * s.k(0.114)

    def grey(s, p, q):
        f = s.h.Func("grey")
        f[s.x, s.y] = s.u8(s.grey_at(q, s.x, s.y))
        return s.rows(f, s.y, 16, 32)
    def blend(s, p, q, r, a):
        f, wide = s.h.Func("blend"), lambda v: s.h.cast(s.h.Int(32), v)
        w = wide(a[0, s.x, s.y])
        f[s.c, s.x, s.y] = s.u8((wide(q[s.c, s.x, s.y]) * w + wide(r[s.c, s.x, s.y]) * (255 - w) + 128) * 257 >> 16)
        return s.rows(f.bound(s.c, 0, 3).reorder(s.c, s.x, s.y).unroll(s.c), s.y, 16, 32)
    def planes(s, p, q):
        f = s.h.Func("planes")
        f[s.x, s.y, s.c] = (s.f32(q[s.c, s.x, s.y]) * s.k(1 / 255) - s.k(0.45)) * s.k(1 / 0.225)
        return s.rows(f.bound(s.c, 0, 3).reorder(s.c, s.x, s.y).unroll(s.c), s.y, 16, 32)
    def edges(s, p, q):
        h, w, x, y = p["n"], p["m"], s.x, s.y
        g, across, down, f = (s.h.Func(n) for n in ("g", "across", "down", "f"))
        g[x, y] = s.grey_at(q, x, y)
        inner = s.edge(g, w, h)
        across[x, y] = sum(inner[x + k - 3, y] * s.k(t) for k, t in enumerate(TAPS))
        down[x, y] = sum(across[x, y + k - 3] * s.k(t) for k, t in enumerate(TAPS))
        d = s.edge(down, w, h)
        dx = lambda k: d[x + 1, y + k] - d[x - 1, y + k]
        sm = lambda k: d[x - 1, y + k] + d[x, y + k] * s.k(2) + d[x + 1, y + k]
        a, b = dx(-1) + dx(0) * s.k(2) + dx(1), sm(1) - sm(-1)
        f[x, y] = s.u8(s.h.min(s.h.sqrt(a * a + b * b), s.k(255)))
        s.rows(f, y, 135, 16)
        for e in g, across, down: e.compute_at(f, s.o).vectorize(x, 16)   # a strip at a time: a row at a time is 3.5 times slower
        return f
    def equalise(s, p, q):
        n, x, u = p["n"], s.x, s.h.Var("u")
        count, total, map, f, r, k = (*(s.h.Func(n) for n in ("count", "total", "map", "f")), s.h.RDom([(0, n)]), s.h.RDom([(1, 255)]).x)
        outer, inner = s.h.RVar("outer"), s.h.RVar("inner")
        count[x] = s.h.cast(s.h.UInt(32), 0)
        count[s.h.cast(s.h.Int(32), q[r])] += s.h.cast(s.h.UInt(32), 1)
        total[x] = count[x]
        total[k] = total[k] + total[k - 1]
        map[x] = s.u8(total[x] * s.h.cast(s.h.UInt(32), 255) / s.h.cast(s.h.UInt(32), n))
        f[x] = map[s.h.cast(s.h.Int(32), q[x])]
        part = count.compute_root().update(0).split(r, outer, inner, n // 32).rfactor(outer, u)
        part.compute_root().vectorize(x, 16).update(0).parallel(u)
        total.compute_root(); map.compute_root().bound(x, 0, 256).vectorize(x, 16)
        return f.split(x, s.o, s.i, 62500).parallel(s.o).vectorize(s.i, 32)

    def laplace(s, u): return u[s.x - 1, s.y] + u[s.x + 1, s.y] + u[s.x, s.y - 1] + u[s.x, s.y + 1] - u[s.x, s.y] * s.k(4)
    def wave(s, p, u, v):
        f, a = s.h.Func("wave"), s.around(u, p["m"], p["n"])
        f[s.x, s.y] = a[s.x, s.y] * s.k(2) - v[s.x, s.y] + s.laplace(a) * s.k(0.2)
        return s.rows(f, s.y, 16, 16)
    def grayscott(s, p, u, v):
        f, a, b = s.h.Func("grayscott"), *(s.around(q, p["n"], p["n"]) for q in (u, v))
        x, y = a[s.x, s.y], b[s.x, s.y]
        e = x * y * y
        f[s.x, s.y] = (x + (s.laplace(a) * s.k(0.16) - e + (s.k(1) - x) * s.k(0.035)), y + (s.laplace(b) * s.k(0.08) + e - y * s.k(0.1)))
        return s.rows(f, s.y, 16, 16)
    def heat3(s, p, q):
        f, a, x, y, z = s.h.Func("heat3"), s.edge(q, *[p["n"]] * 3), s.x, s.y, s.z
        near = a[x - 1, y, z] + a[x + 1, y, z] + a[x, y - 1, z] + a[x, y + 1, z] + a[x, y, z - 1] + a[x, y, z + 1]
        f[x, y, z] = a[x, y, z] + (near - a[x, y, z] * s.k(6)) * s.k(0.1)
        return s.rows(f, z, p["n"] // 2, 32)
    def life(s, p, q):
        f, a, x, y = s.h.Func("life"), s.around(q, p["n"], p["n"]), s.x, s.y
        n = sum((a[x + i, y + j] for i, j in ((-1, -1), (0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (0, 1))), a[x + 1, y + 1])
        f[x, y] = s.h.select((n == 3) | ((n == 2) & (a[x, y] != 0)), s.u8(1), s.u8(0))
        return s.rows(f, y, p["n"] // 2, 32)


PEERS = {"torch": Torch, "jax": Jax, "numba": Numba, "halide": Halide}
