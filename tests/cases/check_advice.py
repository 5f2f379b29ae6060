#!/usr/bin/env python3
"""check_advice.py KERF [SOURCES]: no circle in advice. Every refusal that names a command or an option is
provoked, what it names is taken out of its text and run, and must work. The texts are collected from the
sources: one that nothing here provokes is a failure too."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from files import model, numbers, write, write_gguf

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
VERBS = "formats|inspect|quantize|convert|dequantize|score|verify|selftest|predict|bench|compare|advise|hardware|help|merge"
NAMES = re.compile(rf"\bkerf (?:{VERBS})\b|(?:^|[ (:;])(?:--[a-z]|-[yf]\b)")
CALL = re.compile(r"\b(?:kf_fail\w*|kerf_fail\w*|USAGE)\s*\(")
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*')

# Texts that only say what was typed wrongly, and those that need what a test has not.
UNTRIED = ("expected", "no memory", "more than %d shapes", "matrix-vector kernels have at most", "two ways to one end", "does not go with",
           "not both", "this verb uses one GPU", "-f %s: %.300s", "--tensor", "-f picks no format", "a recipe that fits: ", "its quantized form needs the name",
           # of verbs that run a model or wait for others: tests of their own have what these need
           "kerf calibrate", "--length N", "--length %llu", "give --text FILE or --tokens FILE", "--token", "-parallel needs", "--gpus needs", "two forms of one answer",
           "ranks write whole files", "ranks share quantize", "--port 0", "kerf serve --output", "%s --page", "is no advice", "made with calibration",
           " --gram", "--input-scales", "%s needs --calibration CAL", "does not know the inputs of", "which makes no scale", "leave --kv away", "--kv: loaders have",
           "--again is for --feedback", "--calibration is for --exact", "--%s is for --measure", "--imatrix-gguf is of the whole calibration",
           # of another program, which is not here
           "llama-quantize --allow-requantize of llama.cpp makes F16",
           # of a GPU's tuning, which test_gemv_tuning has
           "has no tuning", "and this GPU is an", "--hardware is of a GPU", "the tuning was found against")


def collected():
    """The texts of failures in the sources that name a command or an option."""
    found = set()
    for room in ("codecs", "kernels", "advisor", "cli"):
        for path in glob.glob(f"{SOURCES}/{room}/**/*.c", recursive=True):
            with open(path, encoding="utf-8") as f:
                text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
            for call in CALL.finditer(text):
                end = text.find(";\n", call.end())
                for literal in TEXT.findall(text, call.end(), end):
                    joined = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal)).replace('\\"', '"')
                    if NAMES.search(joined):
                        found.add(joined)
    return sorted(found)


def is_said(text, line):
    """Whether a line is this text, with something in the place of each %s and the like."""
    at = 0
    for part in re.split(r"%(?:\.(?:[0-9]+|\*))?(?:zu|llu|[sduf])", text):
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


class Run:
    def __init__(self, kerf):
        self.kerf = kerf
        self.said = []
        self.faults = []

    def __call__(self, *args):
        env = {k: v for k, v in os.environ.items() if k != "GITHUB_STEP_SUMMARY"}
        return subprocess.run([self.kerf, *args], capture_output=True, text=True, errors="replace", env=env, timeout=60,
                              stdin=subprocess.DEVNULL)

    def refused(self, args, pattern):
        """The match of the refusal's text, which must be one."""
        r = self(*args)
        self.said.append(r.stderr)
        m = re.search(pattern, r.stderr)
        if r.returncode == 0 or not m:
            self.faults.append(f"kerf {' '.join(args)}: {r.returncode}, does not say '{pattern}': {r.stderr.strip()[-300:]}")
            return None
        return m

    def works(self, args, because):
        r = self(*args)
        if r.returncode != 0:
            self.faults.append(f"'{because.strip()[-200:]}' proposes kerf {' '.join(args)}, which exits with {r.returncode}: {r.stderr.strip()[-300:]}")

    def tries(self, args, pattern, *fix):
        """Refused; then each of the functions makes a command of the match, which works."""
        m = self.refused(args, pattern)
        for f in fix if m else ():
            self.works(f(m), m.string)


def without(args, option):
    """A list without an option and its value."""
    i = args.index(option)
    return args[:i] + args[i + 2:]


def make(tmp):
    w = "model.layers.0.self_attn.{}_proj.weight"
    tensors = [(w.format(n), "BF16", (256, 256)) for n in "qkvo"]
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 512}
    model(f"{tmp}/m", tensors, model_type="llama", **sizes)
    model(f"{tmp}/wide", [("model.embed_tokens.weight", "BF16", (512, 256))], model_type="llama", **sizes)
    bad = numbers(65536)
    bad[5] = float("nan")
    model(f"{tmp}/nan", [(w.format("q"), "F32", (256, 256), bad)], model_type="llama", **sizes)
    model(f"{tmp}/experts", [(f"transformer.blocks.0.ffn.experts.mlp.{n}", "BF16", (256, 256)) for n in ("w1", "v1", "w2")]
          + [("transformer.blocks.0.norm_attn_norm.attn.out_proj.weight", "BF16", (256, 256))], model_type="dbrx", d_model=256)
    write(f"{tmp}/imatrix.safetensors", [(w.format(n), "F32", (256,), [1.0 + i % 3 for i in range(256)]) for n in "qkvo"])
    with open(f"{tmp}/none.json", "w") as f:
        f.write('{"schema": "kerf.limits/1", "tensors": {"zzz": {"t2": 1}}}')
    with open(f"{tmp}/scores.json", "w") as f:
        f.write("{}")
    with open(f"{tmp}/recipe.json", "w") as f:
        f.write('{"schema": "kerf.recipe/1"}')


def quantizing(run, tmp):
    m, out = f"{tmp}/m", f"{tmp}/out"
    q = ["quantize", m, "-f", "nvfp4", "-o", out]
    run.works(q, "")
    run.tries(q, r"exists already; (-y) replaces it", lambda t: q + [t[1]])
    report = ["verify", m, out, "--markdown", f"{tmp}/report.md"]
    run.works(report, "")
    run.tries(report, r"exists; (-y) replaces it", lambda t: report + [t[1]])
    run.tries(["quantize", m, "-o", out], r"-f FORMAT\[:ENCODER\] is missing; see kerf (formats)", lambda t: [t[1]], lambda t: q + ["-y"])
    run.tries(q[:-2], r"-o OUT is missing; (--dry-run) needs none", lambda t: q[:-2] + [t[1]])
    run.tries(["quantize", m, "-f", "nvpf4x", "-o", out], r"kerf (formats) lists them", lambda t: [t[1]])
    run.tries(["score", m, "-f", "*zzz*"], r"kerf (formats) lists them", lambda t: [t[1]])
    run.tries(["quantize", m, "-f", "q4_k_m", "-o", out], r"-f (\S+) is that block type, and kerf (advise) mixes",
              lambda t: ["quantize", m, "-f", t[1], "-o", f"{tmp}/o1"], lambda t: [t[2], m, "--budget", "5bits", "-f", "q4_k,q6_k"])
    run.tries(["quantize", f"{tmp}/wide", "-f", "nvfp4", "-o", f"{tmp}/o2"], r"no tensor is left to quantize.*; (--dry-run) shows why",
              lambda t: ["quantize", f"{tmp}/wide", "-f", "nvfp4", t[1]])
    blocks = write_gguf(f"{tmp}/blocks.gguf", [("blk.0.ffn_up.weight", (256, 64), 16, bytes(64 * 66)), ("blk.0.ffn_gate.weight", (256, 64), 1, bytes(64 * 512))])
    run.tries(["quantize", blocks, "-f", "nvfp4", "-o", f"{tmp}/o9.safetensors"], r"(-o) NAME(\.gguf) leaves them", lambda t: ["quantize", blocks, "-f", "q4_k", t[1], f"{tmp}/o9{t[2]}"])
    nan = ["quantize", f"{tmp}/nan", "-f", "nvfp4", "-o", f"{tmp}/o3"]
    run.tries(nan, r"(--nan) (zero) or --nan (saturate) accepts it", lambda t: nan + [t[1], t[2]], lambda t: nan + [t[1], t[3], "-y"])
    for out in (["--layout", "compressed-tensors", "-o", f"{tmp}/dense"], ["-o", f"{tmp}/dense.gguf"]):
        run.tries(["quantize", m, "-f", "nvfp4", "--tensor", "*v_proj*=bf16", *out], r"does not take bf16 \(what is not quantized has the type of the source there: --keep 'GLOB'",
                  *([] if out[-1].endswith("gguf") else [lambda t: ["quantize", m, "-f", "nvfp4", "--keep", "*v_proj*", "--keep", "*[qk]_proj*", "-n", *out]]))
    for glob, meant in (("v_proj", "*.v_proj.weight"), ("re:.*[kq]_proj$", "*[kq]_proj.weight"), ("re:.*self_attn\\.q.*", "*self_attn.q*"), ("model.layers.0", "model.layers.0.*"),
                        ("layers.0", "*.layers.0.*"), ("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj.weight")):
        run.tries(["quantize", m, "-f", "nvfp4", "--keep", glob, "-n"], rf"--keep {re.escape(glob)} matches no tensor; '{re.escape(meant)}' matches [1-9]",
                  lambda t: ["quantize", m, "-f", "nvfp4", "--only", meant, "-n"])
    for glob in ("re:.*(q|k)_proj", "*{q,k}_proj*", "*q_proj*,*k_proj*"):
        run.refused(["quantize", m, "-f", "nvfp4", "--keep", glob, "-n"], r"lists them, and patterns are those of a shell, one for each option: \[qkv\]_proj")
    run.tries(["quantize", m, "-f", "nvfp4", "--keep", "*zzz*", "-o", f"{tmp}/o4"], r"matches no tensor; kerf (inspect) (\S+) lists", lambda t: [t[1], t[2]])
    gptq = ["quantize", m, "-f", "int4-g128:search-h", "-o", f"{tmp}/o5"]
    for encoder in weighing(run):
        gptq[3] = encoder
        run.tries(gptq, r"give (--imatrix) FILE, or take (\S+)\s", lambda t: gptq + [t[1], f"{tmp}/imatrix.safetensors"],
                  lambda t: ["quantize", m, "-f", t[2], "-o", f"{tmp}/o5", "-y"])
        write(f"{tmp}/some.safetensors", [("model.layers.0.self_attn.q_proj.weight", "F32", (256,), [1.0] * 256)])
        some = gptq + ["--imatrix", f"{tmp}/some.safetensors", "-y"]
        run.tries(some, r"has no entry for .*: (--tensor) '(\S+)' takes", lambda t: some + [x for n in "kvo" for x in (
            t[1], re.sub(r"self_attn\..", f"self_attn.{n}", t[2]))])
    single = q[:-1] + [f"{tmp}/one.safetensors", "--shard-size", "1MB"]
    run.tries(single, r"(--shard-size) splits a folder", lambda t: q[:-1] + [f"{tmp}/split", t[1], "1MB"])
    packed = q[:-1] + [f"{tmp}/plain", "--zstd-level", "9"]
    run.tries(packed, r"(--zstd-level) is of files named \*(\S+),", lambda t: q[:-1] + [f"{tmp}/packed{t[2]}", t[1], "9"])
    run.tries(["quantize", m, "-f", "nvfp4", "--sha256"], r"--sha256 needs (-o) OUT", lambda t: ["quantize", m, "-f", "nvfp4", "--sha256", t[1], f"{tmp}/o6"])
    run.tries(["quantize", m, "-f", "nvfp4", "-n", "--frobnicate", "kerf"], r"see kerf (help quantize)", lambda t: t[1].split())
    run.tries(["quantize", m, "-f", "nvfp4", "-n", "-Q"], r"see kerf (help quantize)", lambda t: t[1].split())
    run.tries(["frobnicate"], r"kerf (help) lists them", lambda t: [t[1]])
    run.tries([], r"try kerf (help)", lambda t: [t[1]])
    run.tries(q[:-1] + [f"{tmp}/o7", "--device", "cuda:63"], r"or use (--device cpu)", lambda t: q[:-1] + [f"{tmp}/o7"] + t[1].split())


def parts(run, tmp):
    out, other = f"{tmp}/parts", f"{tmp}/parts2"
    q = ["quantize", f"{tmp}/m", "-f", "nvfp4", "-o", out, "--part", "1/2"]
    split = q + ["--shard-size", "64KB"]
    small = [*q[:5], f"{tmp}/parts3", *q[6:]]
    run.tries(small, r"(--shard-size) (\S+) makes several", lambda t: small + [t[1], t[2]])
    run.works(split, "--shard-size")
    run.tries(["merge", out], r"run kerf (quantize) \.\.\. (-o) (\S+) (--part) (2/2) with the options of the others",
              lambda t: [t[1], *split[1:4], t[2], t[3], t[4], t[5], *split[-2:]])
    shutil.copytree(f"{out}.kerf-parts", f"{tmp}/parts4.kerf-parts")
    run.tries(["merge", f"{tmp}/parts4.kerf-parts/"], r"parts wait there: kerf (merge) (\S+)", lambda t: [t[1], t[2]])
    run.tries(["inspect", out], r"not merged yet: kerf (merge) (\S+) makes", lambda t: [t[1], t[2]], lambda t: ["inspect", t[2]])
    run.tries(["merge", other], r"kerf (quantize) \.\.\. -o (\S+) (--part) 1/N", lambda t: [t[1], *split[1:5], t[2], t[3], "1/2", *split[-2:]])
    changed = [*split[:5], other, *split[6:], "--keep", "*o_proj*"]
    run.tries(changed, r"written by another plan .*; (-y) replaces it", lambda t: changed + [t[1]])
    run.tries(changed + ["-y", "--sha256"], r"give (--sha256) to kerf (merge)", lambda t: [*changed[:6], "--part", "2/2", *changed[8:]],
              lambda t: [t[2], other, t[1]])


def scores(run, tmp):
    kept = f"{tmp}/scores"
    run.works(["score", f"{tmp}/m", "-f", "nvfp4", "-o", kept], "")
    with open(f"{kept}/kerf-scores.json", "w") as f:
        f.write("{}")
    run.tries(["score", kept], r"kerf (score) (-o) writes one", lambda t: [t[1], f"{tmp}/m", "-f", "nvfp4", t[2], kept, "-y"])


def weighing(run):
    """Encoders that weigh errors."""
    r = run("formats", "int4-g128", "--json")
    names = [e["name"] for f in json.loads(r.stdout)["formats"] for e in f["encoders"] if "importance" in json.dumps(e).lower()]
    return [f"int4-g128:{n}" for n in names][:1] or ["q4_k:imatrix"]


def layouts(run, tmp):
    m = f"{tmp}/m"
    run.works(["quantize", m, "-f", "nvfp4", "--layout", "modelopt", "--keep", "*o_proj*", "-o", f"{tmp}/mo"], "")
    again = ["quantize", f"{tmp}/mo", "-f", "nvfp4", "--layout", "compressed-tensors", "-o", f"{tmp}/again"]
    run.tries(again, r"convert it first, or ask for (--layout \S+)", lambda t: ["convert", f"{tmp}/mo", "--layout", again[5], "-o", f"{tmp}/converted"],
              lambda t: ["quantize", f"{tmp}/converted", *again[2:]], lambda t: [*again[:4], *t[1].split(), "-o", f"{tmp}/same"])
    run.tries(["convert", m, "--layout", "modelopt", "-o", f"{tmp}/x"], r"kerf (quantize) makes some", lambda t: [t[1], m, "-f", "nvfp4", "-o", f"{tmp}/made"])
    run.tries(["quantize", m, "-f", "int8", "--layout", "awq", "-n"], r"is read, not written; kerf (formats) (\S+) lists", lambda t: [t[1], t[2]])
    run.tries(["convert", f"{tmp}/mo", "-o", f"{tmp}/x"], r"(--layout) NAME is missing; kerf (formats) lists", lambda t: [t[2]],
              lambda t: ["convert", f"{tmp}/mo", t[1], "kerf", "-o", f"{tmp}/as-kerf"])
    name = "model.layers.0.mlp.down_proj.weight"
    tiles = [(name, "F8_E4M3", (256, 256)), (name + "_scale_inv", "F32", (4, 4), [1.0] * 16)]
    foreign = model(f"{tmp}/tiles", tiles, model_type="llama", quantization_config={"quant_method": "fp8"})
    run.tries(["convert", foreign, "--layout", "compressed-tensors", "-o", f"{tmp}/x"], r"kerf (quantize) and kerf (dequantize) read them",
              lambda t: [t[1], foreign, "-f", "nvfp4", "-o", f"{tmp}/of-tiles"], lambda t: [t[2], foreign, "-o", f"{tmp}/dense-tiles"])
    # embeddings; a checkpoint of kerf's in which one has codes is of an older version, here a matrix with another name
    run.works(["quantize", f"{tmp}/wide", "-f", "nvfp4", "--tensor", "*=nvfp4", "-o", f"{tmp}/looked-up"], "")
    run.tries(["convert", f"{tmp}/looked-up", "--layout", "compressed-tensors", "-o", f"{tmp}/x"],
              r"kerf (dequantize) makes a source that kerf quantize (--layout \S+) takes",
              lambda t: [t[1], f"{tmp}/looked-up", "-o", f"{tmp}/dense-table"],
              lambda t: ["quantize", f"{tmp}/dense-table", "-f", "nvfp4", *t[2].split(), "-n"])
    run.works(["quantize", m, "-f", "nvfp4", "--layout", "compressed-tensors", "-o", f"{tmp}/old"], "")
    with open(f"{tmp}/old/model.safetensors", "r+b") as f:
        renamed = f.read().replace(b"model.layers.0.self_attn.o_proj", b"transformer.aaaaaaaaaaaaaaa.wte")
        f.seek(0)
        f.write(renamed)
    run.tries(["quantize", f"{tmp}/old", "-f", "nvfp4", "--layout", "compressed-tensors", "-o", f"{tmp}/x"],
              r"take no quantized embedding: kerf (dequantize) makes", lambda t: [t[1], f"{tmp}/old", "-o", f"{tmp}/of-old"])
    run.works(["quantize", m, "-f", "int8", "-o", f"{tmp}/int8"], "")
    # what is quantized as a whole is no source of another format before it is decoded, which both refusals say
    run.works(["quantize", m, "-f", "nvfp4", "-o", f"{tmp}/all"], "")
    other = ["quantize", f"{tmp}/all", "-f", "mxfp4", "-o", f"{tmp}/other"]
    for layout in ([], ["--layout", "compressed-tensors"]):
        run.tries(other + layout, r"quantized already|no tensor is left.*kerf (dequantize) makes a source", lambda t: ["dequantize", f"{tmp}/all", "-o", f"{tmp}/decoded", "-y"],
                  lambda t: ["quantize", f"{tmp}/decoded", *other[2:4], *layout, "-o", f"{tmp}/other", "-y"])
    run.tries(other, r"kerf (convert) another layout", lambda t: [t[1], f"{tmp}/all", "--layout", "compressed-tensors", "-o", f"{tmp}/moved"])
    for verb in (["advise", f"{tmp}/all", "--budget", "5bits", "-f", "mxfp4"], ["score", f"{tmp}/all", "-f", "mxfp4"]):
        run.tries(verb, r"what could be is quantized: kerf (dequantize) makes a source", lambda t: [t[1], f"{tmp}/all", "-o", f"{tmp}/decoded", "-y"],
                  lambda t: [verb[0], f"{tmp}/decoded", *verb[2:]])
    run.tries(["quantize", m, "--recipe", "nvfp4:4/6", "-o", f"{tmp}/r"], r"is asked for by (-f) (\S+),", lambda t: ["quantize", m, t[1], t[2], "-o", f"{tmp}/r"])
    run.tries(["quantize", m, "-f", f"{tmp}/made.json", "-o", f"{tmp}/r2"], r"a recipe is given with (--recipe)", lambda t: ["advise", m, "--budget", "5bits", "-o", f"{tmp}/made.json"],
              lambda t: ["quantize", m, t[1], f"{tmp}/made.json", "-o", f"{tmp}/r2"])
    run.tries(["quantize", f"{tmp}/int8", "-f", "ggml-q8_0", "--layout", "gguf", "-o", f"{tmp}/x.gguf"], r"kerf (dequantize) makes a source",
              lambda t: [t[1], f"{tmp}/int8", "-o", f"{tmp}/dense"], lambda t: ["quantize", f"{tmp}/dense", "-f", "ggml-q8_0", "-o", f"{tmp}/o8"])


def experts(run, tmp):
    """An expert that the layout cannot hold: every format that is named, and the option that keeps all of them."""
    matrices = [(f"model.layers.0.mlp.experts.{e}.{n}.weight", "BF16", (256, 192) if n == "down_proj" else (192, 256)) for e in range(2) for n in ("gate_proj", "up_proj", "down_proj")]
    shared = [(f"model.layers.0.mlp.shared_experts.{n}.weight", "BF16", (256, 192) if n == "down_proj" else (192, 256)) for n in ("gate_proj", "up_proj", "down_proj")]
    m = model(f"{tmp}/moe-experts", matrices + [("model.layers.0.self_attn.o_proj.weight", "BF16", (256, 256))], model_type="qwen3_moe", hidden_size=256, num_experts=2,
              moe_intermediate_size=192, num_hidden_layers=1)
    for layout, codec, first in (("compressed-tensors", "int4-g128", "int4-row"), ("gptq", "int4-g128", "int4-row"), ("compressed-tensors", "fp8-e4m3-128x128", "fp8-e4m3"),
                                 ("deepseek", "fp8-e4m3-128x128", None)):
        verb = ["quantize", m, "-f", codec, "--layout", layout, "-o", f"{tmp}/of-experts"]
        formats = rf"one module to its loaders: (-f {first} or -f .*) takes them, (--keep) '(.*)'" if first else r"one module to its loaders: ()(--keep) '(.*)'"
        works = [lambda t, i=i: [*verb[:2], "-f", t[1].split(" or ")[i][3:], *verb[4:], "-y"] for i in range(3 if first else 0)]
        run.tries(verb, formats, *works, lambda t: [*verb, t[2], t[3], "-y"])
    kept = model(f"{tmp}/shared", shared, model_type="deepseek_v3", hidden_size=256, num_hidden_layers=1)
    run.works(["quantize", kept, "-f", "int4-g128", "--layout", "compressed-tensors", "-o", f"{tmp}/of-shared"], "")


def advice(run, tmp):
    m = f"{tmp}/m"
    run.tries(["advise", m], r"(--budget) is missing", lambda t: ["advise", m, t[1], "5bits"])
    run.tries(["advise", m, "--budget", "5apples", "-f", "nvfp4,int8"], r"above 0 and one of (bits)",
              lambda t: ["advise", m, "--budget", f"5{t[1]}", "-f", "nvfp4,int8"])
    run.tries(["advise", m, "--budget", "5us"], r"need (--hardware) NAME", lambda t: ["advise", m, "--budget", "500us", t[1], "h200"])
    t2 = ["advise", m, "--budget", "0.01t2"]
    run.tries(t2, r"needs (--minimise) (bytes) or --minimise (time)", lambda t: t2 + [t[1], t[2]], lambda t: t2 + [t[1], t[3], "--hardware", "h200"])
    wide = ["advise", f"{tmp}/wide", "--budget", "9bits", "-f", "nvfp4,int8"]
    run.tries(wide, r"(--all-tensors) takes", lambda t: wide + [t[1]])
    score = ["score", f"{tmp}/wide", "-f", "nvfp4"]
    run.tries(score, r"(--all-tensors) takes", lambda t: score + [t[1]])
    run.tries(["advise", f"{tmp}/m/config.json", "--budget", "5bits"], r"(--hardware) NAME is needed",
              lambda t: ["advise", f"{tmp}/m/config.json", "--budget", "5bits", t[1], "h200"])
    cache = ["advise", m, "--budget", "5bits", "--cache", f"{tmp}/scores.json"]
    run.tries(cache, r"name another (--cache)", lambda t: without(cache, "--cache") + [t[1], f"{tmp}/other.json"])
    alpha = ["advise", m, "--budget", "5bits", "-f", "nvfp4,int8", "--alpha", f"{tmp}/alpha.json"]
    with open(alpha[-1], "w") as f:
        f.write('{"schema": "kerf.alpha/1", "alpha": {"*": 1, "*zzz*": 2}}')
    run.tries(alpha, r"alpha of \*zzz\* matches no tensor; kerf (inspect) (\S+) lists", lambda t: [t[1], t[2]])
    run.works(["advise", f"{tmp}/experts", "--budget", "5bits", "-f", "nvfp4", "-o", f"{tmp}/r.json"], "")
    ct = ["quantize", f"{tmp}/experts", "--recipe", f"{tmp}/r.json", "--layout", "compressed-tensors", "-o", f"{tmp}/ct"]
    m2 = run.refused(ct, r"a recipe that fits: kerf (advise --layout \S+)")
    if m2:
        run.works(m2[1].split() + [f"{tmp}/experts", "--budget", "14bits", "-f", "nvfp4", "-o", f"{tmp}/fits.json"], m2.string)
        run.works(["quantize", f"{tmp}/experts", "--recipe", f"{tmp}/fits.json", "-o", f"{tmp}/ct"], m2.string)


def others(run, tmp):
    m, out = f"{tmp}/m", f"{tmp}/out"
    limits = ["verify", m, out, "--limits", f"{tmp}/none.json"]
    run.tries(limits, r"(--write-limits) FILE writes", lambda t: ["verify", m, out, t[1], f"{tmp}/some.json"],
              lambda t: ["verify", m, out, "--limits", f"{tmp}/some.json"])
    with open(f"{tmp}/misspelt.json", "w") as f:
        f.write('{"schema": "kerf.limits/1", "default": {"t2": 1}, "tensors": {"zzz": {"t2": 1}}}')
    run.tries(["verify", m, out, "--limits", f"{tmp}/misspelt.json"], r"kerf (inspect) (\S+) lists them", lambda t: [t[1], t[2]])
    gguf = write_gguf(f"{tmp}/q4.gguf", [("blk.0.ffn_up.weight", (256, 64), 2, bytes(64 * 8 * 18))])
    run.tries(["convert", gguf, "--layout", "compressed-tensors", "-o", f"{tmp}/of_gguf"], r"(-o) NAME(\.safetensors), or (--layout kerf)",
              lambda t: ["convert", gguf, "--layout", "compressed-tensors", t[1], f"{tmp}/of_gguf{t[2]}"], lambda t: ["convert", gguf, *t[3].split(), "-o", f"{tmp}/of_gguf"])
    alone = f"{tmp}/alone.safetensors"
    shutil.copy(f"{m}/model.safetensors", alone)
    for asked in (["--budget", "60tok/s"], ["--budget", "9bits", "--gpus", "2"]):
        call = ["advise", alone, "-f", "nvfp4", "--hardware", "h100", *asked]
        run.tries(call, r"by (--config) FILE", lambda t, call=call: call + [t[1], f"{m}/config.json"])
    with open(f"{tmp}/nothing.json", "w") as f:
        f.write('{"schema": "kerf.limits/1", "tensors": {}}')
    run.tries(["verify", m, out, "--limits", f"{tmp}/nothing.json"], r"limits nothing; (--write-limits) FILE writes some, and (without --limits)",
              lambda t: ["verify", m, out, t[1], f"{tmp}/more.json"], lambda t: ["verify", m, out])
    run.tries(["verify", m, out, "--summary"], r"(--markdown) FILE writes", lambda t: ["verify", m, out, t[1], f"{tmp}/v.md"])
    shape = ["predict", "--shape", "256x256"]
    run.tries(shape, r"(--hardware) NAME is missing; kerf (hardware) lists", lambda t: [t[2]], lambda t: shape + [t[1], "h200"])
    run.tries(["predict", "--hardware", "h200"], r"(--shape) NxK or (--model) CONFIG", lambda t: shape + ["--hardware", "h200"],
              lambda t: ["predict", "--hardware", "h200", t[2], m])
    run.tries(shape + ["--hardware", "h200", "--kv", "fp16"], r"needs (--model)", lambda t: ["predict", "--hardware", "h200", "--kv", "fp16", t[1], m])
    run.tries(shape + ["--hardware", "h2000x"], r"kerf (hardware) lists them", lambda t: [t[1]])
    run.tries(["compare", f"{tmp}/none.json"], r"kerf (hardware) lists them", lambda t: [t[1]])
    run.tries(["hardware", "--measured", f"{tmp}/none.json"], r"(needs) the machine", lambda t: ["hardware", "h200"])
    machine = json.loads(run("hardware", "h200", "--json").stdout)
    machine["facts"]["bogus"] = next(iter(machine["facts"].values()))
    with open(f"{tmp}/machine.json", "w") as f:
        json.dump(machine, f)
    run.tries(["hardware", f"{tmp}/machine.json"], r"kerf (hardware h200 --json) shows", lambda t: t[1].split())


def peers(run, tmp):
    """Words of other programs: each is answered as its row says, none is an option of ours, and what an answer names exists."""
    with open(f"{SOURCES}/cli/peer_words.def", encoding="utf-8") as f:
        text = f.read()
    texts = dict(re.findall(r'^#define (\w+) "(.*)"$', text, flags=re.M))
    rows = re.findall(r'^PEER\("(\w*)", "([^"]+)", (?:"(.*)"|(\w+))\)$', text, flags=re.M)
    helps = {verb: run("help", verb).stdout for verb in VERBS.split("|") + ["calibrate", "eval"]}
    if len(rows) != text.count("\nPEER("):
        run.faults.append(f"peer_words.def: {len(rows)} rows are read")
    for verb, word, answer, shared in rows:
        answer = answer or texts[shared]
        run.refused([verb, f"{tmp}/m", f"--{word.upper().replace('-', '_')}"] if verb else [word, f"{tmp}/m"], re.escape(answer))
        if f"--{word} " in helps.get(verb, "") or word in helps:
            run.faults.append(f"peer_words.def: {verb} {word} is ours")
        ours = re.sub(r"\(vLLM: [^)]*\)", "", answer)
        for named in re.findall(r"kerf ([a-z]+)", ours):
            if named not in helps:
                run.faults.append(f"peer_words.def: {word}: no verb {named}")
        pages = [helps[n] for n in [verb or "quantize", *re.findall(r"kerf ([a-z]+)", ours)] if n in helps]
        for option in re.findall(r"(?:^|[ (])(--?[a-z][a-z-]*)", ours):
            if not any(re.search(rf"^ .*{option}\b", page, flags=re.M) for page in pages):
                run.faults.append(f"peer_words.def: {word}: no option {option}")
        for codec in re.findall(r"(?:=|-f )([a-z0-9]+[_0-9][a-z0-9_-]*)", ours):
            run.works(["formats", codec], answer)


def main():
    run = Run(os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory() as tmp:
        make(tmp)
        for part in (quantizing, parts, scores, layouts, experts, advice, others, peers):
            part(run, tmp)
    said = [line for text in run.said for line in text.splitlines()]
    for text in collected():
        if not any(is_said(text, line) for line in said) and not any(u in text for u in UNTRIED):
            run.faults.append(f"nothing here provokes: {text}")
    print("\n".join(f"FAIL: {f}" for f in run.faults))
    print(f"{len(run.said)} refusals, {len(run.faults)} failed")
    return bool(run.faults)


if __name__ == "__main__":
    sys.exit(main())
