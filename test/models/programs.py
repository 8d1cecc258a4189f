# SPDX-License-Identifier: MIT
"""Prints what the examples vad, ocr and filetypes must print, as onnxruntime and NumPy compute it: test/programs.sh -w calls it.

  python3 test/models/programs.py vad|ocr|filetypes FILE...     needs numpy, onnxruntime and Pillow
"""
import json
import math
import os
import sys
import wave

import numpy as np
import onnxruntime as ort
from PIL import Image

FOLDER = "build/models/onnx/"


def session(name):
    return ort.InferenceSession(f"{FOLDER}{name}.onnx", providers=["CPUExecutionProvider"])


def resampled(x, old, new):
    """torchaudio.functional.resample, sinc_interp_hann."""
    common = math.gcd(old, new)
    old, new = old // common, new // common
    base = min(old, new) * 0.99
    width = math.ceil(6 * old / base)
    t = np.arange(0, -new, -1)[:, None] / new + np.arange(-width, width + old)[None] / old
    t = np.clip(t * base, -6, 6)
    k = (np.sinc(t) * np.cos(t * np.pi / 12) ** 2 * base / old).astype(np.float32)
    length = math.ceil(new * len(x) / old)
    x = np.pad(x, (width, width + old))
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[1])[::old]
    return (windows @ k.T).reshape(-1)[:length]


def segments(p, chunk, length):
    """get_speech_timestamps_from_probs of silero-vad 6.2 without a longest duration."""
    found, begin, end = [], None, None
    for i, v in enumerate(p):
        now = i * chunk
        if v >= 0.5:
            end = None
            begin = now if begin is None else begin
        elif begin is not None and v < 0.35:
            end = now if end is None else end
            if now - end >= 0.1:
                if end - begin > 0.25:
                    found.append([begin, end])
                begin = end = None
    if begin is not None and length - begin > 0.25:
        found.append([begin, length])
    for i, s in enumerate(found):
        s[0] = max(0, s[0] - 0.03) if i == 0 else s[0]
        room = 0.03 if i + 1 == len(found) else min(0.03, (found[i + 1][0] - s[1]) / 2)
        s[1] = min(length, s[1] + room)
        if i + 1 < len(found):
            found[i + 1][0] -= room
    return found


def vad(path):
    with wave.open(path) as w:
        rate, channels = w.getframerate(), w.getnchannels()
        x = np.frombuffer(w.readframes(w.getnframes()), "<i2").reshape(-1, channels).astype(np.float32).mean(1) / 32768
    to = 8000 if rate < 16000 else 16000
    if rate != to:
        x = resampled(x, rate, to)
    model, chunk, before = session("silero_vad"), to * 32 // 1000, to * 4 // 1000
    state, context, p = np.zeros((2, 1, 128), np.float32), np.zeros(before, np.float32), []
    for at in range(0, len(x), chunk):
        part = x[at:at + chunk].astype(np.float32)
        part = np.concatenate([context, part, np.zeros(chunk - len(part), np.float32)])
        y, state = model.run(None, {"input": part[None], "state": state, "sr": np.array(to, np.int64)})
        context = part[-before:]
        p.append(float(y[0, 0]))
    print(f"silero_vad: {len(x) / to:.2f} s at {rate}, {channels} channel{'s' if channels > 1 else ''}; "
          f"mean probability of speech {np.mean(p):.3f}")
    for begin, end in segments(p, 0.032, len(x) / to):
        print(f"speech from {begin:.2f} s to {end:.2f} s")


def interpolated(x, size, axis):
    """Bilinear along an axis, as PyTorch and OpenCV do it."""
    at = np.maximum((np.arange(size) + 0.5) * x.shape[axis] / size - 0.5, 0)
    low = np.floor(at).astype(int)
    part = (at - low).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    high = np.minimum(low + 1, x.shape[axis] - 1)
    return x.take(low, axis) * (1 - part) + x.take(high, axis) * part


def prepared(image, height, width):
    x = interpolated(interpolated(image.astype(np.float64)[:, :, ::-1], height, 0), width, 1)
    return (x * 2 / 255 - 1).transpose(2, 0, 1)[None].astype(np.float32)


def line_of(image, least, most):
    width = min(most, math.ceil(48 * image.shape[1] / image.shape[0]))
    return np.pad(prepared(image, 48, width), ((0, 0), (0, 0), (0, 0), (0, max(0, least - width))))


def boxes(p, height, width):
    mask = p > 0.3
    mask[1:] |= mask[:-1].copy()
    mask[:, 1:] |= mask[:, :-1].copy()
    found = []
    for at in np.argwhere(mask):
        if not mask[tuple(at)]:
            continue
        pixels, todo = [], [tuple(at)]
        mask[tuple(at)] = False
        while todo:
            y, x = todo.pop()
            pixels.append((y, x))
            for i in range(max(0, y - 1), min(mask.shape[0], y + 2)):
                for k in range(max(0, x - 1), min(mask.shape[1], x + 2)):
                    if mask[i, k]:
                        mask[i, k] = False
                        todo.append((i, k))
        top, left = np.min(pixels, 0)
        bottom, right = np.max(pixels, 0)
        w, h = right - left, bottom - top
        if min(w, h) < 3 or p[top:bottom + 1, left:right + 1].mean() < 0.5:
            continue
        grow = w * h * 1.6 / (2 * (w + h))

        def scaled(v, old, new):
            return int(min(max(math.floor(v / old * new + 0.5), 0), new))
        found.append((scaled(left - grow, p.shape[1], width), scaled(top - grow, p.shape[0], height),
                      scaled(right + grow, p.shape[1], width), scaled(bottom + grow, p.shape[0], height)))
    for i in range(1, len(found)):
        for k in range(i, 0, -1):
            a, b = found[k - 1], found[k]
            if b[1] - a[1] >= 10 or (b[1] > a[1] - 10 and b[0] >= a[0]):
                break
            found[k - 1], found[k] = b, a
    return found


def ocr(path):
    image = np.asarray(Image.open(path).convert("RGB"))
    height, width = image.shape[:2]
    ratio = max(1, 736 / min(height, width))
    size = [round(int(v * ratio) / 32) * 32 for v in (height, width)]
    find, turn, read = (session(n) for n in ("ch_PP-OCRv4_det_infer", "ch_ppocr_mobile_v2.0_cls_infer", "ch_PP-OCRv4_rec_infer"))
    alphabet = ["", *read.get_modelmeta().custom_metadata_map["character"].split("\n"), " "]
    lines = 0
    for left, top, right, bottom in boxes(find.run(None, {"x": prepared(image, *size)})[0][0, 0], height, width):
        line = image[top:bottom, left:right]
        if 2 * line.shape[0] >= 3 * line.shape[1]:
            line = np.rot90(line)
        turned = turn.run(None, {"x": line_of(line, 192, 192)})[0][0, 1] > 0.9
        if turned:
            line = line[::-1, ::-1]
        y = read.run(None, {"x": line_of(line, 320, 1 << 30)})[0][0]
        best = y.argmax(1)
        kept = (best != 0) & (np.r_[True, best[1:] != best[:-1]])
        if kept.any() and y.max(1)[kept].mean() >= 0.5:
            text = "".join(alphabet[k] for k in best[kept])
            print(f"{left},{top} to {right},{bottom}: {text} ({y.max(1)[kept].mean():.2f}{', upside down' if turned else ''})")
            lines += 1
    print(f"PP-OCRv4: {width} x {height}, {lines} lines of text")


def filetype(path, model, config, types):
    """Magika._get_results_from_paths of magika 1.0."""
    if os.path.isdir(path):
        return "directory", 1
    with open(path, "rb") as f:
        data = f.read()
    few = "empty"
    if data:
        try:
            data[:4096].decode("utf-8")
            few = "txt"
        except UnicodeDecodeError:
            few = "unknown"
    begin, end = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
    if len(data) < 8 or len(begin) < 8:
        return few, 1
    y = model.run(None, {"bytes": np.array([[*begin, *[256] * (2048 - len(begin) - len(end)), *end]], np.int32)})[0][0]
    label = config["target_labels_space"][y.argmax()]
    least = config["thresholds"].get(label, config["medium_confidence_threshold"])
    label = config["overwrite_map"].get(label, label)
    return (label if y.max() >= least else "txt" if types[label]["is_text"] else "unknown"), y.max()


def filetypes(*paths):
    model, config, types = session("magika"), json.load(open(FOLDER + "magika.json")), json.load(open(FOLDER + "magika_types.json"))
    longest = max(map(len, paths))
    for path in paths:
        label, p = filetype(path, model, config, types)
        print(f"{path + ':':{longest + 1}} {label}: {types[label]['description']}, {p:.2f}")
    print(f"magika: {len(paths)} files")


if __name__ == "__main__":
    ort.set_default_logger_severity(3)
    {"vad": vad, "ocr": ocr, "filetypes": filetypes}[sys.argv[1]](*sys.argv[2:])
