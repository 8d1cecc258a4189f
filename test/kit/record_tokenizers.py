#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokenisers of the package tokenizers, trained on texts of this machine, and what they make of lines.

    python3 test/kit/record_tokenizers.py check build/test/kit/tokenize [lines]      compares ids and texts of each line, 10,000 at first
    python3 test/kit/record_tokenizers.py record test/kit/tokenizers                 writes the small files and lines of test_tokenizer.c
"""
import glob, gzip, json, os, random, subprocess, sys, tempfile
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SCRIPTS = {
    "Latin":
        "Größe, naïve café; Ærøskøbing — “déjà vu”, Đà Nẵng, İstanbul ISIGI ŞIĞ, œuvre, ﬁne "
        "ﬂow, Ǆ ǅ ǆ, ẞtraße, Å Å",
    "Greek": "Ὀδυσσεύς ἄνδρα μοι ἔννεπε ΣΊΣΥΦΟΣ ΐ ϋ",
    "Cyrillic": "Съешь же ещё этих мягких французских булок, Ёлка й й",
    "Han": "我能吞下玻璃而不伤身体。東京都庁舎、𠮷野家 豈更",
    "Kana": "いろはにほへと ちりぬるを ｶﾞｷﾞ ガギ ㌢ ①②③",
    "Hangul": "키스의 고유조건은 입술끼리 만나야 ᄒᆞᆫ글",
    "Arabic": "نص حكيم له سر قاطع ١٢٣ لَا إِلَٰهَ",
    "Hebrew": "דג סקרן שט בים מאוכזב שָׁלוֹם",
    "Devanagari":
        "ऋषियों को सताने वाले दुष्ट राक्षसों १२३ क"
        "़",
    "Thai": "เป็นมนุษย์สุดประเสริฐ ๑๒๓",
    "Emoji":
        "😀 👩\u200d👩\u200d👧\u200d👦 🇩🇪 👍🏽 ❤️ ☃ ✈️ 🏴\U000e0067\U000e0062\U000e0065"
        "\U000e006e\U000e0067\U000e007f",
    "Marks": "Z̷̢͇a̛l̀g̣o é ë n̂ ạ́",
    "Space": "a\xa0b\u2003c\u3000d\u2028e\u200bf\ufeffg\x85h\ti  j   k\u202fl",
    "Controls": "a\x00b\x01c\x7fd\u200de\xadf�g",
    "Code":
        "for (int i = 0; i < n; i++) { x[i] += 1e-3f; } // it's can't WE'LL they'd I'm you've 12345678 3.14 __init__ $"
        "€£¥ a_b <s> </s> <0x41>",
}
def texts():  # of the machine: plain English, code, translations
    for pattern in ("/usr/share/common-licenses/*", "/usr/share/perl/5*/**/*.pm", "/usr/share/i18n/locales/*", "/usr/share/doc/**/*.gz",
                    "/usr/share/zoneinfo/*.tab"):
        for path in sorted(glob.glob(pattern, recursive=True))[:60]:
            try: data = (gzip.open if path.endswith(".gz") else open)(path, "rb").read(200000)
            except OSError: continue
            yield data.decode("utf-8", "replace")
def lines(n, seed=1):
    r = random.Random(seed)
    pool = [l for t in texts() for l in t.split("\n") if l.strip()]
    marks = ["\u0301", "\u0327", " ", "  ", "\n", "\r\n", "\t", "'s", "'", "<s>", "[MASK]", "<|end|>", "\u00a0", "😀", "9", "İ",
             "ß", "ñ", "n\u0303", "!", "…"]
    blocks = [(32, 0x250), (0x370, 0x500), (0x5d0, 0x5eb), (0x4e00, 0x9fa0), (0x1e00, 0x1f00), (0x2010, 0x2050), (0xac00, 0xd7a0),
              (0x1f600, 0x1f640)]
    def known(): return chr(r.choice([r.randrange(*b) for b in blocks]))
    for i in range(n):
        kind = r.randrange(8)
        if kind < 3 and pool: yield r.choice(pool)[:400]
        elif kind < 5: yield " ".join(r.sample(list(SCRIPTS.values()), r.randrange(1, 4)))[r.randrange(8):]
        elif kind == 5: yield "".join(known() for _ in range(r.randrange(1, 60)))
        elif kind == 6:
            s = list(r.choice(list(SCRIPTS.values())))
            for _ in range(r.randrange(1, 9)): s.insert(r.randrange(len(s) + 1), r.choice(marks))
            yield "".join(s)
        else: yield "".join(r.choice(marks + ["a", "the", "The", " of", "12", "x"]) for _ in range(r.randrange(0, 30)))

def learned(seed): return (l.replace("\0", "") for l in lines(4000, seed))  # jansson has no keys with a zero
def few(vocab): return 60 if vocab < 1000 else 1 << 20
def bpe(vocab, pre, norm=None, dec=None, post=None, extra=(), added=True, **how):
    t = Tokenizer(models.BPE(**how))
    t.pre_tokenizer, t.normalizer = pre, norm or t.normalizer
    special = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if how.get("byte_fallback") else [])
    level = dec is None
    t.train_from_iterator(learned(2), trainers.BpeTrainer(
        vocab_size=vocab, show_progress=False, limit_alphabet=1 << 20 if level else few(vocab),
        special_tokens=special if not level else ["<|end|>"] if added else [],
        continuing_subword_prefix=how.get("continuing_subword_prefix") or "",
        end_of_word_suffix=how.get("end_of_word_suffix") or "", initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if level else []))
    t.decoder = decoders.ByteLevel() if level else dec
    if post: t.post_processor = post(t)
    if extra: t.add_tokens(list(extra))
    return t
def template(t): return processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1",
                                                       special_tokens=[("<s>", t.token_to_id("<s>")), ("</s>", t.token_to_id("</s>"))])
def wordpiece(vocab, pre=None, **norm):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(**norm), pre or pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(learned(3), trainers.WordPieceTrainer(
        vocab_size=vocab, show_progress=False, limit_alphabet=few(vocab), special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.decoder = decoders.WordPiece()
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", t.token_to_id("[CLS]")), ("[SEP]", t.token_to_id("[SEP]"))])
    return t
P, N, D = pre_tokenizers, normalizers, decoders
def all_of(size):
    extra = [AddedToken("<mask>", lstrip=True, special=True), AddedToken("THE", single_word=True, normalized=True),
             AddedToken("of it", rstrip=True)]
    llama_decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    return {
        "gpt2": lambda: bpe(size, P.ByteLevel(add_prefix_space=False)),
        "vocab": lambda: bpe(size, P.ByteLevel(add_prefix_space=False), added=False),
        "roberta": lambda: bpe(size, P.ByteLevel(add_prefix_space=True), extra=extra),
        "llama3": lambda: bpe(size, P.Sequence([P.Split(Regex(GPT4), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]),
                              ignore_merges=True),
        "llama2": lambda: bpe(size, P.Metaspace(prepend_scheme="never"), N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]),
                              llama_decoder, template, unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        "metaspace": lambda: bpe(size, P.Metaspace(), N.NFKC(), D.Metaspace(), template, unk_token="<unk>", fuse_unk=True),
        "first": lambda: bpe(size, P.Sequence([P.Digits(True), P.Metaspace(prepend_scheme="first", split=False)]), N.NFC(), D.Metaspace(),
                             unk_token="<unk>"),
        "clip": lambda: bpe(size, P.Whitespace(), N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]), D.BPEDecoder(),
                            unk_token="<unk>", end_of_word_suffix="</w>"),
        "prefix": lambda: bpe(size, P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous"), P.Digits(False)]),
                              N.Sequence([N.NFD(), N.StripAccents(), N.Strip()]), D.WordPiece(), unk_token="<unk>",
                              continuing_subword_prefix="##"),
        "bert": lambda: wordpiece(size), "bert_cased": lambda: wordpiece(size, lowercase=False, strip_accents=False),
        "bert_plain": lambda: wordpiece(size, P.Split("e", "merged_with_previous"), clean_text=False, handle_chinese_chars=False,
                                        strip_accents=True, lowercase=False),
        "split_next": lambda: bpe(size, P.Sequence([P.Split(Regex(r"[aeiou]"), "merged_with_next"), P.Split("x", "removed"),
                                                    P.ByteLevel(False, use_regex=True)])),
    }
def escape(s): return s.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
def expected(t, l):
    ids = t.encode(l).ids
    return " ".join(map(str, ids)), escape(t.decode(ids))

if sys.argv[1] == "check":
    n, bad = int(sys.argv[3]) if len(sys.argv) > 3 else 10000, 0
    for name, make in all_of(3000).items():
        t = make()
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "tokenizer.json")
            t.save(path)
            files = [path]
            if name == "vocab": files = t.model.save(d)  # vocab.json and merges.txt, as GPT-2 has them
            data = list(lines(n))
            out = subprocess.run([sys.argv[2], *files], input="\n".join(map(escape, data)).encode() + b"\n", capture_output=True)
        got = out.stdout.decode("utf-8", "replace").split("\n")
        pairs = [(l, expected(t, l), tuple(got[2 * i:2 * i + 2])) for i, l in enumerate(data)]
        wrong = [p for p in pairs if p[1] != p[2]]
        print(f"{name}: {t.get_vocab_size()} tokens, {len(data) - len(wrong)} of {len(data)} lines agree", out.stderr.decode()[:300])
        for l, want, have in wrong[:3]:
            print("   ", ascii(l)[:300])
            if len(have) < 2: continue
            if want[0] != have[0]:
                a, b = want[0].split(), have[0].split()
                k = next((k for k in range(min(len(a), len(b))) if a[k] != b[k]), min(len(a), len(b)))
                near = [[t.id_to_token(int(x)) for x in v[max(k - 2, 0):k + 4]] for v in (a, b)]
                print("    id", k, "want", near[0], "have", near[1])
            else: print("    text", ascii(want[1])[:200], ascii(have[1])[:200])
        bad += len(wrong)
    print(f"{bad == 0:d} passed, {bad != 0:d} failed, 0 skipped")
    sys.exit(bad != 0)
os.makedirs(sys.argv[2], exist_ok=True)
for name, make in all_of(380).items():
    if name not in ("gpt2", "llama3", "llama2", "bert"): continue
    t = make()
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]  # to be small
    t = Tokenizer.from_str(json.dumps(j))
    open(f"{sys.argv[2]}/{name}.txt", "w").write(json.dumps(j, ensure_ascii=False, separators=(",", ":")) + "\n")
    with open(f"{sys.argv[2]}/{name}-lines.txt", "w") as f:
        for l in list(SCRIPTS.values()) + list(lines(12, 7)): f.write("\n".join((escape(l[:64]),) + expected(t, l[:64])) + "\n")
