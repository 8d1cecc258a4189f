# SPDX-License-Identifier: MIT
"""PyTorch's own samples of its operators (OpInfo), computed by tjit.

    python opinfo.py [-v] [-m eager,verify,direct,dynamic] [-l] [-n N] [REGEX]       REGEX: of the names of entries

Every sample of every dtype that both have runs op by op, and in one more way in turn: as a compiled function in verify and in direct
mode, with sizes that are arguments of the code, and with operands that lie in memory with gaps or backwards, op by op and compiled. A
result agrees if it has PyTorch's shape and dtype, and is as near to PyTorch's result as that library's own tests ask, or nearer to the
result of f64. mapping.py says how an entry is called; documented.txt lists the differences that docs/OPS.md or docs/NUMERICS.md names.
-l lists how often each of these occurs, and the entries that are not mapped. -n: at most N samples of a dtype."""
import argparse
import collections
import fnmatch
import os
import re
import sys
import time
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

import tj
from mapping import MAP, RANDOM, REFERENCE, NotHere

warnings.filterwarnings("ignore")
TORCH = dict(bool=torch.bool, u8=torch.uint8, i8=torch.int8, i16=torch.int16, i32=torch.int32, i64=torch.int64, f16=torch.float16,
             bf16=torch.bfloat16,
             f32=torch.float32, f64=torch.float64)
OURS = {v: k for k, v in TORCH.items()}
TOLERANCE = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7)}

LOOSE = {("nn.functional.conv_transpose3d", torch.float32): 2e-4}  # long sums, as in PyTorch's own tests


# ---- tensors of both ----
def lay_out(t, odd):
    """A tj tensor over t's elements, and what must live as long."""
    t = t.detach().resolve_conj().resolve_neg()
    if odd and t.dim():  # a gap between elements, and every second axis backwards
        wide = torch.zeros([2 * n for n in t.shape], dtype=t.dtype)
        view = wide[tuple(slice(0, None, 2) for _ in t.shape)]
        back = [i for i in range(t.dim()) if i % 2 == 0]
        view.copy_(t.flip(back))
        strides, first = list(view.stride()), 0
        for i in back:
            first += strides[i] * max(t.shape[i] - 1, 0)
            strides[i] = -strides[i]
        return tj.tensor(OURS[t.dtype], t.shape, view.data_ptr() + first * t.element_size() if t.numel()
                         else wide.data_ptr() or t.data_ptr(), strides), wide
    t = t.contiguous()
    return tj.tensor(OURS[t.dtype], t.shape, t.data_ptr()), t


def to_torch(t):
    if not isinstance(t, tj.Tensor):
        return t
    if tj.is_number(t):
        t = tj.reshape(t, ())
    y = torch.empty(t.shape, dtype=TORCH[t.dtype])
    t.read(y.data_ptr())
    return y


def foreign(x):
    return isinstance(x, torch.Tensor) and x.dtype not in OURS


# ---- a sample, computed ----
EVALUATED = set()  # entries with a step that the evaluator computed, compiled



def ours(name, f, sample, mode, nout, keep):
    """The results of f in a mode, as a list of PyTorch's tensors. nout: their number."""
    leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    given = []
    for i in places:
        t, memory = lay_out(leaves[i], mode.startswith("odd"))
        given.append(t)
        keep.append(memory)
    rest = [OURS.get(x, x) if isinstance(x, torch.dtype) else x for x in leaves]

    def body(*tensors):
        all_ = list(rest)
        for i, t in zip(places, tensors):
            all_[i] = t
        first, args, kwargs = tree_unflatten(all_, spec)
        return tree_flatten(f(first, *args, **kwargs))[0]

    if mode in ("eager", "odd"):
        return [to_torch(y) for y in body(*given)]
    c = tj.compile(body, len(given), nout, mode=tj.DIRECT if mode == "direct" else tj.VERIFY,
                   dynamic=tj.ON if mode == "dynamic" else tj.AUTO, name="sample")
    try:
        for _ in range(1 if mode == "dynamic" else 2):
            y = [to_torch(t) for t in c(*given)]
        if c.stats().eval_steps:
            EVALUATED.add(name)
        return y
    finally:
        c.free()


def exact(op, sample):
    """PyTorch's results in f64, or None."""
    def wide(x):
        if isinstance(x, torch.Tensor) and x.dtype.is_floating_point:
            return x.double()
        return torch.float64 if x in (torch.float16, torch.bfloat16, torch.float32) else x
    try:
        s = sample.transform(wide)
        return tree_flatten(op(s.input, *s.args, **s.kwargs))[0]
    except Exception:
        return None


def differs(name, got, want, best):
    """What is different, or None. best(): the same in f64."""
    if not isinstance(want, torch.Tensor):
        got = got.item() if isinstance(got, torch.Tensor) else got
        if got == want or (got != got and want != want) or (isinstance(want, float) and abs(got - want) <= 1e-6 * abs(want) + 1e-9):
            return None
        return f"{got} is not {want}"
    if not isinstance(got, torch.Tensor):
        got = torch.tensor(got)
    if tuple(got.shape) != tuple(want.shape):
        return f"shape {tuple(got.shape)} is not {tuple(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype} is not {want.dtype}"
    if name in RANDOM:
        return None
    want = want.detach()
    if not want.dtype.is_floating_point:
        return None if torch.equal(got, want) else f"{got.flatten()[:6].tolist()} is not {want.flatten()[:6].tolist()}"
    rtol, atol = TOLERANCE[want.dtype]
    atol = max(atol, LOOSE.get((name, want.dtype), 0))
    near = torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    if not near.all():
        right = best()
        if right is not None and right.shape == got.shape:
            near |= (got.double() - right).abs() <= torch.maximum((want.double() - right).abs(), (rtol * right.abs() + atol))
            near |= got == right.to(got.dtype)
    if near.all():
        return None
    at = (~near).flatten().nonzero()[0].item()
    return f"element {at} is {got.flatten()[at].item()!r}, not {want.flatten()[at].item()!r} ({(~near).sum().item()} of {near.numel()})"


def samples_of(op, dtype, most):
    seen = 0
    for source in (op.sample_inputs, op.reference_inputs):
        try:
            for s in source("cpu", dtype, requires_grad=False):
                yield s
                seen += 1
                if most and seen >= most:
                    return
        except Exception:
            continue


class Run:
    def __init__(self, modes, most, verbose):
        self.modes, self.most, self.verbose = modes, most, verbose
        self.samples, self.failed, self.documented, self.absent, self.turn = 0, 0, 0, 0, 0
        self.rules = [line.split(None, 3) for line in open(os.path.join(os.path.dirname(__file__), "documented.txt"))
                      if line.strip() and line[0] != "#"]
        self.used = collections.Counter()

    def rule(self, name, dtype, text):
        for i, (entry, types, part, _) in enumerate(self.rules):
            if fnmatch.fnmatch(name, entry) and (types == "*" or dtype in types.split(",")) and (part == "*" or part.replace("_",
                    " ") in text):
                self.used[i] += 1
                return True
        return False

    def sample(self, op, name, dtype, s, f):
        try:
            want = tree_flatten(REFERENCE.get(name, op)(s.input, *s.args, **s.kwargs))[0]
        except Exception:
            return []
        if any(foreign(x) for x in tree_flatten((s.input, s.args, s.kwargs, want))[0]):
            return []
        self.samples += 1
        self.turn += 1
        found = []
        for mode in dict.fromkeys(["eager", self.modes[self.turn % len(self.modes)]]):
            keep = []
            with self.context:
                try:
                    got = ours(name, f, s, mode, len(want), keep)
                    text = f"{len(got)} results, not {len(want)}" if len(got) != len(want) else None
                    for k, (a, b) in enumerate(zip(got, want)):
                        right = []

                        def best():
                            if not right:
                                right.append(exact(op, s))
                            return right[0][k] if right[0] is not None and isinstance(right[0][k], torch.Tensor) else None
                        text = text or differs(name, a, b, best)
                except AttributeError:
                    raise
                except NotHere:
                    self.absent += 1
                    return []
                except Exception as e:
                    text = f"{type(e).__name__}: {e}"
            if text:
                found.append(f"{mode}: {text}")
                break
        return found

    def entry(self, op, name):
        f, bad, known, count = MAP[name], [], 0, 0
        for dtype in sorted(op.supported_dtypes("cpu") & set(OURS), key=str):
            torch.manual_seed(1)
            self.context = tj.Context()
            for s in samples_of(op, dtype, self.most):
                count += 1
                for text in self.sample(op, name, dtype, s, f):
                    if self.rule(name, OURS[dtype], text):
                        known += 1
                    else:
                        bad.append(f"{OURS[dtype]} {s.summary()[:300] if self.verbose else ''}: {text}")
            self.context.close()
        self.failed += len(bad)
        self.documented += known
        return bad, known, count


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-v", action="store_true")
    p.add_argument("-l", action="store_true")
    p.add_argument("-m", default="verify,odd,direct,odd-verify,dynamic")
    p.add_argument("-n", type=int, default=0)
    p.add_argument("regex", nargs="?", default="")
    a = p.parse_args()
    run, start = Run(a.m.split(","), a.n, a.v), time.time()
    agree, part, differ, missing = [], [], [], []
    entries = [(op, op.name + ("." + op.variant_test_name if op.variant_test_name else "")) for op in op_db]
    for i, (op, name) in enumerate(entries):
        if a.regex and not re.search(a.regex, name):
            continue
        if name not in MAP:
            missing.append(name)
            continue
        if sys.stderr.isatty():
            print(f"\r{i}/{len(entries)} {name:60.60}", end="", file=sys.stderr, flush=True)
        before = run.absent
        try:
            bad, known, count = run.entry(op, name)
        except AttributeError as e:
            missing.append(f"{name} ({e})")
            continue
        if count == 0:
            missing.append(f"{name} (no sample)")
            continue
        (differ if bad else part if run.absent > before else agree).append(name)
        if bad:
            print(f"DIFFERS {name}: {len(bad)} of {count}")
            for line in bad[:20 if a.v else 3]:
                print(f"    {line[:900]}")
            sys.stdout.flush()
    for i, (entry, types, text, _) in enumerate(run.rules):
        if not a.regex and not a.n and not run.used[i]:
            print(f"documented.txt: nothing differs as in: {entry} {types} {text}")
    if EVALUATED:
        print("computed by the evaluator, in part:", *sorted(EVALUATED), sep="\n    ")
    if a.l:
        print("documented:", *(f"{run.used[i]} {r[0]} {r[1]} {r[2]}" for i, r in enumerate(run.rules) if run.used[i]), sep="\n    ")
        print("in part:", *part, sep="\n    ")
        print("not mapped:", *missing, sep="\n    ")
    print(f"{len(entries)} entries: {len(agree)} agree, {len(part)} in part, {len(differ)} differ, {len(missing)} are not mapped; "
          f"{run.samples} samples, {run.documented} differ as documented, {run.absent} ask for options that are not there, "
          f"{time.time() - start:.0f} s")
    print(f"{run.samples - run.failed - run.absent} passed, {run.failed} failed, {run.absent} skipped")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
