#!/usr/bin/env python3
"""check_unkind.py KERF [CASE...]: further checkpoints of the kinds that check.py has, with what is unusual about
them: other names, other places, other damage."""
import json
import math
import os
import shutil
import struct
import sys

from files import count, e4m3, f32, model, need, numbers, read, run_cases, write

L = "model.layers.0."


def is_near(a, b, part=0.02):
    return abs(a - b) <= part * abs(b)


# --- experts in stacks of FP8 --------------------------------------------------------------------
def codes_of(n, seed):
    return [int(abs(x) * 1e6) % 0x77 | (i & 1) << 7 for i, x in enumerate(numbers(n, seed))]


def decoded(codes, scales, shape, tiles):
    """Of a stack [experts, rows, columns] with a scale for each tile, or each expert."""
    experts, rows, cols = shape
    out = []
    for e in range(experts):
        for r in range(rows):
            for c in range(cols):
                at = (e * tiles[1] + r // 128) * tiles[2] + c // 128 if tiles else e % len(scales)
                out.append(f32(e4m3(codes[(e * rows + r) * cols + c]) * scales[at]))
    return out


def case_fp8_stacks(kerf, tmp):
    """[out, in] and [in, out]; scales of tiles in F32 and BF16, of an expert, of all; each under its usual name."""
    kinds = {"tiles": (0, "tile", "_scale_inv", "F32"), "bf16": (0, "tile", ".weight_scale_inv", "BF16"),
             "turned": (1, "tile", "_weight_scale_inv", "F32"), "each": (1, "each", "_scale", "F32"),
             "one": (1, "one", "_weight_scale", "F32"), "weight": (0, "tile", "_scale_inv", "F32")}
    for kind, (turned, how, suffix, dtype) in kinds.items():
        tensors, dense = [], []
        for name, out, cols in (("gate_up_proj", 256, 256), ("down_proj", 256, 128)):
            shape = (2, cols, out) if turned else (2, out, cols)
            name = f"{L}mlp.experts.{name}" + (".weight" if kind == "weight" else "")
            codes = codes_of(math.prod(shape), out + cols)
            tiles = (2, -(-shape[1] // 128), -(-shape[2] // 128)) if how == "tile" else None
            scales = [2.0 ** -(5 + i % 4) for i in range(math.prod(tiles) if tiles else 2 if how == "each" else 1)]
            tensors += [(name, "F8_E4M3", shape, codes), (name + suffix, dtype, tiles or ((2,) if how == "each" else ()), scales)]
            dense.append((name, "F32", shape, decoded(codes, scales, shape, tiles)))
        config = {"model_type": "llama4_text" if turned else "qwen3_5_moe", "hidden_size": 256, "intermediate_size": 128,
                  "moe_intermediate_size": 128, "num_local_experts": 2, "num_experts": 2}
        folder = model(f"{tmp}/{kind}", tensors, **config, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
        truth = model(f"{tmp}/{kind}-truth", dense, **config)
        need(kerf.t2(folder, "nvfp4") == kerf.t2(truth, "nvfp4"), f"{kind}: another error than that of the decoded experts")
        kerf("dequantize", folder, "--dtype", "fp32", "-o", f"{tmp}/{kind}-dense")
        for name, (_, shape, raw) in read(f"{tmp}/{kind}-dense/model.safetensors").items():
            need(raw == read(f"{truth}/model.safetensors")[name][2], f"{kind}: {name} {shape} is decoded wrongly")
        kerf("verify", folder, f"{tmp}/{kind}-dense")
        kerf("advise", folder, "--budget", "5bits", "-f", "nvfp4", "-o", f"{tmp}/{kind}.json")
        for layout in ("kerf", "compressed-tensors"):
            out = f"{tmp}/{kind}-{layout}"
            kerf("quantize", folder, "--recipe", f"{tmp}/{kind}.json", "--layout", layout, "-o", out, says="2 tensors measured as promised, 0 not")
            kerf("verify", folder, out)
            kerf("verify", truth, out)
    # codes whose scales are none of these are no weights that may be copied
    name = L + "mlp.experts.gate_up_proj"
    stack = (name, "F8_E4M3", (2, 256, 256), codes_of(2 * 65536, 1))
    for kind, shape in (("columns", (2, 2, 128)), ("rows", (2, 128, 2)), ("half", (2, 128, 1))):
        folder = model(f"{tmp}/{kind}", [stack, (name + "_scale", "F32", shape, [0.1] * count(shape))], model_type="llama4_text", hidden_size=256)
        for verb in (("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/x"), ("score", folder, "-f", "nvfp4"), ("dequantize", folder, "-o", f"{tmp}/x")):
            kerf(*verb, code=3, says="gate_up_proj_scale is F32")
        kerf("inspect", folder, code=1, says="gate_up_proj_scale is F32")


def turned(values, experts, rows, cols):
    """Of each [rows, cols] its transpose."""
    return [values[(e * rows + r) * cols + c] for e in range(experts) for c in range(cols) for r in range(rows)]


def check_stacks(kerf, folder, truth):
    """Read, scored, advised, written and verified as what they decode to."""
    need(kerf.t2(folder, "int8") == kerf.t2(truth, "int8"), f"{folder}: another error than that of the decoded experts")
    kerf("dequantize", folder, "--dtype", "fp32", "-o", f"{folder}-dense")
    for name, (_, shape, raw) in read(f"{folder}-dense/model.safetensors").items():
        need((shape, raw) == read(f"{truth}/model.safetensors")[name][1:], f"{folder}: {name} {shape} is decoded wrongly")
    kerf("advise", folder, "--budget", "4.3bits", "-f", "mxfp4", "-o", f"{folder}.json")
    for layout in ("kerf", "compressed-tensors"):
        kerf("quantize", folder, "--recipe", f"{folder}.json", "--layout", layout, "-o", f"{folder}-{layout}", says="2 tensors measured as promised, 0 not")
        kerf("verify", folder, f"{folder}-{layout}")
        kerf("verify", truth, f"{folder}-{layout}")
    kerf("inspect", folder)


SHAPES = (("gate_up_proj", 256, 192), ("down_proj", 192, 128))  # out, in
MOE = {"hidden_size": 192, "intermediate_size": 128, "moe_intermediate_size": 128, "num_local_experts": 2, "num_experts": 2}


def case_fp8_stacks_by_outputs(kerf, tmp):
    """A scale for each output, in the ways in which transformers and compressed-tensors have them."""
    for kind, is_turned, ways in (("rows", 0, ("{e},{o},1", "{e},{o}")), ("columns", 1, ("{e},1,{o}", "{e},{o},1"))):  # of gate_up, of down
        tensors, dense = [], []
        for i, (name, out, cols) in enumerate(SHAPES):
            name = f"{L}feed_forward.experts.{name}"
            codes, scales = codes_of(2 * out * cols, out), [2.0 ** -(5 + i % 4) for i in range(2 * out)]
            values = [f32(e4m3(c) * scales[k // cols]) for k, c in enumerate(codes)]
            shape = (2, cols, out) if is_turned else (2, out, cols)
            if is_turned:
                codes, values = turned(codes, 2, out, cols), turned(values, 2, out, cols)
            at = tuple(int(x) for x in ways[i].format(e=2, o=out).split(","))
            tensors += [(name, "F8_E4M3", shape, codes), (name + ("_scale", ".weight_scale")[i], "F32", at, scales)]
            dense.append((name, "F32", shape, values))
        config = {"model_type": "llama4_text" if is_turned else "qwen3_5_moe", **MOE}
        check_stacks(kerf, model(f"{tmp}/{kind}", tensors, **config, quantization_config={"quant_method": "fp8"}), model(f"{tmp}/{kind}-truth", dense, **config))


def case_nvfp4_stacks(kerf, tmp):
    """As Model-Optimizer has them: [experts, in / 2, out] of Llama 4 and gpt-oss, and [experts, out, in / 2]."""
    grid = [0.0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for is_turned in (1, 0):
        tensors, dense = [], []
        for name, out, cols in SHAPES:
            name = f"{L}feed_forward.experts.{name}"
            codes = [(i * 73 + 5) % 256 for i in range(out * cols)]
            scales = [0x28 + int(abs(x) * 1e5) % 16 for x in numbers(2 * out * cols // 16, out)]
            seconds = [0.01, 0.02] if is_turned else [0.015]
            nibbles = [n for c in codes for n in (c & 15, c >> 4)]
            values = [f32((-1.0 if n & 8 else 1) * grid[n & 7] * f32(e4m3(scales[i // 16]) * f32(seconds[i // (out * cols) % len(seconds)])))
                      for i, n in enumerate(nibbles)]
            shapes = [(2, out, cols // 2), (2, out, cols // 16), (2, out, cols)]
            if is_turned:
                codes, scales, values = (turned(v, *s) for v, s in zip((codes, scales, values), shapes))
                shapes = [(s[0], s[2], s[1]) for s in shapes]
            tensors += [(name, "U8", shapes[0], codes), (name + "_weight_scale", "F8_E4M3", shapes[1], scales),
                        (name + "_weight_scale_2", "F32", (2,) if is_turned else (), seconds), (name + "_input_scale", "F32", (), [0.01])]
            dense.append((name, "F32", shapes[2], values))
        config = {"model_type": "llama4_text" if is_turned else "qwen3_5_moe", **MOE}
        folder = model(f"{tmp}/{is_turned}", tensors, **config, quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"})
        check_stacks(kerf, folder, model(f"{tmp}/{is_turned}-truth", dense, **config))


def case_gpt_oss(kerf, tmp):
    """Its experts in MXFP4: read by all verbs, and the same as what they decode to."""
    experts, tensors = L + "mlp.experts.", []
    for name, out, cols in (("gate_up_proj", 128, 256), ("down_proj", 256, 64)):
        blocks = [(i * 73 + 5) % 256 for i in range(2 * out * cols // 2)]
        tensors += [(f"{experts}{name}_blocks", "U8", (2, out, cols // 32, 16), blocks),
                    (f"{experts}{name}_scales", "U8", (2, out, cols // 32), [118 + i % 5 for i in range(2 * out * cols // 32)]),
                    (f"{experts}{name}_bias", "BF16", (2, out))]
    tensors += [(L + "mlp.router.weight", "BF16", (2, 256)), (L + "self_attn.q_proj.weight", "BF16", (256, 256))]
    config = {"model_type": "gpt_oss", "hidden_size": 256, "intermediate_size": 64, "num_local_experts": 2}
    folder = model(f"{tmp}/oss", tensors, **config, quantization_config={"quant_method": "mxfp4"})
    kerf("dequantize", folder, "--dtype", "fp32", "-o", f"{tmp}/dense")
    kerf("verify", folder, f"{tmp}/dense")
    scores = kerf.t2(folder, "int8")
    need(len(scores) == 3 and all(t > 0 for t in scores.values()), scores)
    kerf("advise", folder, "--budget", "5bits", "-f", "nvfp4", "-o", f"{tmp}/r.json")
    for layout in ("kerf", "compressed-tensors", "modelopt"):
        kerf("quantize", folder, "--recipe", f"{tmp}/r.json", "--layout", layout, "-o", f"{tmp}/r-{layout}")
        kerf("verify", folder, f"{tmp}/r-{layout}")
        kerf("quantize", folder, "-f", "nvfp4", "--layout", layout, "-o", f"{tmp}/{layout}", says="decoded on the way in from mxfp4")
        kerf("verify", folder, f"{tmp}/{layout}")


def case_same_format_again(kerf, tmp):
    """A source in NVFP4, quantized to NVFP4 in another layout: other bytes may be chosen, which are measured."""
    up = L + "mlp.up_proj.weight"
    parts = [(up, "U8", (64, 64), [0x21] * 4096), (up + "_scale", "F8_E4M3", (64, 8), [0xB8] + [0x38] * 511), (up + "_scale_2", "F32", (), [0.01])]
    folder = model(f"{tmp}/m", parts, model_type="llama", quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"})
    kerf("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/o")
    kerf("verify", folder, f"{tmp}/o", says="1 tensors measured")


# --- what is ruined ------------------------------------------------------------------------------
def case_outlier_in_a_row(kerf, tmp):
    """Where each row has its scale, one row is lost: too little for an error of the whole."""
    for size, lost in ((3e4, ("int8", "int4-row", "fp8-e4m3-row", "fp8-e4m3-128x128")), (30.0, ("int8", "int4-row")), (0.1, ())):
        v = numbers(64 * 256, 5)
        v[3 * 256 + 17] = size
        a, b = f"{tmp}/a.safetensors", f"{tmp}/b.safetensors"
        write(a, [(L + "mlp.up_proj.weight", "F32", (64, 256), v)])
        for codec in ("int8", "int4-row", "fp8-e4m3-row", "fp8-e4m3-128x128", "int4-g128", "mxfp8-e4m3"):
            kerf("quantize", a, "-f", codec, "-o", b, "-y")
            kerf("verify", a, b, code=codec in lost, says="lost_share" if codec in lost else "passed")
        for codec in lost[:1]:
            kerf("score", a, "-f", codec, says="blocks of 128 weights have lost more than half of themselves")
    with open(f"{tmp}/l.json", "w") as f:
        f.write('{"schema": "kerf.limits/1", "default": {"lost_share": 0.1, "zero_share": 0.5}}')
    kerf("verify", a, b, "--limits", f"{tmp}/l.json")


def case_ruined_sources(kerf, tmp):
    """Scales that make no numbers of a source are said by all that read it, and found by inspect."""
    up = L + "mlp.up_proj.weight"
    codes, config = (up, "U8", (64, 64), [0x21] * 4096), {"model_type": "llama"}
    fine, second = [0x38] * 512, [0.01]
    kinds = {"nan": ([0x7F] + fine[1:], second, "NaN or infinite"), "negative": ([0xB8] + fine[1:], second, "negative"), "zero": ([0] * 512, second, "all 512 scales are zero"),
             "second": (fine, [math.nan], "NaN or infinite"), "sign": (fine, [-0.01], "negative"), "nothing": (fine, [0.0], "all 1 second-level scales are zero")}
    for kind, (scales, number, says) in kinds.items():
        folder = model(f"{tmp}/{kind}", [codes, (up + "_scale", "F8_E4M3", (64, 8), scales), (up + "_scale_2", "F32", (), number)], **config)
        kerf("inspect", folder, code=1, says=says)
        is_nan = says.startswith("NaN")
        kerf("dequantize", folder, "-o", f"{tmp}/{kind}-d", says=says)
        kerf("convert", folder, "--layout", "kerf", "-o", f"{tmp}/{kind}-c", says=says)
        kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/{kind}-q", code=3 if is_nan else 0, says=says)
        kerf("score", folder, "-f", "int8", code=3 if is_nan else 0, says=says)
        kerf("advise", folder, "--budget", "9bits", "-f", "int8", code=3 if is_nan else 0, says=says)
    zeros = model(f"{tmp}/e8m0", [codes, (up + "_scale", "U8", (64, 4), [0] * 256)], **config)
    kerf("inspect", zeros, code=1, says="all 256 scales are zero")
    fp8 = [(up, "F8_E4M3", (128, 128), [0x31] * 16384)]
    for kind, value, says in (("nan", math.nan, "NaN or infinite"), ("sign", -0.1, "negative"), ("zero", 0.0, "scales are zero")):
        folder = model(f"{tmp}/fp8-{kind}", [*fp8, (up + "_scale_inv", "F32", (1, 1), [value])], **config)
        kerf("inspect", folder, code=1, says=says)
        kerf("dequantize", folder, "-o", f"{tmp}/fp8-{kind}-d", says=says)


# --- files and folders ---------------------------------------------------------------------------
def case_no_files(kerf, tmp):
    pages = {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 16400\n": "git lfs pull", "\n  <html lang='en'>": "an HTML page",
             "\ufeff<!doctype html>": "an HTML page", "Entry not found": "an error of a server", '{"error":"Repository not found"}': "an error of a server",
             "Access to model x is restricted": "accept the model's terms", "<?xml version='1.0'?><Error/>": "an XML document"}
    for i, (text, says) in enumerate(pages.items()):
        for end in ("safetensors", "gguf"):
            with open(f"{tmp}/{i}.{end}", "w", encoding="utf-8") as f:
                f.write(text)
            for verb in (("inspect",), ("quantize", "-f", "nvfp4", "-o", f"{tmp}/x"), ("score", "-f", "nvfp4"), ("dequantize", "-o", f"{tmp}/x")):
                kerf(verb[0], f"{tmp}/{i}.{end}", *verb[1:], code=3, says=says)
    for name in ("model.safetensors.index.json", "config.json"):
        folder = f"{tmp}/{name}.d"
        write(f"{folder}/model-00001-of-00001.safetensors", [(L + "mlp.up_proj.weight", "BF16", (64, 128))])
        for text, says in pages.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
            for verb in (("quantize", "-f", "nvfp4", "-o", f"{tmp}/x"), ("quantize", "-f", "nvfp4", "-n"), ("score", "-f", "nvfp4"),
                         ("advise", "--budget", "9bits", "-f", "int8"), ("dequantize", "-o", f"{tmp}/x")):
                kerf(verb[0], folder, *verb[1:], code=3, says=says)


def case_variants(kerf, tmp):
    """The same weights in another type lie beside the plain ones."""
    for stem in ("model", "diffusion_pytorch_model"):
        folder = f"{tmp}/{stem}"
        for i, name in enumerate((stem, stem + ".fp16", stem + ".non_ema")):
            write(f"{folder}/{name}.safetensors", [(f"blocks.{i}.attn.to_q.weight", "BF16", (128, 128))])
        need(kerf.json("inspect", folder)["weights"][0]["name"] == "blocks.0.attn.to_q.weight", f"{stem}: not the plain one")
        os.remove(f"{folder}/{stem}.safetensors")
        kerf("inspect", folder, code=3, says=f"give one of them, as {folder}/{stem}.fp16.safetensors")
        os.remove(f"{folder}/{stem}.non_ema.safetensors")
        kerf("inspect", folder, says="1 tensors in 1 file")
        shards = [f"{stem}{v}-0000{i}-of-00002.safetensors" for v in ("", ".fp16") for i in (1, 2)]
        for i, name in enumerate(shards):
            write(f"{tmp}/s-{stem}/{name}", [(f"blocks.{i % 2}.attn.to_q.weight", "BF16", (128, 128))])
        for end, of in (("json", shards[:2]), ("fp16.json", shards[2:])):
            with open(f"{tmp}/s-{stem}/{stem}.safetensors.index.{end}", "w") as f:
                json.dump({"weight_map": {f"blocks.{i}.attn.to_q.weight": n for i, n in enumerate(of)}}, f)
        kerf("inspect", f"{tmp}/s-{stem}", says="2 tensors in 2 files")


def case_hub(kerf, tmp):
    """predict and advise on a model of the cache, weights or not."""
    hub, cache = f"{tmp}/hub/models--org--name", {"HF_HOME": tmp, "HF_HUB_CACHE": ""}
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000}
    model(f"{hub}/snapshots/abc", [(L + f"self_attn.{n}_proj.weight", "BF16", (256, 256)) for n in "qkv"], model_type="llama", **sizes)
    os.makedirs(f"{hub}/refs")
    with open(f"{hub}/refs/main", "w") as f:
        f.write("abc")
    for name in ("org/name", "org/name/", "models--org--name", hub):
        p = kerf.json("predict", "--hardware", "h200", "--model", name, "-f", "nvfp4", env=cache)
        need(p["type"] == "llama", f"{name}: {p['type']}")
    advice = kerf("advise", "org/name", "--hardware", "h200", "--budget", "5bits", "-f", "nvfp4", "--json", env=cache)
    need(json.loads(advice) and "products alone" not in advice, "config.json of the snapshot is not read")
    kerf("predict", "--hardware", "h200", "--model", "org/nobody", code=4, env=cache)
    shutil.copytree(f"{hub}/snapshots/abc", f"{hub}/snapshots/def")
    os.remove(f"{hub}/refs/main")
    kerf("predict", "--hardware", "h200", "--model", "org/name", code=3, says="give one of them, as abc", env=cache)


# --- GGUF ----------------------------------------------------------------------------------------
def tokenizer(**more):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + ["\u2581", "a", "b", "ab", "\u2581a", "\u2581ab"]
    return {"added_tokens": [{"id": i, "content": tokens[i], "special": True} for i in range(3)], "normalizer": None, "pre_tokenizer": None,
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": ["a b", ["\u2581", "a"], "\u2581 ab", "\u2581a b"],
                      "unk_token": "<unk>", "byte_fallback": True}, **more}


def gguf_of(kerf, folder, files, **config):
    """The bytes of a model's file, and whether kerf verifies it."""
    n = L + "self_attn.{}_proj.{}"
    names = [(n.format(p, "weight"), "BF16", (128, 128)) for p in "qkvo"] + [(n.format("q", "bias"), "BF16", (128,), [float(i) for i in range(128)])]
    names += [(L + f"mlp.{p}_proj.weight", "BF16", (128, 128)) for p in ("gate", "up", "down")] + [("model.embed_tokens.weight", "BF16", (512, 128))]
    names += [(n, "BF16", (128,)) for n in ("model.norm.weight", L + "input_layernorm.weight", L + "post_attention_layernorm.weight")]
    model(folder, names, model_type="llama", hidden_size=128, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
          num_key_value_heads=4, vocab_size=512, max_position_embeddings=256, attention_bias=True, bos_token_id=1, eos_token_id=2, **config)
    for name, text in files.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    kerf("quantize", folder, "-f", "ggml-q8_0", "-o", folder + ".gguf", "-y")
    kerf("verify", folder, folder + ".gguf")
    with open(folder + ".gguf", "rb") as f:
        return f.read()


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def case_gguf(kerf, tmp):
    """Scaled rotary positions, biases in llama.cpp's order, tokens of SentencePiece, templates in a file."""
    files = {"tokenizer.json": json.dumps(tokenizer()), "chat_template.jinja": "{{ greeting }}"}
    plain = gguf_of(kerf, f"{tmp}/plain", files)
    pairs = [h * 32 + half * 16 + i for h in range(4) for i in range(16) for half in (0, 1)]  # of halves
    need(struct.pack("<128f", *pairs) in plain, "the bias of q is in another order")
    need(string("tokenizer.chat_template") + struct.pack("<I", 8) + string("{{ greeting }}") in plain, "chat_template.jinja is not there")
    scores = [-5.0] * 262 + [0.0, -1.0, -2.0] + [-5.0] * 247
    need(string("tokenizer.ggml.scores") + struct.pack("<IIQ512f", 9, 6, 512, *scores) in plain, "scores are others")
    types = [2, 3, 3] + [6] * 256 + [1] * 6 + [5] * 247
    need(string("tokenizer.ggml.token_type") + struct.pack("<IIQ512i", 9, 5, 512, *types) in plain, "types of tokens are others")
    need(string("tokenizer.ggml.add_space_prefix") + struct.pack("<IB", 7, 0) in plain, "no prefix was asked for")
    space = {"type": "Prepend", "prepend": "\u2581"}
    prefixed = gguf_of(kerf, f"{tmp}/prefixed", {"tokenizer.json": json.dumps(tokenizer(normalizer=space))},
                       rope_scaling={"type": "linear", "factor": 4.0})
    need(string("tokenizer.ggml.add_space_prefix") + struct.pack("<IB", 7, 1) in prefixed, "a prefix was asked for")
    need(string("llama.rope.scaling.type") + struct.pack("<I", 8) + string("linear") in prefixed, "no scaling")
    need(string("llama.rope.scaling.factor") + struct.pack("<If", 6, 4.0) in prefixed, "no factor")
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    scaled = gguf_of(kerf, f"{tmp}/llama3", files, rope_theta=500000.0, rope_scaling=llama3)
    waves = [2 * math.pi * 500000.0 ** (i / 16) for i in range(16)]
    divisors = [1.0 if w < 16 else 8.0 if w > 64 else 1 / ((1 - (64 / w - 1) / 3) / 8 + (64 / w - 1) / 3) for w in waves]
    at = scaled.find(struct.pack("<2f", *divisors[:2]))
    found = struct.unpack("<16f", scaled[at:at + 64]) if at >= 0 else [0] * 16
    need(all(is_near(a, b, 1e-6) for a, b in zip(found, divisors)), f"divisors {found} are not {divisors}")
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 128}
    need(string("llama.rope.scaling.original_context_length") + struct.pack("<II", 4, 128) in gguf_of(kerf, f"{tmp}/yarn", files, rope_scaling=yarn), "yarn")


def case_gguf_of_quantized(kerf, tmp):
    """What stands in the files is what is counted, also of q and k, whose rows GGUF has in another order."""
    names = [L + f"self_attn.{p}_proj" for p in "qkvo"] + [L + f"mlp.{p}_proj" for p in ("gate", "up", "down")]
    rest = [("model.embed_tokens.weight", "BF16", (512, 128))] + [(n, "BF16", (128,)) for n in ("model.norm.weight", L + "input_layernorm.weight", L + "post_attention_layernorm.weight")]
    groups = {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
        "num_bits": 8, "type": "int", "strategy": "group", "group_size": 64, "symmetric": True}}}}
    for dtype, scale, method in (("I8", ("_scale", "BF16", (128, 2)), groups), ("F8_E4M3", ("_scale_inv", "F32", (1, 1)), {"quant_method": "fp8", "weight_block_size": [128, 128]})):
        codes = [(n + ".weight", dtype, (128, 128), [(i * 37 + j) % 0x70 for i in range(128) for j in range(128)]) for n in names]
        folder = model(f"{tmp}/{dtype}", codes + [(n + ".weight" + scale[0], *scale[1:]) for n in names] + rest, model_type="llama", hidden_size=128, intermediate_size=128,
                       num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, vocab_size=512, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, quantization_config=method)
        with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as f:
            json.dump(tokenizer(), f)
        done = kerf.json("quantize", folder, "-f", "ggml-q8_0", "-o", f"{tmp}/{dtype}.gguf")
        kerf("verify", folder, f"{tmp}/{dtype}.gguf")
        stored = sum(len(raw) for _, _, raw in read(f"{folder}/model.safetensors").values())
        need(done["totals"]["bytes_in"] == stored, f"{dtype}: {done['totals']}, not {stored}")
        need([n[:22] for n in done["notes"] if "decoded" in n] == ["7 tensors are decoded "], done["notes"])
        plan = kerf.json("quantize", folder, "-f", "ggml-q8_0", "-o", f"{tmp}/{dtype}.gguf", "--keep", "*q_proj*", "-n")["totals"]
        need(plan["bytes_in"] == stored and plan["bytes_out"] > done["totals"]["bytes_out"], plan)


def case_gguf_experts(kerf, tmp):
    """Qwen3-MoE straight to GGUF: experts one by one, in stacks, and in FP8 of both kinds are the same file."""
    size, inner, n = 128, 128, 2
    part = {"gate": (inner, size), "up": (inner, size), "down": (size, inner)}
    codes = {(p, e): codes_of(size * inner, 10 * e + len(p)) for p in part for e in range(n)}
    scale = {(p, e): 2.0 ** -(5 + e + len(p) % 3) for p in part for e in range(n)}
    value = {k: [e4m3(c) * scale[k] for c in codes[k]] for k in codes}  # BF16 has them
    experts = L + "mlp.experts."
    rest = [(L + f"self_attn.{p}_proj.weight", "BF16", (size, size)) for p in "qkvo"] + [("model.embed_tokens.weight", "BF16", (512, size))]
    rest += [(L + "mlp.gate.weight", "BF16", (n, size))] + [(L + f"self_attn.{p}_norm.weight", "BF16", (32,)) for p in "qk"]
    rest += [(x, "BF16", (size,)) for x in ("model.norm.weight", L + "input_layernorm.weight", L + "post_attention_layernorm.weight")]
    config = dict(model_type="qwen3_moe", hidden_size=size, intermediate_size=256, moe_intermediate_size=inner, num_experts=n, num_experts_per_tok=1,
                  num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, head_dim=32, vocab_size=512, max_position_embeddings=64)
    fp8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}

    def singles(dtype, of):
        return [(f"{experts}{e}.{p}_proj.weight", dtype, part[p], of[p, e]) for e in range(n) for p in part]

    def stacks(dtype, of):
        both = [x for e in range(n) for p in ("gate", "up") for x in of[p, e]]
        down = [x for e in range(n) for x in of["down", e]]
        return [(experts + "gate_up_proj", dtype, (n, 2 * inner, size), both), (experts + "down_proj", dtype, (n, size, inner), down)]

    scales = [(f"{experts}{e}.{p}_proj.weight_scale_inv", "F32", (1, 1), [scale[p, e]]) for e in range(n) for p in part]
    scales += [(f"{experts}{e}.{p}_proj.input_scale", "F32", (), [0.1]) for e in range(n) for p in part]
    stacked = [(experts + "gate_up_proj_scale_inv", "F32", (n, 2, 1), [scale[p, e] for e in range(n) for p in ("gate", "up")]),
               (experts + "down_proj_scale_inv", "F32", (n, 1, 1), [scale["down", e] for e in range(n)])]
    kinds = {"singles": (singles("F32", value), {}), "stacks": (stacks("F32", value), {}), "fp8": (singles("F8_E4M3", codes) + scales, fp8),
             "fp8-stacks": (stacks("F8_E4M3", codes) + stacked, fp8)}
    files = []
    for kind, (tensors, more) in kinds.items():
        folder = model(f"{tmp}/{kind}", tensors + rest, **config, **more)
        with open(f"{folder}/tokenizer.json", "w") as f:
            json.dump({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {chr(33 + i): i for i in range(94)}, "merges": []}}, f)
        says = "3 tensors are decoded on the way in" if more else None
        kerf("quantize", folder, "-f", "ggml-q8_0", "-o", folder + ".gguf", says=says)
        kerf("verify", folder, folder + ".gguf")
        kerf("inspect", folder + ".gguf")
        kerf("dequantize", folder + ".gguf", "-o", folder + ".safetensors")
        files.append(read(folder + ".safetensors"))
        shapes = {k: v[1] for k, v in files[-1].items()}
        need(shapes["blk.0.ffn_up_exps.weight"] == [n, inner, size] and shapes["blk.0.ffn_down_exps.weight"] == [n, size, inner], shapes)
        need(files[-1] == files[0], f"{kind}: other tensors than of experts one by one")
    for glob in ("*experts.0.*", "*experts.1.up_proj*"):  # the first gave all experts its format, the others matched nothing
        for args in (["--keep", glob], ["--only", glob], ["--tensor", f"{glob}=q5_0"]):
            kerf("quantize", f"{tmp}/singles", "-f", "ggml-q8_0", *args, "-n", "-o", f"{tmp}/some.gguf", code=2, says="is for some experts of a layer, and the output has all of them in one tensor, blk.0.ffn_")
    plan = kerf.json("quantize", f"{tmp}/singles", "-f", "ggml-q8_0", "--tensor", "*experts.*.up_proj*=q5_0", "-n", "-o", f"{tmp}/some.gguf")
    need([t["name"] for t in plan["tensors"] if t["format"] == "q5_0:ggml"] == ["blk.0.ffn_up_exps.weight"], "a pattern for all experts")
    for wrong, says in ((1, "experts.1.gate_proj.weight: config.json has a num_experts of 1"), (None, "config.json has a num_experts of 0"),
                        (3, "experts.2.gate_proj.weight is missing"), (2 ** 32 - 1, "more than there are weights")):
        folder = model(f"{tmp}/wrong", kinds["singles"][0] + rest, **{**config, "num_experts": wrong})
        shutil.copy(f"{tmp}/singles/tokenizer.json", folder)
        kerf("quantize", folder, "-f", "ggml-q8_0", "-o", f"{tmp}/wrong.gguf", code=3, says=says)


def proto(number, value):
    """A field of a protocol buffer: bytes, a float, or a whole number."""
    def varint(n):
        n &= 2 ** 64 - 1
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def piece_file(tokens, model_type=2, charsmap=b""):
    """tokens: (text, score, type)"""
    pieces = b"".join(proto(1, proto(1, t.encode()) + proto(2, s) + proto(3, k)) for t, s, k in tokens)
    return pieces + proto(2, proto(3, model_type) + proto(41, 1)) + proto(3, proto(1, b"identity") + proto(2, charsmap) + proto(3, 1) + proto(4, 0))


def pieces_of(raw, n):
    """The texts, types and scores of a GGUF file."""
    out = []
    for key, kind, read_one in (("tokens", 8, None), ("token_type", 5, "i"), ("scores", 6, "f")):
        at = raw.index(string(f"tokenizer.ggml.{key}") + struct.pack("<IIQ", 9, kind, n)) + len(key) + 15 + 8 + 16
        if read_one:
            out.append(list(struct.unpack_from(f"<{n}{read_one}", raw, at)))
            continue
        texts = []
        for _ in range(n):
            size = struct.unpack_from("<Q", raw, at)[0]
            texts.append(raw[at + 8:at + 8 + size].decode())
            at += 8 + size
        out.append(texts)
    return out


def trained(tmp):
    """Tokens of a model that SentencePiece trained here, as itself reads them; None: it is not installed."""
    try:
        import sentencepiece
    except ImportError:
        return None
    with open(f"{tmp}/text", "w") as f:
        f.write("\n".join(f"the width {i} of a cut that a saw {'destroys' if i % 3 else 'leaves'}" for i in range(300)))
    sentencepiece.SentencePieceTrainer.train(
        input=f"{tmp}/text", model_prefix=f"{tmp}/trained", vocab_size=400, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, user_defined_symbols=["<tool>"], hard_vocab_limit=False, minloglevel=2)
    p = sentencepiece.SentencePieceProcessor(model_file=f"{tmp}/trained.model")
    n = p.get_piece_size()
    types = [2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 4 if p.id_to_piece(i) == "<tool>" else 1 for i in range(n)]
    return [p.id_to_piece(i) for i in range(n)], types, [p.get_score(i) for i in range(n)]


def case_sentencepiece(kerf, tmp):
    """A folder with tokenizer.model alone."""
    tokens = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + [(f"<0x{i:02X}>", 0.0, 6) for i in range(256)]
    tokens += [("\u2581a", -0.0, 1), ("ab", -1.0, 1), ("\u2581\u2581<tool>", 0.0, 4)]
    texts, types, scores = ([t[i] for t in tokens] for i in (0, 2, 1))
    # as llama.cpp's converter: tokens of users have spaces, what was added later takes the place of what the file has, and numbers behind the vocabulary are left out
    wanted = [texts[:260] + ["<other> x", "  <tool>", "<later>"] + [f"[PAD{i}]" for i in range(263, 512)], [3] + types[1:260] + [4, 4, 3] + [5] * 249,
              [-1000.0] + scores[1:260] + [-1000.0, 0.0, -1000.0] + [-10000.0] * 249]
    later = {"tokenizer_config.json": json.dumps({"added_tokens_decoder": {"262": {"content": "<later>", "special": True}, "0": {"content": "<unk>", "special": True},
                                                                               "260": {"content": "<other>\u2581x"}, "512": {"content": "<pad>", "special": True}}}),
             "added_tokens.json": json.dumps({"<later>": 262, "<pad>": 512})}

    def write_file(folder, raw):
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/tokenizer.model", "wb") as f:
            f.write(raw)

    write_file(f"{tmp}/m", piece_file(tokens))
    raw = gguf_of(kerf, f"{tmp}/m", later)
    need(pieces_of(raw, 512) == wanted, "tokens are others")
    need(string("tokenizer.ggml.model") + struct.pack("<I", 8) + string("llama") in raw and string("tokenizer.ggml.unknown_token_id") + struct.pack("<II", 4, 0) in raw, "keys")
    need(string("tokenizer.ggml.add_bos_token") + struct.pack("<IB", 7, 1) in raw, "a text begins with <s>")
    for file, says in ((piece_file(tokens, 1), "it was not trained as BPE"), (piece_file(tokens, 2, b"x"), "it changes texts"),
                             (piece_file(tokens)[:-3], "ends behind the file"), (b"<!DOCTYPE html>", "tokenizer.model: "),
                             (piece_file(tokens * 2), "vocab_size of 512")):
        write_file(f"{tmp}/m", file)
        kerf("quantize", f"{tmp}/m", "-f", "ggml-q8_0", "-o", f"{tmp}/x.gguf", code=3, says=says)
    write_file(f"{tmp}/m", piece_file(tokens))
    for name, text in (("added_tokens.json", '{"<a>": -1}'), ("added_tokens.json", '{"<a>": "x"}'), ("tokenizer_config.json", '{"added_tokens_decoder": {"-1": {"content": "a"}}}')):
        with open(f"{tmp}/m/{name}", "w") as f:
            f.write(text)
        kerf("quantize", f"{tmp}/m", "-f", "ggml-q8_0", "-o", f"{tmp}/x.gguf", code=3, says="a token has no number")
        os.remove(f"{tmp}/m/{name}")
    own = trained(tmp)
    if own:
        shutil.copy(f"{tmp}/trained.model", f"{tmp}/m/tokenizer.model")
        with open(f"{tmp}/m/tokenizer_config.json", "w") as f:
            f.write("{}")
        n = len(own[0])
        need([x[:n] for x in pieces_of(gguf_of(kerf, f"{tmp}/m", {}), 512)] == list(own), "tokens are not those of SentencePiece")
        print(f"{n} tokens of SentencePiece")


def case_windows(kerf, tmp):
    """Gemma 3: of 62 layers every sixth sees all tokens, which are ten."""
    text = {"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62, "num_attention_heads": 32,
            "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024, "sliding_window_pattern": 6, "vocab_size": 262208}
    folder = model(f"{tmp}/g", [("a.weight", "BF16", (128, 128))], model_type="gemma3", text_config=text)
    p = kerf.json("predict", "--hardware", "h200", "--model", folder, "-f", "bf16")["predictions"][0]
    layer = 5376 * 4096 * 2 + 5376 * 2048 * 2 + 3 * 5376 * 21504
    weights = 62 * layer + 262208 * 5376
    need(is_near(p["crossover_tokens"], (weights / 4096 - 52 * 1024) / 10, 0.001), f"crossover at {p['crossover_tokens']}")
    # which layers have the window is said in several ways; 8 layers, 4 of 4 heads of 64
    base = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 4, "vocab_size": 512, "sliding_window": 1000}
    types = ["sliding_attention", "full_attention"] * 4
    kinds = (("mistral", {}, 8), ("phi3", {}, 8), ("starcoder2", {}, 8), ("llama", {}, 0), ("qwen2", {}, 0), ("qwen2", {"use_sliding_window": False, "max_window_layers": 2}, 0),
             ("qwen2", {"use_sliding_window": True, "max_window_layers": 6}, 2), ("qwen3", {"use_sliding_window": True, "max_window_layers": 8}, 0),
             ("qwen3", {"layer_types": types}, 4), ("smollm3", {"layer_types": ["full_attention"] * 8}, 0), ("never_heard_of", {"layer_types": types}, 4),
             ("mistral", {"sliding_window": None}, 0), ("never_heard_of", {"sliding_window_pattern": 4}, 6))
    for i, (kind, more, wanted) in enumerate(kinds):
        folder = model(f"{tmp}/{i}", [("a.weight", "BF16", (128, 128))], **{**base, "model_type": kind, **more})
        p = kerf.json("predict", "--hardware", "h200", "--model", folder, "-f", "bf16", "--context", "32768")["predictions"][0]
        right = 2 * 256 * 2 * (wanted * 1000 + (8 - wanted) * 32768)
        need(p["cache_bytes"] == right, f"{kind} {more}: a cache of {p['cache_bytes']}, not {right}")


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
