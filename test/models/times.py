# SPDX-License-Identifier: MIT
"""Times of `tj run` beside onnxruntime, in turns, for the cases that real.py wrote.

  python3 test/models/times.py BUILD FOLDER [WORD]

For each case and 1 and 2 threads: the least of three medians, in microseconds, of tjit in TJ_STRICT and TJ_FAST and of onnxruntime;
how many times faster each of the first two is than the last.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort


def ours(build, at, nin, calls, threads, fast):
    words = [f"{build}/tj", "run", *(["--fast"] if fast else []), "--json", "--time", str(calls), f"{at}/model.onnx"]
    for k in range(nin):
        words += ["-i", f"{k}={at}/in{k}.npy"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TJ_THREADS": str(threads)}, check=False)
    return json.loads(done.stdout)["time"]["median_us"] if done.returncode == 0 else float("nan")


def theirs(session, feed, calls):
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        session.run(None, feed)
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def main(build, folder, word=""):
    ort.set_default_logger_severity(3)
    for line in open(f"{folder}/cases.txt"):
        number, name, nin = line.split()[:3]
        at = f"{folder}/{number}"
        if word not in name:
            continue
        row = f"{name:32}"
        for threads in (1, 2):
            o = ort.SessionOptions()
            o.intra_op_num_threads = threads
            session = ort.InferenceSession(f"{at}/model.onnx", o, providers=["CPUExecutionProvider"])
            feed = {i.name: np.load(f"{at}/in{k}.npy") for k, i in enumerate(session.get_inputs())}
            session.run(None, feed)
            once = theirs(session, feed, 3)
            calls = int(min(200, max(5, 3e5 / once)))
            a, b, c = [], [], []
            for _ in range(3):
                a.append(ours(build, at, int(nin), calls, threads, False))
                b.append(ours(build, at, int(nin), calls, threads, True))
                c.append(theirs(session, feed, calls))
            row += f" | {threads}: {min(a):8.0f} {min(b):8.0f} {min(c):8.0f} {min(c) / min(a):5.2f} {min(c) / min(b):5.2f}"
        print(row, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
