#!/usr/bin/env python3
"""check_sources.py KERF [CASE...]: checkpoints that others have quantized: experts in stacks, schemes that kerf
does not read, adapters, files that are no model, and shapes that config.json contradicts."""
import json
import os
import struct
import subprocess
import sys

from files import count, e4m3, f32, model, need, numbers, pack, read, run_cases, write, write_gguf

L = "model.layers.0."
SHAPES = (("gate_up_proj", 256, 128), ("down_proj", 128, 128))  # out, in
MOE = {"model_type": "qwen3_moe", "hidden_size": 128, "intermediate_size": 256, "moe_intermediate_size": 128, "num_experts": 2,
       "num_experts_per_tok": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512, "num_hidden_layers": 1}
GRID = [0.0, 0.5, 1, 1.5, 2, 3, 4, 6]


def e2m1(n):
    return (-1.0 if n & 8 else 1.0) * GRID[n & 7]


def bytes_of(n, seed):
    return [(i * 73 + seed * 31 + (i >> 8)) % 256 for i in range(n)]


def nvfp4_stack(name, out, cols):
    """Tensors, and the values that they stand for."""
    codes = bytes_of(out * cols, out)
    scales = [0x28 + int(abs(x) * 1e5) % 16 for x in numbers(2 * out * cols // 16, out)]
    divisors = [1024.0, 512.0]
    nibbles = [n for c in codes for n in (c & 15, c >> 4)]
    values = [f32(e2m1(n) * f32(e4m3(scales[i // 16]) * f32(1 / divisors[i // (out * cols)]))) for i, n in enumerate(nibbles)]
    return [(name + "_packed", "U8", (2, out, cols // 2), codes), (name + "_scale", "F8_E4M3", (2, out, cols // 16), scales),
            (name + "_global_scale", "F32", (2, 1), divisors)], values


def mxfp4_stack(name, out, cols):
    codes = bytes_of(out * cols, out)
    scales = [118 + int(abs(x) * 200) % 5 for x in numbers(2 * out * cols // 32, out)]
    nibbles = [n for c in codes for n in (c & 15, c >> 4)]
    values = [f32(e2m1(n) * 2.0 ** (scales[i // 32] - 127)) for i, n in enumerate(nibbles)]
    return [(name + "_packed", "U8", (2, out, cols // 2), codes), (name + "_scale", "U8", (2, out, cols // 32), scales)], values


def int4_stack(name, out, cols):
    """Eight codes of a row in a word, counted from 8."""
    codes = [(i * 7 + i // 5) % 16 for i in range(2 * out * cols)]
    words = [sum(c << 4 * k for k, c in enumerate(codes[i:i + 8])) for i in range(0, len(codes), 8)]
    scales = [2.0 ** -(6 + i % 3) for i in range(2 * out * cols // 128)]
    values = [(c - 8) * scales[i // 128] for i, c in enumerate(codes)]
    return [(name + "_packed", "I32", (2, out, cols // 8), [w - (w >> 31 << 32) for w in words]),
            (name + "_scale", "BF16", (2, out, cols // 128), scales), (name + "_shape", "I64", (3,), [2, out, cols])], values


def case_ct_stacks(kerf, tmp):
    """compressed-tensors with experts in one tensor: read, scored, written one by one, and verified."""
    kinds = {"nvfp4": (nvfp4_stack, ".weight", "mxfp4"), "flat": (nvfp4_stack, "", "mxfp4"), "mxfp4": (mxfp4_stack, ".weight", "nvfp4"), "int4": (int4_stack, ".weight", "nvfp4")}
    for kind, (make, suffix, to) in kinds.items():
        tensors, dense = [], []
        for name, out, cols in SHAPES:
            name = f"{L}mlp.experts.{name}{suffix}"
            more, values = make(name, out, cols)
            tensors += more
            dense.append((name, "F32", (2, out, cols), values))
        folder = model(f"{tmp}/{kind}", tensors, **MOE, quantization_config={"quant_method": "compressed-tensors"})
        truth = model(f"{tmp}/{kind}-truth", dense, **MOE)
        need(kerf.t2(folder, "int8") == kerf.t2(truth, "int8"), f"{kind}: another error than that of the decoded experts")
        kerf("inspect", folder, says="2 quantized")
        kerf("dequantize", folder, "--dtype", "fp32", "-o", f"{folder}-dense")
        found, wanted = (read(f"{f}/model.safetensors") for f in (f"{folder}-dense", truth))
        need(found == wanted, f"{kind}: is decoded wrongly")
        for layout in ("kerf", "compressed-tensors", "modelopt") if to == "nvfp4" else ("kerf", "compressed-tensors"):
            kerf("quantize", folder, "-f", to, "--layout", layout, "-o", f"{folder}-{layout}", says="of layout compressed-tensors-stacks")
            kerf("verify", truth, f"{folder}-{layout}")
            kerf("inspect", f"{folder}-{layout}")


def case_kept(kerf, tmp):
    """A weight of the layout that is written stays as its writer had it: scales of shorter types, under other names,
    tiles that are cut. What is written is read again, and asked for once more."""
    other = [(L + "self_attn.o_proj.weight", "BF16", (512, 256))]
    name = L + "mlp.down_proj.weight"
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    kinds = {"short": ("I8", (name + "_scale", "BF16", (256, 1)), "int8", "compressed-tensors", {"quant_method": "compressed-tensors"}),
             "channel": ("F8_E4M3", (name + "_scale", "BF16", (256, 1)), "fp8-e4m3-row", "compressed-tensors", {"quant_method": "compressed-tensors"}),
             "cut": ("F8_E4M3", (name + "_scale_inv", "BF16", (2, 2)), "fp8-e4m3-128x128", "deepseek", block),
             "exponents": ("F8_E4M3", (L + "mlp.down_proj.scale", "F8_E8M0", (2, 2), [2.0 ** -n for n in range(4)]), "fp8-e4m3-128x128", "deepseek", block)}
    for kind, (dtype, scale, codec, layout, method) in kinds.items():
        tensors = [(name, dtype, (256, 192)), scale if len(scale) > 3 else (*scale, [0.5] * (scale[2][0] * scale[2][1]))] + other
        folder, out = model(f"{tmp}/{kind}", tensors, model_type="llama", quantization_config=method), f"{tmp}/{kind}-out"
        kerf("quantize", folder, "-f", codec, "--tensor", f"*o_proj*={codec}", "--layout", layout, "-o", out, says="1 of 2 tensors quantized")
        kerf("inspect", out)
        kerf("verify", folder, out, says="1 tensors measured, 1 equal to the source")
        kerf("dequantize", out, "-o", f"{out}-dense")
        kerf("verify", out, f"{out}-dense")


def case_other_groups(kerf, tmp):
    """Scales of groups that no format of kerf has are decoded on the way in; exponents of 32 numbers are MXFP8 by either name."""
    name = L + "mlp.down_proj.weight"
    for rows, cols, form in ((64, 64, "64x64"), (1, 128, "g128"), (128, 1, "128x1")):
        shape = (256 // rows, 256 // cols)
        tiles = [2.0 ** (i % 7) for i in range(shape[0] * shape[1])]
        folder = model(f"{tmp}/{rows}x{cols}", [(name, "F8_E4M3", (256, 256), [0x38] * 65536), (name + "_scale_inv", "F32", shape, tiles)], model_type="llama",
                       quantization_config={"quant_method": "fp8"})
        kerf("quantize", folder, "-f", "nvfp4", "-o", f"{folder}-nvfp4", says=f"is decoded on the way in from fp8-e4m3-{form}:")
        kerf("dequantize", folder, "-o", f"{folder}-dense", "--dtype", "fp32")
        dense = struct.unpack("<65536f", read(f"{folder}-dense/model.safetensors")[name][2])
        need(list(dense) == [tiles[i // 256 // rows * shape[1] + i % 256 // cols] for i in range(65536)], f"{rows}x{cols}: other numbers")
    folder = model(f"{tmp}/bytes", [(name, "F8_E4M3", (256, 256), [0x38] * 65536), (name + "_scale_inv", "U8", (2, 2), [127, 128, 126, 130])], model_type="llama",
                   quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"})
    kerf("dequantize", folder, "-o", f"{folder}-dense", "--dtype", "fp32")
    dense = struct.unpack("<65536f", read(f"{folder}-dense/model.safetensors")[name][2])
    need(list(dense) == [(1, 2, 0.5, 8)[i // 256 // 128 * 2 + i % 256 // 128] for i in range(65536)], "exponents as bytes: other numbers")
    kerf("quantize", folder, "-f", "nvfp4", "-o", f"{folder}-nvfp4", says="is decoded on the way in from fp8-e4m3-128x128")
    kerf("verify", folder, f"{folder}-nvfp4")
    folder = model(f"{tmp}/mx", [(name, "F8_E4M3", (256, 256)), (name + "_scale_inv", "U8", (256, 8), [120] * 2048)], model_type="llama", quantization_config={"quant_method": "fp8"})
    kerf("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/mx-out", says="from mxfp8-e4m3")
    rows = [(name, "F8_E4M3", (256, 256)), (name + "_scale", "F32", (256, 1), [0.1] * 256)]  # a method of another name, with tensors that others have
    kerf("inspect", model(f"{tmp}/fbgemm", rows, model_type="llama", quantization_config={"quant_method": "fbgemm_fp8"}))
    packed = [(f"{L}mlp.down_proj.weight_{end}", *rest) for end, *rest in (("packed", "I32", (256, 32)), ("scale", "BF16", (256, 2)), ("shape", "I64", (2,), [256, 256]), ("g_idx", "I32", (256,)))]
    folder = model(f"{tmp}/sorted", packed, model_type="llama", quantization_config={"quant_method": "compressed-tensors"})
    kerf("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/x", code=3, says="sorted by activation")


def linear(name, *parts):
    """The parts of a layer beside which nothing says what they are; dense ones beside it."""
    return [(f"{L}{name}.{end}", *rest) for end, *rest in parts]


def case_foreign(kerf, tmp):
    """Schemes that kerf does not read: no verb takes what it knows of them and drops the rest."""
    rest = [(L + f"self_attn.{p}_proj.weight", "BF16", (128, 128)) for p in "qo"]
    kinds = {"aqlm": linear("mlp.up_proj", ("codes", "I16", (256, 16, 1)), ("codebooks", "BF16", (1, 256, 1, 8)), ("scales", "BF16", (256, 1, 1, 1))),
             "hqq": linear("mlp.up_proj", ("W_q", "U8", (32, 512)), ("scale", "BF16", (1, 512)), ("zero", "BF16", (1, 512))),
             "exl2": linear("mlp.up_proj", ("q_weight", "I32", (16, 256)), ("q_scale", "I32", (4, 32)), ("q_scale_max", "F16", (4,)))}
    for method, tensors in kinds.items():
        folder = model(f"{tmp}/{method}", tensors + rest, **MOE, quantization_config={"quant_method": method})
        says = f'quantized with "{method}"'
        for verb in (("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/x"), ("quantize", folder, "-f", "nvfp4", "-n"), ("score", folder),
                     ("advise", folder, "--budget", "5bits", "-f", "nvfp4"), ("quantize", folder, "-f", "ggml-q4_0", "-o", f"{tmp}/x.gguf")):
            kerf(*verb, code=3, says=says)
        kerf("inspect", folder, code=1, says=says)
    # of no method at all: codes under a name that nothing knows
    folder = model(f"{tmp}/none", [(L + "mlp.up_proj.lut_codes", "U8", (256, 64))] + rest, **MOE)
    kerf("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/x", code=3, says="lut_codes")
    # what is added to a model
    write(f"{tmp}/lora/adapter_model.safetensors", [("base_model.model." + L + "self_attn.q_proj.lora_A.weight", "BF16", (8, 128))])
    with open(f"{tmp}/lora/adapter_config.json", "w") as f:
        json.dump({"peft_type": "LORA"}, f)
    kerf("quantize", f"{tmp}/lora", "-f", "nvfp4", "-o", f"{tmp}/x", code=3, says="an adapter (LoRA)")
    # integers that are no codes
    tables = [(L + "mlp.gate.tid2eid", "I32", (512, 2)), ("position_ids", "I64", (1, 512)), (L + "attn.bias", "U8", (1, 1, 16, 16)), (L + "attn.causal_mask", "U8", (1, 1, 16, 16)),
              (L + "attn.relative_position_index", "I32", (16, 16))]
    kerf("quantize", model(f"{tmp}/tables", tables + rest, **MOE), "-f", "nvfp4", "-o", f"{tmp}/t")


def words(codes, bits):
    """Codes one after the other in words of 32 bits."""
    stream = sum(c << bits * i for i, c in enumerate(codes))
    return [stream >> 32 * i & 0xffffffff for i in range(len(codes) * bits // 32)]


def signed(values):
    return [w - (w >> 31 << 32) for w in values]


def decoded(kerf, folder, tmp, name):
    """The numbers of a weight, which all verbs read."""
    kerf("dequantize", folder, "-o", f"{tmp}/d.safetensors", "--dtype", "fp32", "-y")
    kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/q", "-y")
    kerf("verify", folder, f"{tmp}/q")
    dtype, shape, raw = read(f"{tmp}/d.safetensors")[name]
    return shape, list(struct.unpack(f"<{len(raw) // 4}f", raw))


def case_mlx(kerf, tmp):
    """MLX's words, scales and biases: all widths, a module with sizes of its own, stacks; never without its sizes."""
    up, rows, cols = L + "mlp.up_proj", 8, 128

    def tensors(name, bits, group, experts=0):
        n, groups = (experts or 1) * rows, cols // group
        codes = [(i * 37 + i // cols * 11) % 2 ** bits for i in range(n * cols)]
        scales = [2.0 ** -6 * (1 + i % 7 / 8) for i in range(n * groups)]
        biases = [-0.25 * (1 + i % 5) for i in range(n * groups)]
        shape = [*([experts] if experts else []), rows]
        packed = [w for r in range(n) for w in words(codes[r * cols:(r + 1) * cols], bits)]
        want = [c * scales[i // group] + biases[i // group] for i, c in enumerate(codes)]
        return [(name + ".weight", "U32", (*shape, cols * bits // 32), packed), (name + ".scales", "BF16", (*shape, groups), scales),
                (name + ".biases", "BF16", (*shape, groups), biases)], shape + [cols], want

    for bits, group in ((2, 64), (3, 64), (4, 32), (4, 64), (5, 64), (6, 128), (8, 64)):
        parts, shape, want = tensors(up, bits, group)
        for key in ("quantization", "quantization_config"):
            folder = model(f"{tmp}/m", parts, model_type="llama", **{key: {"group_size": group, "bits": bits}})
            need(decoded(kerf, folder, tmp, up + ".weight") == (shape, want), f"{bits} bits, groups of {group}")
            with open(f"{tmp}/q/config.json", encoding="utf-8") as f:
                need("quantization" not in json.load(f), "the output has MLX's sizes")
    parts, shape, want = tensors(up, 8, 64)
    folder = model(f"{tmp}/m", parts + tensors(L + "mlp.down_proj", 4, 32)[0], model_type="llama", quantization={"group_size": 32, "bits": 4, up: {"group_size": 64, "bits": 8}})
    need(decoded(kerf, folder, tmp, up + ".weight") == (shape, want), "a module with its own sizes")
    stack = L + "mlp.switch_mlp.up_proj"
    parts, shape, want = tensors(stack, 4, 64, 3)
    folder = model(f"{tmp}/m", parts, model_type="qwen3_moe", num_experts=3, hidden_size=cols, moe_intermediate_size=rows, quantization={"group_size": 64, "bits": 4})
    need(decoded(kerf, folder, tmp, stack + ".weight") == (shape, want), "a stack")
    parts = tensors(up, 4, 64)[0]
    for left, sizes in ((parts, {}), (parts, {"quantization": {"group_size": 64, "bits": 8}}), (parts[:2], {"quantization": {"group_size": 64, "bits": 4}})):
        folder = model(f"{tmp}/m", left, model_type="llama", **sizes)
        kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/x", code=3, says="up_proj.weight: holds words where a matrix of a layer should be")


def case_gptq_three_bits(kerf, tmp):
    """Codes and zero points that lie across words, in both versions."""
    up, rows, cols, group = L + "mlp.up_proj", 64, 64, 32
    codes = [[(r * 5 + c * 3 + r * c) % 8 for c in range(cols)] for r in range(rows)]
    scales = [[2.0 ** -(4 + (r + g) % 3) for r in range(rows)] for g in range(cols // group)]
    by_rows = [words(codes[r], 3) for r in range(rows)]
    packed = [by_rows[r][w] for w in range(cols * 3 // 32) for r in range(rows)]
    for version, less in (("gptq", 1), ("gptq_v2", 0)):
        for zeros in ([[4] * rows] * 2, [[1 + (r + g) % 7 for r in range(rows)] for g in range(2)]):
            parts = [(up + ".qweight", "I32", (cols * 3 // 32, rows), signed(packed)), (up + ".scales", "F16", (2, rows), sum(scales, [])),
                     (up + ".qzeros", "I32", (2, rows * 3 // 32), signed(sum((words([(z - less) % 8 for z in g], 3) for g in zeros), [])))]
            folder = model(f"{tmp}/m", parts, model_type="llama", quantization_config={"quant_method": "gptq", "bits": 3, "group_size": group, "checkpoint_format": version})
            want = [(codes[r][c] - zeros[c // group][r]) * scales[c // group][r] for r in range(rows) for c in range(cols)]
            need(decoded(kerf, folder, tmp, up + ".weight") == ([rows, cols], want), version)
            for config in ({"format": version}, {"format": version, "checkpoint_format": version}, {"format": "other", "checkpoint_format": version}):
                model(folder, parts, model_type="llama", quantization_config={"quant_method": "gptq", "bits": 3, "group_size": group, **config})
                need(decoded(kerf, folder, tmp, up + ".weight") == ([rows, cols], want), f"{version}: {config}")


def case_verified_in_other_forms(kerf, tmp):
    """What others quantized to a form without a format is measured against its source, and wrong weights are found."""
    up, rows, cols = L + "mlp.up_proj", 32, 128
    dense = numbers(rows * cols, 3)
    codes, scales, biases = [], [], []
    for at in range(0, rows * cols, 64):
        low, high = min(dense[at:at + 64]), max(dense[at:at + 64])
        scales.append(f32((high - low) / 15))
        biases.append(f32(low))
        codes += [min(15, round((x - biases[-1]) / scales[-1])) for x in dense[at:at + 64]]
    norm = ("model.norm.weight", "BF16", (cols,))
    source = model(f"{tmp}/source", [(up + ".weight", "F32", (rows, cols), dense), norm], model_type="llama")
    for by, code in ((1.0, 0), (-1.0, 1)):
        parts = [(up + ".weight", "U32", (rows, cols // 8), words(codes, 4)), (up + ".scales", "F32", (rows, 2), [by * s for s in scales]), (up + ".biases", "F32", (rows, 2), biases)]
        folder = model(f"{tmp}/m", parts + [norm], model_type="llama", quantization={"group_size": 64, "bits": 4})
        done = kerf.json("verify", source, folder, code=code)
        need([t["name"] for t in done["tensors"] if "t2" in t] == [up + ".weight"], done)
        row = [t for t in done["tensors"] if "t2" in t][0]
        need((row["t2"] < 0.01) == (code == 0) and row["bpw"] == 5.0, row)
    kerf("verify", source, folder, "--exact", code=1, says="does not say which encoder made it")
    kerf("verify", folder, folder)


def case_smoothed(kerf, tmp):
    """NVFP4_AWQ: inputs are multiplied first. What is decoded has that in it, and no scale is left that nobody reads."""
    down, rows, cols = L + "mlp.down_proj", 32, 64
    m = model(f"{tmp}/m", [(down + ".weight", "F32", (rows, cols))], model_type="llama")
    kerf("quantize", m, "-f", "nvfp4", "--layout", "modelopt", "-o", f"{tmp}/q")
    plain = [(n, d, s, list(struct.unpack(f"<{len(raw) // 4}f", raw)) if d == "F32" else list(raw)) for n, (d, s, raw) in read(f"{tmp}/q/model.safetensors").items()]
    plain.append((down + ".input_scale", "F32", (), [1.0]))
    by = [0.5 + i % 7 / 4 for i in range(cols)]
    scale = (down + ".pre_quant_scale", "BF16", (cols,), by)
    method = {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"}
    bare = model(f"{tmp}/bare", plain, model_type="llama", quantization_config=method)
    folder = model(f"{tmp}/awq", plain + [scale], model_type="llama", quantization_config=method)
    kerf("inspect", folder, says="multiplied by it")
    shape, values = decoded(kerf, bare, tmp, down + ".weight")
    want = [f32(x * by[i % cols]) for i, x in enumerate(values)]
    need(decoded(kerf, folder, tmp, down + ".weight") == (shape, want), "columns are not multiplied")
    for made in (f"{tmp}/d.safetensors", f"{tmp}/q/model.safetensors"):
        need(not [n for n in read(made) if "pre_quant" in n], f"{made}: a scale that is in the weights is still there")
    truth = model(f"{tmp}/truth", [(down + ".weight", "F32", (rows, cols), want)], model_type="llama")
    row = kerf.json("verify", truth, folder)["tensors"][0]
    need(row["t2"] == 0, row)
    need([n for n in kerf.json("quantize", folder, "-f", "int8", "-n")["notes"] if "pre_quant_scale" in n], "nothing is said")
    # of a weight that it is not for, it stays
    other = model(f"{tmp}/other", plain + [(down + ".pre_quant_scale", "BF16", (rows,), by[:rows])], model_type="llama", quantization_config=method)
    kerf("quantize", other, "-f", "int8", "-o", f"{tmp}/o")
    need(down + ".pre_quant_scale" in read(f"{tmp}/o/model.safetensors"), "a scale of another length is gone")


def case_fp8_stacks_in_tiles(kerf, tmp):
    """Of another size than 128 x 128, in whole tiles for each expert."""
    name, rows, cols = L + "mlp.experts.gate_up_proj", 128, 64
    codes = [(i * 7 + i // 64) % 0x78 for i in range(2 * rows * cols)]
    scales = [2.0 ** -(i % 5) for i in range(2 * 4 * 2)]
    want = [e4m3(c) * scales[(i // (rows * cols) * 4 + i // cols % rows // 32) * 2 + i % cols // 32] for i, c in enumerate(codes)]
    for scale in ("_scale_inv", "_weight_scale_inv", "_scale"):
        folder = model(f"{tmp}/m", [(name, "F8_E4M3", (2, rows, cols), codes), (name + scale, "F32", (2, 4, 2), scales)], model_type="qwen3_moe", num_experts=2,
                       hidden_size=cols, moe_intermediate_size=rows // 2, quantization_config={"quant_method": "fp8", "weight_block_size": [32, 32]})
        need(decoded(kerf, folder, tmp, name) == ([2, rows, cols], want), scale)


def case_shapes(kerf, tmp):
    """Sizes that config.json names otherwise, each told of the tensor that has them; none of a sound model."""
    config = {"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96}
    parts = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64), "self_attn.o_proj": (64, 64),
             "mlp.gate_proj": (128, 64), "mlp.up_proj": (128, 64), "mlp.down_proj": (64, 128)}

    def tensors(layers=2, vocab=96, **other):
        out = [(name, "BF16", (vocab, 64)) for name in ("model.embed_tokens.weight", "lm_head.weight")]
        return out + [(f"model.layers.{i}.{n}.weight", "BF16", other.get(n.split(".")[1], s)) for i in range(layers) for n, s in parts.items()]

    need(kerf.json("inspect", model(f"{tmp}/sound", tensors(vocab=104), **config))["findings"] == [], "a sound model has findings")
    kinds = {"heads": ({"k_proj": (24, 64)}, "has 24 outputs, but key-value heads x head size in config.json is 32"),
             "inner": ({"down_proj": (64, 96)}, "has 96 inputs, but the intermediate size in config.json is 128"),
             "hidden": ({"o_proj": (48, 64)}, "has 48 outputs, but the hidden size in config.json is 64"),
             "vocabulary": ({"vocab": 90}, "has 90 rows, fewer than the 96 tokens")}
    for kind, (how, says) in kinds.items():
        kerf("inspect", model(f"{tmp}/{kind}", tensors(**how), **config), code=1, says=says)
    kerf("inspect", model(f"{tmp}/layers", tensors(1), **config), says="names 2 layers, but the tensors are those of 1")
    # a family that promises nothing of its layers
    folder = model(f"{tmp}/nested", tensors(), model_type="llava", text_config={**config, "model_type": "llama", "hidden_size": 128})
    need(kerf.json("inspect", folder)["findings"] == [], "a family that promises nothing has findings")


# --- what is given for a model, and what is named for an output ---------------------------------------
def case_other_files(kerf, tmp):
    """Files of other kinds in the place of weights say what they are, in the name of both containers."""
    tar = (b"model.safetensors".ljust(257, b"\0") + b"ustar").ljust(1024, b"\0")
    kinds = {b'{"model_type": "llama"}': "a JSON file, which holds no weights", b'[{"a": 1}]': "a JSON file", b"BZh91AY&SY....": "packed with bzip2",
             b"\xfd7zXZ\0....": "packed with xz", b"\x1f\x8b\x08.....": "packed with gzip", b"7z\xbc\xaf\x27\x1c..": "an archive of 7-Zip", tar: "an archive of tar",
             b"tjgg\3\0\0\0....": "from before GGUF", b"lmgg........": "from before GGUF", b"\x93NUMPY\1\0v\0": "a file of NumPy", b"": "0 bytes"}
    for i, (raw, says) in enumerate(kinds.items()):
        for end in (".safetensors", ".gguf"):
            with open(f"{tmp}/{i}{end}", "wb") as f:
                f.write(raw)
            kerf("inspect", f"{tmp}/{i}{end}", code=3, says=says if raw or end != ".gguf" else "0 left")
    model(f"{tmp}/config", [(L + "mlp.up_proj.weight", "BF16", (64, 64))])
    for raw, says in ((b"", "config.json: is empty"), (b"<!DOCTYPE html>", "an HTML page"), (b"[]", "not a JSON object")):
        with open(f"{tmp}/config/config.json", "wb") as f:
            f.write(raw)
        kerf("quantize", f"{tmp}/config", "-f", "int8", "-o", f"{tmp}/x", code=3, says=says)


def case_other_folders(kerf, tmp):
    """Folders without safetensors name what they have instead."""
    kinds = {"model-Q4_K.gguf": "model-Q4_K.gguf is there: give that file", "consolidated.00.pth": "a pickle of PyTorch", "pytorch_model-00001-of-00002.bin": "a pickle of PyTorch",
             "tf_model.h5": "a file of Keras", "flax_model.msgpack": "a file of Flax", "model.onnx": "a graph of ONNX", "weights.npz": "a file of NumPy",
             "model.safetensors.incomplete": "a download that has not ended", "config.json": "the weights that belong to it are not", "notes.txt": "no other safetensors file"}
    for name, says in kinds.items():
        folder = f"{tmp}/{name}.d"
        os.makedirs(folder)
        for f in {name, "readme"}:
            open(f"{folder}/{f}", "w").close()
        kerf("inspect", folder, code=3, says=says)


def case_names(kerf, tmp):
    """Names of models that are not here, and how they get here."""
    home = {"HOME": tmp, "HF_HUB_CACHE": "", "HF_HOME": "", "XDG_CACHE_HOME": ""}
    for args in (("inspect", "org/some-model"), ("predict", "--hardware", "h200", "--model", "org/some-model")):
        kerf(*args, code=4, env=home, says="hf download org/some-model fetches it")
    kerf("inspect", "https://huggingface.co/org/some-model", code=4, says="nothing is downloaded; hf download")
    for path in ("model", "./org/model", "/org/model", "org/model.safetensors", "org/a/b", "org/", "org/..", ".org/x"):
        r = subprocess.run([kerf.path, "inspect", path], capture_output=True, text=True, cwd=tmp, env={**os.environ, **home})
        need(r.returncode == 4 and "hf download" not in r.stderr and "No such file" in r.stderr, f"{path}: {r.stderr}")


def case_names_of_scales(kerf, tmp):
    """FP8 that stays as it is has the name of its scales that loaders of the layout ask for, and the type that it had."""
    down, up = ("model.layers.0.mlp.down_proj", (256, 256)), ("model.layers.0.mlp.up_proj.weight", "BF16", (256, 256))
    tiles = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    rows = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    for suffix, dtype, shape, config, codec, layout, name in (
            ("weight_scale", "F32", (2, 2), tiles, "fp8-e4m3-128x128", "deepseek", "weight_scale_inv"), ("weight_scale_inv", "BF16", (2, 2), tiles, "fp8-e4m3-128x128", "deepseek", "weight_scale_inv"),
            ("scale", "F8_E8M0", (2, 2), tiles, "fp8-e4m3-128x128", "deepseek", "weight_scale_inv"), ("scale_inv", "BF16", (2, 2), tiles, "fp8-e4m3-128x128", "deepseek", "weight_scale_inv"),
            ("weight_scale_inv", "F32", (256, 1), rows, "fp8-e4m3-row", "compressed-tensors", "weight_scale"), ("scale", "F32", (256, 1), rows, "fp8-e4m3-row", "compressed-tensors", "weight_scale")):
        scales = [2.0 ** -(5 + i % 3) for i in range(count(shape))]
        source = model(f"{tmp}/m", [(down[0] + ".weight", "F8_E4M3", down[1]), (f"{down[0]}.{suffix}", dtype, shape, scales), up], model_type="llama", hidden_size=256,
                       num_hidden_layers=1, quantization_config=config)
        kerf("dequantize", source, "-o", f"{tmp}/truth", "-y")
        for verb in (("quantize", source, "-f", codec), ("convert", source)):
            kerf(*verb, "--layout", layout, "-o", f"{tmp}/out", "-y")
            there = {n: t for n, t in read(f"{tmp}/out/model.safetensors").items() if n.startswith(down[0])}
            need(set(there) == {down[0] + ".weight", f"{down[0]}.{name}"}, f"{suffix}, {verb[0]}: {sorted(there)}")
            need(there[f"{down[0]}.{name}"] == (dtype, list(shape), pack(dtype, scales)), f"{suffix}, {verb[0]}: {there}")
            kerf("dequantize", f"{tmp}/out", "-o", f"{tmp}/again", "-y")
            truth, again = (read(f"{tmp}/{n}/model.safetensors")[down[0] + ".weight"] for n in ("truth", "again"))
            need(truth == again, f"{suffix}, {verb[0]}: other numbers")


def case_own_names_first(kerf, tmp):
    """Without a config.json that names a layout, names that a layout has as its own say more than those that are another's for the same."""
    down = "model.layers.0.mlp.down_proj"
    for suffix, layout in (("weight_scale_inv", "deepseek"), ("weight_scale", "compressed-tensors")):
        source = model(f"{tmp}/m", [(down + ".weight", "F8_E4M3", (256, 256)), (f"{down}.{suffix}", "F32", (2, 2), [0.5] * 4), ("model.layers.0.mlp.up_proj.weight", "BF16", (256, 256))],
                       model_type="llama", hidden_size=256, num_hidden_layers=1)
        kerf("inspect", source, code=1, says=f"down_proj.weight: is in layout {layout}, but")
        kerf("quantize", source, "-f", "fp8-e4m3-128x128", "--keep", "*down*", "--layout", layout, "-o", f"{tmp}/out", "-y")
        need(read(f"{tmp}/out/model.safetensors")[down + ".weight"] == read(f"{source}/model.safetensors")[down + ".weight"], f"{suffix} does not stay")


def case_overwritten(kerf, tmp):
    """-y replaces checkpoints. A folder of other things, named by mistake, keeps them, and no refusal proposes -y
    where that would not help."""
    m = model(f"{tmp}/m", [(L + "mlp.up_proj.weight", "BF16", (128, 128))], model_type="llama")
    os.makedirs(f"{tmp}/letters")
    os.makedirs(f"{tmp}/tree/below")
    os.makedirs(f"{tmp}/empty")
    os.symlink("nowhere", f"{tmp}/link")
    with open(f"{tmp}/letters/precious.txt", "w") as f:
        f.write("x")
    open(f"{tmp}/file", "w").close()
    says = {"letters": 'holds "precious.txt" and no weights', "tree": 'holds "below", which is not a file', "link": "a link that leads nowhere", "file": "not a folder"}
    for name, text in says.items():
        for more in ([], ["-y"]):
            for verb in (["quantize", m, "-f", "int8"], ["score", m, "-f", "int8"]):
                r = subprocess.run([kerf.path, *verb, "-o", f"{tmp}/{name}", *more], capture_output=True, text=True)
                need(r.returncode == 4 and text in r.stderr or name == "file", f"{name} {more}: {r.returncode} {r.stderr}")
                need("-y" not in r.stderr or (name == "file" and not more), f"{name} {more}: {r.stderr}")
    need(os.listdir(f"{tmp}/letters") == ["precious.txt"] and os.path.isdir(f"{tmp}/tree/below") and os.path.isfile(f"{tmp}/file"), "something is gone")
    kerf("quantize", m, "-f", "int8", "-o", f"{tmp}/empty")
    kerf("quantize", m, "-f", "int8", "-o", f"{tmp}/empty", code=4, says="empty: exists already; -y replaces it")
    with open(f"{tmp}/empty/README.md", "w") as f:
        f.write("beside weights")
    kerf("quantize", m, "-f", "int8", "-o", f"{tmp}/empty", "-y")
    need(not os.path.exists(f"{tmp}/empty/README.md"), "the old folder is still there")
    for out in ("no/such/folder", "no/such.safetensors", "no/such.gguf/"):
        kerf("quantize", m, "-f", "int8", "-o", f"{tmp}/{out}", code=4, says="(mkdir -p makes it)")


def case_few_tokens(kerf, tmp):
    """A text that is too short says which, how long it is, and an option that works."""
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 96}
    names = [L + f"self_attn.{p}_proj.weight" for p in "qkvo"] + [L + f"mlp.{p}_proj.weight" for p in ("gate", "up", "down")]
    rest = [(n, "BF16", (64,)) for n in ("model.norm.weight", L + "input_layernorm.weight", L + "post_attention_layernorm.weight")]
    m = model(f"{tmp}/m", [(n, "BF16", (64, 64)) for n in names] + [(n, "BF16", (96, 64)) for n in ("model.embed_tokens.weight", "lm_head.weight")] + rest, model_type="llama", **sizes)
    for n in (1, 3):
        with open(f"{tmp}/{n}.u16", "wb") as f:
            f.write(bytes([5, 0] * n))
    for verb in (["eval", m], ["calibrate", m, "-o", f"{tmp}/cal"]):
        kerf(*verb, "--tokens", f"{tmp}/1.u16", code=2, says="1.u16: 1 tokens, and it takes two at least")
        kerf(*verb, "--tokens", f"{tmp}/3.u16", code=2, says="3.u16: 3 tokens are less than a row of 2048; --length 3 takes them")
        kerf(*verb, "--tokens", f"{tmp}/3.u16", "--length", "3", code=2 if verb[0] == "calibrate" else 0, says="--alpha-by none leaves" if verb[0] == "calibrate" else None)
    kerf("calibrate", m, "-o", f"{tmp}/cal", "--tokens", f"{tmp}/3.u16", "--length", "3", "--alpha-by", "none")


def case_unused(kerf, tmp):
    """An imatrix that no encoder takes is said to change nothing, and does not."""
    name = L + "mlp.up_proj.weight"
    m = model(f"{tmp}/m", [(name, "BF16", (128, 256))], model_type="llama")
    write(f"{tmp}/i.safetensors", [(name, "F32", (256,), [1.0 + i % 5 for i in range(256)])])
    says = "the importance of columns changes nothing"
    kerf("quantize", m, "-f", "int8", "--imatrix", f"{tmp}/i.safetensors", "-o", f"{tmp}/a", says=says)
    kerf("quantize", m, "-f", "int8", "-o", f"{tmp}/b")
    need(read(f"{tmp}/a/model.safetensors") == read(f"{tmp}/b/model.safetensors"), "and yet it changes bytes")
    notes = [kerf.json("quantize", m, "-f", f, "--imatrix", f"{tmp}/i.safetensors", "-n")["notes"] for f in ("int8", "q4_k:imatrix")]
    need(any(says in n for n in notes[0]) and not notes[1], notes)


def imatrix_dat(path, name, columns):
    raw = name.encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<ii", 1, len(raw)) + raw + struct.pack("<ii", 3, columns) + struct.pack(f"<{columns}f", *[3.0] * columns))


def case_not_a_model(kerf, tmp):
    """Numbers about a model, whose tensors are named as its weights are: none is taken for one, least of all
    quantized; each is told what it is and what takes it."""
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 96}
    names = [L + f"self_attn.{p}_proj.weight" for p in "qkvo"] + [L + f"mlp.{p}_proj.weight" for p in ("gate", "up", "down")]
    norms = [(n, "BF16", (64,)) for n in ("model.norm.weight", L + "input_layernorm.weight", L + "post_attention_layernorm.weight")]
    m = model(f"{tmp}/m", [(n, "BF16", (64, 64)) for n in names] + [("model.embed_tokens.weight", "BF16", (96, 64))] + norms, model_type="llama", tie_word_embeddings=True, **sizes)
    with open(f"{tmp}/t.u16", "wb") as f:
        f.write(bytes([5, 0, 9, 0] * 16))
    kerf("calibrate", m, "--tokens", f"{tmp}/t.u16", "--length", "8", "--gram", "--alpha-by", "none", "--imatrix-gguf", f"{tmp}/i.gguf", "-o", f"{tmp}/cal")
    kerf("score", m, "-f", "int8", "-o", f"{tmp}/scores")
    write(f"{tmp}/i.safetensors", [(n, "F32", (64,), [1.0 + i for i in range(64)]) for n in names])
    stack = L + "mlp.experts.down_proj.weight"
    write(f"{tmp}/experts.safetensors", [(stack, "F32", (4, 64), [1.0] * 256), (stack + ".count", "F32", (4,), [2.0] * 4)])
    imatrix_dat(f"{tmp}/i.dat", "blk.0.ffn_up.weight", 64)
    taken = {"--imatrix": ("i.gguf", "i.safetensors", "i.dat"), "--calibration": ("cal",)}
    told = {"experts.safetensors": "--imatrix", "scores": "kerf score prints", **{f: option for option, files in taken.items() for f in files}}
    for name, says in told.items():
        for verb in (["quantize", "-f", "int8", "-o", f"{tmp}/x"], ["quantize", "-f", "int8", "-n"], ["score", "-f", "int8"], ["dequantize", "-o", f"{tmp}/x"],
                     ["convert", "--layout", "kerf", "-o", f"{tmp}/x"], ["advise", "--budget", "9bits", "-f", "int8"]):
            if (verb[0], name) != ("score", "scores"):
                kerf(verb[0], f"{tmp}/{name}", *verb[1:], code=3, says=says)
        notes = kerf.json("inspect", f"{tmp}/{name}")["findings"]
        need(len(notes) == 1 and notes[0]["severity"] == "note" and says in notes[0]["text"], notes)
    for option, files in taken.items():  # what is said works
        for name in files:
            kerf("score", m, "-f", "int4-g32", option, f"{tmp}/{name}")
    write(f"{tmp}/norms.safetensors", [(L + f"self_attn.{p}_norm.weight", "F32", (64,)) for p in "qk"])
    kerf("quantize", f"{tmp}/norms.safetensors", "-f", "int8", "-o", f"{tmp}/x", code=2, says="no tensor is left")  # a model of norms is one


def case_fp8_by_matrix(kerf, tmp):
    """FP8 with one scale for each matrix has a name for it in each project; so have the scales of inputs, which go with it."""
    up = L + "mlp.up_proj"
    codes = bytes_of(64 * 128, 3)
    codes = [c & 0x77 for c in codes]
    want = {up + ".weight": [f32(e4m3(c) * 0.25) for c in codes]}
    for name, of_weight, of_inputs, config in (
            ("transformers", "weight_scale_inv", "activation_scale", {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}),
            ("autofp8", "weight_scale", "input_scale", {"quant_method": "fp8", "activation_scheme": "static"}),
            ("fbgemm", "weight_scale", "input_scale_ub", {"quant_method": "fbgemm_fp8"}),
            ("mistral", "qscale_weight", "qscale_act", None), ("tensorrt-llm", "weights_scaling_factor", "activation_scaling_factor", None)):
        quantization = {"quantization_config": config} if config else {}
        folder = model(f"{tmp}/{name}", [(up + ".weight", "F8_E4M3", (64, 128), codes), (f"{up}.{of_weight}", "F32", (), [0.25]),
                                         (f"{up}.{of_inputs}", "F32", (), [0.02])], model_type="mistral3", **quantization)
        kerf("dequantize", folder, "-o", f"{tmp}/{name}_dense", "--dtype", "fp32")
        dense = read(f"{tmp}/{name}_dense/model.safetensors")
        need(list(dense) == list(want), f"{name}: {list(dense)} in a dense output")
        need(list(struct.unpack("<8192f", dense[up + ".weight"][2])) == want[up + ".weight"], f"{name}: other numbers")
        kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/{name}_int8")
        need(not [n for n in read(f"{tmp}/{name}_int8/model.safetensors") if of_inputs in n], f"{name}: {of_inputs} beside int8")
        if config:
            kerf("inspect", folder)  # its own loader takes it as it is


def case_words_of_bytes(kerf, tmp):
    """Weights of 8 bits alone, with a scale for each row, which compressed-tensors has in words (w8a16)."""
    up = L + "mlp.up_proj"
    rows, cols = 64, 104  # the words of a row hold four
    codes = bytes_of(rows * cols, 5)  # plus 128, as they lie
    scales = [0.25, 0.5] * (rows // 2)
    words = [int.from_bytes(bytes(codes[i:i + 4]), "little", signed=True) for i in range(0, len(codes), 4)]
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"], "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True, "dynamic": False}}}}
    for dtype in ("F32", "BF16", "F16"):
        for zeros in (None, [17 * i % 256 for i in range(rows)]):
            tensors = [(up + ".weight_packed", "I32", (rows, cols // 4), words), (up + ".weight_scale", dtype, (rows, 1), scales),
                       (up + ".weight_shape", "I64", (2,), [rows, cols])]
            if zeros:
                packed = [int.from_bytes(bytes(zeros[i:i + 4]), "little", signed=True) for i in range(0, rows, 4)]
                tensors.append((up + ".weight_zero_point", "I32", (rows // 4, 1), packed))
            folder = model(f"{tmp}/m", tensors, model_type="llama", quantization_config=config)
            kerf("inspect", folder)
            kerf("dequantize", folder, "-o", f"{tmp}/dense", "--dtype", "fp32", "-y")
            dense = struct.unpack(f"<{rows * cols}f", read(f"{tmp}/dense/model.safetensors")[up + ".weight"][2])
            want = [(c - (zeros[i // cols] if zeros else 128)) * scales[i // cols] for i, c in enumerate(codes)]
            need(list(dense) == want, f"{dtype}, zero points {bool(zeros)}: other numbers")
            kerf("convert", folder, "--layout", "kerf", "-o", f"{tmp}/own", "-y")
            kerf("verify", folder, f"{tmp}/own")

    def grouped(count):
        scale = (up + ".weight_scale", "BF16", (64, count), [2.0 ** (i % count) for i in range(64 * count)])
        return model(f"{tmp}/g{count}", [(up + ".weight_packed", "I32", (64, 64), [0] * 4096), scale, (up + ".weight_shape", "I64", (2,), [64, 256])], model_type="llama",
                     quantization_config=config)

    kerf("dequantize", grouped(4), "-o", f"{tmp}/four", "--dtype", "fp32")  # groups of 64
    dense = struct.unpack("<16384f", read(f"{tmp}/four/model.safetensors")[up + ".weight"][2])
    need(list(dense) == [-128 * 2.0 ** (i % 256 // 64) for i in range(16384)], "groups of 64: other numbers")
    kerf("dequantize", grouped(3), "-o", f"{tmp}/x", code=3, says="weight_scale is BF16 [64,3], not BF16 [64,2]")


def case_stacks_beside_another_layout(kerf, tmp):
    """What config.json names need not have the format of a stack: inspect says what it finds, and ends well."""
    up = L + "mlp.experts.gate_up_proj"
    stack = [(up, "U8", (2, 128, 64)), (up + "_scale", "F8_E4M3", (2, 128, 8)), (up + "_scale_2", "F32", (2,), [1.0, 1.0])]
    for method in ({"quant_method": "compressed-tensors", "format": "naive-quantized"}, {"quant_method": "gptq", "bits": 4}, {"quant_method": "modelopt", "quant_algo": "FP8"}):
        folder = model(f"{tmp}/m", stack, model_type="qwen3_moe", num_experts=2, quantization_config=method)
        kerf("inspect", folder)


def case_unfit(kerf, tmp):
    """What the layout of the output cannot hold in the new format is dense in it, not codes of the source's layout."""
    down, o = L + "mlp.down_proj", L + "self_attn.o_proj"
    tensors = [(down + ".weight", "F8_E4M3", (192, 160)), (down + ".weight_scale_inv", "F32", (2, 2), [0.5] * 4), (o + ".weight", "F8_E4M3", (128, 128)),
               (o + ".weight_scale_inv", "F32", (1, 1), [0.25])]
    m = model(f"{tmp}/m", tensors, model_type="llama", quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    for layout in ("compressed-tensors", "gptq"):
        out = f"{tmp}/{layout}"
        kerf("quantize", m, "-f", "int4-g128", "--layout", layout, "-o", out, says="1 tensor kept, which layout")
        there = {n: t[0] for n, t in read(f"{out}/model.safetensors").items() if n.startswith(down)}
        need(there == {down + ".weight": "BF16"}, f"{layout}: {there}")
        kerf("inspect", out)
        kerf("verify", m, out)
    kerf("quantize", m, "-f", "int4-g128", "-o", f"{tmp}/own")
    kerf("verify", m, f"{tmp}/own")


def case_merged(kerf, tmp):
    """Runtimes make one matrix of q, k and v: where the layout cannot hold k, none of them is quantized, and it is said."""
    def at(part):
        return f"{L}self_attn.{part}_proj.weight"

    for layout, codec, width, rows in (("gptq", "int4-g64", 320, 80), ("modelopt", "fp8-e4m3-128x128", 256, 64), ("compressed-tensors", "int4-g64-asym", 256, 20)):
        m = model(f"{tmp}/{layout}", [(at(p), "BF16", (width if p in "qo" else rows, width)) for p in "qkvo"], model_type="llama")
        done = kerf.json("quantize", m, "-f", codec, "--layout", layout, "-o", f"{m}-out")
        formats = {t["name"]: t["format"] is not None for t in done["tensors"]}
        need(formats == {at("q"): False, at("k"): False, at("v"): False, at("o"): True}, f"{layout}: {formats}")
        need(done["notes"][-1] == f"1 tensor kept with those, for runtimes make one matrix of them: {at('q')}", done["notes"])
        kerf("inspect", f"{m}-out")
        kerf("verify", m, f"{m}-out")
        kerf("quantize", m, "-f", codec, "--layout", layout, "--tensor", f"*q_proj*={codec}", "-o", f"{m}-x", code=2, says="are one matrix to the loaders")


def case_scalar_in_gguf(kerf, tmp):
    """A tensor without dimensions, as gguf-py writes a scalar."""
    tensors = [("blk.0.ffn_up.weight", (256, 8), 1, struct.pack("<2048e", *numbers(2048))), ("blk.0.layer_scalar", (), 0, struct.pack("<f", 0.5))]
    source = write_gguf(f"{tmp}/a.gguf", tensors)
    kerf("inspect", source)
    kerf("quantize", source, "-f", "q8_0", "-o", f"{tmp}/b.gguf")
    kerf("inspect", f"{tmp}/b.gguf")
    kerf("verify", source, f"{tmp}/b.gguf", says="1 tensors measured, 1 equal to the source")


def case_dense_type(kerf, tmp):
    """A weight that is decoded has the type of the model, not that of a bias of routers which the file has first: DeepSeek's became F32, of twice the size."""
    tiles = {"model_type": "deepseek_v3", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic", "fmt": "e4m3"}}
    name = "model.layers.0.self_attn.o_proj"
    codes = [(name + ".weight", "F8_E4M3", (128, 128)), (name + ".weight_scale_inv", "F32", (1, 1), [0.01])]
    bias = ("model.layers.0.mlp.gate.e_score_correction_bias", "F32", (8,), [0.5] * 8)
    m = model(f"{tmp}/m", [bias, ("model.layers.0.mlp.up_proj.weight", "BF16", (64, 128)), *codes], **tiles)
    for layout, hint in (("compressed-tensors", ": --tensor 'GLOB=fp8-e4m3-128x128' leaves them in that"), ("bitsandbytes", "")):
        said = kerf.json("quantize", m, "-f", "nf4" if layout == "bitsandbytes" else "nvfp4", "--keep", "*o_proj*", "--layout", layout, "-n")["notes"]
        need([s for s in said if s.endswith("; 1 of them is kept, in BF16" + hint)], f"{layout}: {said}")
    said = kerf.json("quantize", m, "-f", "nvfp4", "--tensor", "*o_proj*=fp8-e4m3-128x128", "--layout", "compressed-tensors", "-n")["notes"]
    need(not [s for s in said if "kept" in s], said)
    for dtype in ("BF16", "F16", "F32"):
        m = model(f"{tmp}/m", [bias, ("model.embed_tokens.weight", dtype, (64, 128)), *codes], **tiles)
        kerf("dequantize", m, "-o", f"{tmp}/out", "-y")
        kerf("quantize", m, "-f", "nvfp4", "--keep", "*o_proj*", "--tensor", "*embed*=nvfp4", "-o", f"{tmp}/kept", "-y")
        for out in ("out", "kept"):
            got = read(f"{tmp}/{out}/model.safetensors")[name + ".weight"][0]
            need(got == dtype, f"{out}: {got} in a model of {dtype}")


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
