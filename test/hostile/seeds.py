# SPDX-License-Identifier: MIT
"""Writes the files that `make fuzz-files` begins with: those that the tests of the kit have, and a few more.

  python3 test/hostile/seeds.py FOLDER [CASES]

CASES is the folder of test/models/cases.py, whose small models are taken where it is there; without them ONNX begins with nothing.
FOLDER/parser/N are the files, FOLDER/parser.dict the words of its format.
"""

import ast
import glob
import gzip
import os
import re
import struct
import sys
import zlib

WORDS = {  # escapes are those of libFuzzer's dictionaries
    "onnx": r"axis pads dilations strides kernel_shape Conv Add Reshape If Loop Scan body then_branch value \x0a\x00 \x12\x02 "
    r"\xff\xff\xff\xff\x0f \x80\x80\x80\x80\x80\x80\x80\x80\x80\x01 location ../x offset length",
    "safetensors": r"{ } [ ] : , \"dtype\" \"shape\" \"data_offsets\" \"F32\" \"BF16\" \"BOOL\" __metadata__ -1 9223372036854775807 1e9",
    "npy": r"\x93NUMPY\x01\x00 \x93NUMPY\x02\x00 'descr' '<f4' '|b1' '<V2' 'fortran_order' True False 'shape' ( ) (), "
    r"9223372036854775807 L",
    "npz": r"PK\x01\x02 PK\x03\x04 PK\x05\x06 PK\x06\x06 PK\x06\x07 .npy \xff\xff\xff\xff \x93NUMPY",
    "gguf": r"GGUF\x03\x00\x00\x00 \x09\x00\x00\x00 \x08\x00\x00\x00 general.alignment \x00\x00\x00\x00\x00\x00\x00\x80 "
    r"\xff\xff\xff\xff\xff\xff\xff\xff \x01\x00\x00\x00\x00\x00\x00\x00",
    "tokenizer": r"\"type\": { } [ ] , : true false null \"BPE\" \"WordPiece\" \"ByteLevel\" \"Replace\" \"Regex\" \"String\" \"Split\" "
    r"\"Sequence\" \"Metaspace\" \"Strip\" \"NFKC\" \"Digits\" \"decoder\" \"normalizer\" \\C \\K (?<=a) \"ByteFallback\" "
    r"\"Fuse\" \"Punctuation\" \"behavior\" 67108863 \\u0120",
    "bpe": r"{ } : , \" #version \xfe \x20 \x0a \\u0120 -1 99999999",
    "csv": r"\" \"\" , \x0d\x0a \x0a nan inf -1 1e999 9223372036854775808 \xef\xbb\xbf ; \x09",
    "idx": r"\x00\x00\x08\x03 \x00\x00\x0d\x01 \x1f\x8b\x08 \xff\xff\xff\xff",
    "png": r"IHDR IDAT IEND PLTE tRNS gAMA iCCP sRGB tEXt \x00\x00\x00\x0d \xff\xff\xff\xff",
    "jpeg": r"\xff\xd8 \xff\xc0 \xff\xc2 \xff\xc4 \xff\xda \xff\xdb \xff\xdd \xff\xd9 \xff\xe0 \xff\xee Adobe JFIF",
}


def literals(path, name):
    """The bytes of a char array of a C file."""
    text = open(path, encoding="latin-1").read()
    body = re.search(r"static const char " + name + r"\[\] =\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+);", text).group(1)
    return b"".join(ast.literal_eval("b" + s) for s in re.findall(r"\"(?:[^\"\\]|\\.)*\"", body))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(color, depth, rows):
    """A picture of 3 x 2."""
    head = struct.pack(">IIBBBBB", 3, 2, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(descr, shape, data, version=1):
    head = ("{'descr': %r, 'fortran_order': False, 'shape': %r, }" % (descr, shape)).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data


def byte_name(b):
    visible = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    return chr(b) if b in visible else chr(256 + [x for x in range(256) if x not in visible].index(b))


def pairs():
    """encoder.json and vocab.bpe of three merges, FE between them."""
    names = [byte_name(b) for b in range(256)] + ["th", "the", "\u0120the"]
    vocab = "{" + ",".join('"%s":%d' % (n.replace("\\", "\\\\").replace('"', '\\"'), i) for i, n in enumerate(names)) + "}"
    return vocab.encode() + b"\xfe" + "#version: 0.2\nt h\nth e\n\u0120 the\n".encode()


def seeds(cases):
    kit = "test/kit/"
    image = [literals(kit + "test_image.c", n) for n in ("rgb", "pal", "gray16", "ga")]
    gguf = re.search(r"recorded\[\] = \{(.*?)\};", open(kit + "recorded_gguf.inc").read(), re.S).group(1)
    small = '{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"\u0120":3},"merges":["a b"]},%s}'
    part = [
        '"decoder":{"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Replace","pattern":{"Regex":"a+"},"content":"b"}]}',
        '"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?<=a)b|\\\\s+"},"behavior":"MergedWithNext","invert":true}',
        '"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Strip"},{"type":"Prepend","prepend":"x"}]}',
        '"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},'
        '{"type":"Strip","content":" ","start":1,"stop":1}]}',
        '"added_tokens":[{"id":4,"content":"<s>","single_word":true,"lstrip":true,"rstrip":true,"normalized":true,"special":true}]',
    ]
    return {
        "onnx": [open(p, "rb").read() for p in sorted(glob.glob(cases + "/*/model.onnx")) if os.path.getsize(p) < 2000],
        "safetensors": [literals(kit + "test_safetensors.c", "recorded"), b"\2\0\0\0\0\0\0\0{}"],
        "npy": [npy("<f4", (2, 3), bytes(24)), npy("|b1", (), b"\1", 2), npy("<i8", (0, 5), b""), npy("<V2", (3,), bytes(6), 3)],
        "npz": [literals(kit + "test_npz.c", n) for n in ("stored", "deflated")],
        "gguf": [bytes(int(x) for x in gguf.replace("\n", "").split(",") if x.strip())],
        "tokenizer": [open(kit + "tokenizers/%s.txt" % n, "rb").read() for n in ("gpt2", "llama2", "llama3", "bert")]
        + [(small % p).encode() for p in part],
        "bpe": [pairs()],
        "csv": [b"a,b\n1,2\n", b'\xef\xbb\xbfname,age,"h, ""m"""\r\nann,31,1.75\r\n"two\nlines", 7 ,nan\nann,,'],
        "idx": [
            b"\0\0\x08\3\0\0\0\1\0\0\0\2\0\0\0\2abcd",
            b"\0\0\x0d\1\0\0\0\1\0\0\x80\x3f",
            gzip.compress(b"\0\0\x08\1\0\0\0\2ab", mtime=0),
        ],
        "png": image + [png(2, 8, bytes(20)), png(0, 1, bytes(4)), png(6, 16, bytes(50))],
        "jpeg": [literals(kit + "test_image.c", n) for n in ("jgray", "jrgb", "jprog")],
    }


def main(folder, cases="none"):
    for name, files in seeds(cases).items():
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        for i, v in enumerate(files):
            with open(f"{folder}/{name}/{i}", "wb") as f:
                f.write(v)
        with open(f"{folder}/{name}.dict", "w") as f:
            f.writelines(f'"{w}"\n' for w in WORDS[name].split())


if __name__ == "__main__":
    main(*sys.argv[1:])
