# SPDX-License-Identifier: MIT
"""Times of `tj run` beside onnxruntime, and OpenVINO if it is there, in turns, for the cases that real.py wrote.

  python3 test/models/times.py BUILD FOLDER [WORD]

For each case and 1 and 2 threads: the least of three medians, in microseconds, of tjit in TJ_STRICT and TJ_FAST, of onnxruntime and of
OpenVINO in f32; how many times faster each of the first two is than the better of the others. At the end the geometric means.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

try:
    import openvino as ov
except ImportError:
    ov = None


def ours(build, at, nin, calls, threads, fast):
    words = [f"{build}/tj", "run", *(["--fast"] if fast else []), "--json", "--time", str(calls), f"{at}/model.onnx"]
    for k in range(nin):
        words += ["-i", f"{k}={at}/in{k}.npy"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "TJ_THREADS": str(threads)}, check=False)
    return json.loads(done.stdout)["time"]["median_us"] if done.returncode == 0 else float("nan")


def theirs(call, calls):
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def onnxruntime(path, threads):
    o = ort.SessionOptions()
    o.intra_op_num_threads = threads
    session = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    return [i.name for i in session.get_inputs()], lambda feed: session.run(None, feed)


def openvino(path, feed, threads):
    """None: there is no OpenVINO, or it refuses the model."""
    if not ov:
        return None
    try:
        settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        request = ov.Core().compile_model(path, "CPU", settings).create_infer_request()
        request.infer(feed)
        return lambda: request.infer(feed)
    except Exception:  # pylint: disable=broad-except
        return None


def row(build, at, nin, threads):
    names, run = onnxruntime(f"{at}/model.onnx", threads)
    feed = {name: np.load(f"{at}/in{k}.npy") for k, name in enumerate(names)}
    run(feed)
    other = openvino(f"{at}/model.onnx", feed, threads)
    calls = int(min(200, max(5, 3e5 / theirs(lambda: run(feed), 3))))
    t = [[], [], [], []]
    for _ in range(3):
        t[0].append(ours(build, at, nin, calls, threads, False))
        t[1].append(ours(build, at, nin, calls, threads, True))
        t[2].append(theirs(lambda: run(feed), calls))
        t[3].append(theirs(other, calls) if other else math.inf)
    return [min(x) for x in t]


def main(build, folder, word=""):
    ort.set_default_logger_severity(3)
    means = {1: [[], []], 2: [[], []]}
    for line in open(f"{folder}/cases.txt", encoding="utf-8"):
        number, name, nin = line.split()[:3]
        if word not in name:
            continue
        text = f"{name:32}"
        for threads in (1, 2):
            strict, fast, one, two = row(build, f"{folder}/{number}", int(nin), threads)
            best = min(one, two)
            text += f" | {threads}: {strict:8.0f} {fast:8.0f} {one:8.0f} {two:8.0f} {best / strict:5.2f} {best / fast:5.2f}"
            means[threads][0].append(best / strict)
            means[threads][1].append(best / fast)
        print(text, flush=True)
    for threads, each in means.items():
        print(f"{threads} threads: strict {statistics.geometric_mean(each[0]):.2f}, fast {statistics.geometric_mean(each[1]):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
