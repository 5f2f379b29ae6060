"""What vLLM's loaders demand of a folder, written down as checks that need no vLLM (runtimes.sh asks vLLM); and
TensorRT-LLM's, of the one scheme of ModelOpt files that vLLM does not have.

A rule names where it stands. Read at vllm-project/vllm:
  MO  layers/quantization/modelopt.py at 00155cdecca7
  CT  layers/quantization/compressed_tensors/compressed_tensors.py and schemes/, with the QuantizationArgs
      of compressed-tensors 0.20, which refuse keys that they do not know
  GQ  layers/quantization/auto_gptq.py at 055e47c28003
  F8  layers/quantization/fp8.py, M4 mxfp4.py with models/gpt_oss.py, BB model_loader/bitsandbytes_loader.py,
      UT layers/quantization/utils/quant_utils.py (is_layer_skipped) at 20b4ad8e
and at NVIDIA/TensorRT-LLM:
  TR  _torch/modules/linear.py (WeightOnlyQuantLinearMethod), _torch/model_config.py and
      quantization/functional.py (preprocess_weights_for_mixed_gemm) at 00bbf71e7964
"""

import json
import math
import re
import struct
from fnmatch import fnmatch

FUSED = [("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("w1", "w3")]
QUANT_ALGOS = {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4", "MXFP8", "MIXED_PRECISION"}
CT_ARGS = {"num_bits", "type", "symmetric", "group_size", "strategy", "block_structure", "dynamic", "actorder",
           "scale_dtype", "zp_dtype", "observer", "observer_kwargs"}
CT_GROUP = {"targets", "weights", "input_activations", "output_activations", "format"}


def header_of(path):
    """name -> (dtype, shape), and the metadata."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    meta = header.pop("__metadata__", {})
    return {n: (t["dtype"], tuple(t["shape"])) for n, t in header.items()}, meta


class Folder:
    def __init__(self, folder, source):
        """source: name -> shape of the dense matrices before."""
        self.tensors, self.metadata = header_of(folder / "model.safetensors")
        self.q = json.loads((folder / "config.json").read_text()).get("quantization_config", {})
        self.files = {p.name: p for p in folder.iterdir()}
        self.broken = []
        self.count = 0
        dense = {n for n, (t, _) in self.tensors.items() if n in source and t in ("BF16", "F16", "F32")}
        self.shape = {n.removesuffix(".weight"): s for n, s in source.items() if n not in dense}
        self.kept = {n.removesuffix(".weight") for n, s in source.items() if n in dense and len(s) > 1}
        if "lm_head" not in self.shape:  # a layer to vLLM also when it is the embedding
            self.kept.add("lm_head")

    def rule(self, where, holds, text):
        self.count += 1
        if not holds:
            self.broken.append(f"{where}: {text}")

    def params(self, where, wanted):
        """wanted: suffix -> (dtypes, shape) of a layer [n, k]; no others may be there (a loader looks each up)."""
        for module, (n, k) in self.shape.items():
            have = {name.removeprefix(module + "."): t for name, t in self.tensors.items()
                    if name.startswith(module + ".")}
            have.pop("bias", None)
            want = wanted(n, k)
            self.rule(where, have.keys() == want.keys(), f"{module} has {sorted(have)}, not {sorted(want)}")
            for name, (types, shape) in want.items():
                got = have.get(name, ("", ()))
                self.rule(where, got[0] in types and (shape is None or got[1] in shape),
                          f"{module}.{name} is {got}, not {types} {shape}")

    def same_scale(self, where, values, suffix):
        """values: name -> number; layers that are merged have one scale, or lose accuracy."""
        for module in self.shape:
            for group in FUSED:
                stem, _, last = module.rpartition(".")
                if last in group:
                    found = {float(values[f"{stem}.{m}.{suffix}"].reshape(-1)[0]) for m in group
                             if f"{stem}.{m}.{suffix}" in values}
                    self.rule(where, len(found) == 1, f"{stem}: {len(found)} scales of {group}")

    def groups_whole(self, where):
        for module in self.shape:
            stem, _, last = module.rpartition(".")
            for group in FUSED:
                mixed = last in group and any(f"{stem}.{m}" in self.kept for m in group)
                self.rule(where, not mixed, f"{stem}: {group} are merged, but not all are quantized")


def common(f):
    f.rule("safetensors", f.metadata.get("format") == "pt", 'metadata "format" is not "pt"')
    f.groups_whole("UT is_layer_skipped")


def tensorrt_llm(f):
    """W8A16: it reads hf_quant_config.json and believes config.json where there is none."""
    own = json.loads(f.files["hf_quant_config.json"].read_text())
    f.rule("TR is_modelopt_quant_config", own["producer"]["name"] == "modelopt", "producer")
    f.rule("TR is_modelopt_quant_config", f.q["quant_method"].lower().startswith("modelopt"), "quant_method")
    for q, kept in ((own["quantization"], "exclude_modules"), (f.q, "ignore")):
        f.rule("TR QuantAlgo", q["quant_algo"] == "W8A16", f"quant_algo {q['quant_algo']}")  # to the letter
        f.rule("TR QuantAlgo", q.get("kv_cache_quant_algo") is None, "kv_cache_quant_algo without scales")
        f.rule("TR get_quant_method", q.get("group_size") is None, "a group size is another scheme's")
        for module in f.shape:
            f.rule("TR exclude_modules", not any(fnmatch(module, x) for x in q[kept]), f"{module} is quantized")
        for module in f.kept:
            f.rule("TR exclude_modules", any(fnmatch(module, x) for x in q[kept]), f"{module} is kept")
    f.params("TR WeightOnlyQuantLinearMethod", lambda n, k: {
        "weight": ({"I8"}, [(n, k)]), "weight_scale": ({"F32", "BF16", "F16"}, [(n,)])})
    for n, k in f.shape.values():
        f.rule("TR preprocess_weights_for_mixed_gemm", n % 8 == 0 and k % 64 == 0, f"{n} x {k}")


def modelopt(f, values):
    q = f.q
    if q.get("quant_algo") == "W8A16":
        return tensorrt_llm(f)
    algo = str(q.get("quant_algo", "")).upper()
    f.rule("MO _extract_modelopt_quant_algo", q.get("quant_method", "").lower().startswith("modelopt"), "quant_method")
    f.rule("MO from_config", algo in QUANT_ALGOS, f"quant_algo {algo}")
    f.rule("MO from_config", isinstance(q.get("ignore"), list), "ignore is no list")
    f.rule("MO from_config", q.get("group_size") is None or isinstance(q["group_size"], int), "group_size")
    own = json.loads(f.files["hf_quant_config.json"].read_text())["quantization"]
    f.rule("MO get_config_filenames", own.get("quant_algo") == q.get("quant_algo"), "the two files disagree")
    f.rule("MO from_config", own.get("kv_cache_quant_algo") is None, "kv_cache_quant_algo without scales")
    if "NVFP4" in algo:
        f.rule("MO NVFP4 _from_config", {"group_size", "kv_cache_quant_algo", "exclude_modules"} <= own.keys(),
               "keys of hf_quant_config.json")
    for listed in (q["ignore"], own["exclude_modules"]):
        for module in f.shape:
            hit = [x for x in listed if x in module or fnmatch(module, x)]
            f.rule("MO is_layer_excluded", not hit, f"{module} is quantized, {hit} excludes it")
        for module in f.kept:
            f.rule("MO is_layer_excluded", any(x in module or fnmatch(module, x) for x in listed), f"{module} is kept")
    scalar = ((), (1,))
    wanted = {
        "W4A16_NVFP4": lambda n, k: {"weight": ({"U8"}, [(n, k // 2)]), "weight_scale": ({"F8_E4M3"}, [(n, k // 16)]),
                                     "weight_scale_2": ({"F32"}, scalar)},
        "NVFP4": lambda n, k: {"weight": ({"U8"}, [(n, k // 2)]), "weight_scale": ({"F8_E4M3"}, [(n, k // 16)]),
                               "weight_scale_2": ({"F32"}, scalar), "input_scale": ({"F32"}, scalar)},
        "FP8": lambda n, k: {"weight": ({"F8_E4M3"}, [(n, k)]), "weight_scale": ({"F32"}, scalar),
                             "input_scale": ({"F32"}, scalar)},
        "FP8_PER_CHANNEL_PER_TOKEN": lambda n, k: {"weight": ({"F8_E4M3"}, [(n, k)]), "weight_scale": ({"F32"}, [(n,)])},
        "FP8_PB_WO": lambda n, k: {"weight": ({"F8_E4M3"}, [(n, k)]),
                                   "weight_scale": ({"F32"}, [(n // 128, 1, k // 128, 1)])},
        "MXFP8": lambda n, k: {"weight": ({"F8_E4M3"}, [(n, k)]), "weight_scale": ({"U8"}, [(n, k // 32)])},
    }
    if algo == "MIXED_PRECISION":
        return mixed(f, own, values, wanted)
    wanted = wanted[algo]
    f.params(f"MO create_weights of {algo}", wanted)
    for n, k in f.shape.values():
        f.rule("MO create_weights", "NVFP4" not in algo or k % 16 == 0, f"{k} columns")
        f.rule("MO create_weights", algo != "FP8_PB_WO" or (n % 128 == 0 and k % 128 == 0), f"{n} x {k}")
    if "NVFP4" in algo:
        f.same_scale("MO process_weights_after_loading", values, "weight_scale_2")


def mixed(f, own, values, wanted):
    """Model-Optimizer's mixture: each layer by name, of the algorithms that vLLM tells apart there."""
    layers, whole = f.q.get("quantized_layers", {}), f.shape
    f.rule("MO Mixed _from_config", layers and layers == own.get("quantized_layers"), "quantized_layers")
    f.rule("MO Mixed _resolve_quant_algo", layers.keys() == whole.keys(), f"layers {layers.keys() ^ whole.keys()}")
    f.rule("MO Mixed _from_config", f.q.get("group_size") in (None, 16), "group_size of all layers")
    algos = {m: info["quant_algo"].upper() for m, info in layers.items()}
    for module, algo in algos.items():
        parent, name = module.rsplit(".", 1)
        same = {algos.get(f"{parent}.{x}", algo) for names in FUSED if name in names for x in names}
        f.rule("MO Mixed _resolve_quant_algo", len(same) <= 1, f"{module} is fused with {same}")
        f.rule("MO Mixed get_quant_method", algo in ("FP8", "NVFP4", "W4A16_NVFP4", "MXFP8"), f"{module} is {algo}")
    for algo in sorted(set(algos.values())):
        f.shape = {m: whole[m] for m in algos if algos[m] == algo}
        f.params(f"MO create_weights of {algo}", wanted[algo])
        if "NVFP4" in algo:
            f.same_scale("MO process_weights_after_loading", values, "weight_scale_2")
    f.shape = whole


def ct_scheme(w, inputs, fmt):
    """The class that CT _get_scheme_from_parts chooses, and its parameters; None: it raises."""
    bits, kind, strategy = w["num_bits"], w["type"], w["strategy"]
    if w.get("dynamic"):
        return None
    if kind == "float" and bits == 4 and strategy == "tensor_group" and w["group_size"] == 16:
        return "W4A16Fp4" if inputs is None else "W4A4Fp4"
    if kind == "float" and bits == 4 and strategy == "group" and w["group_size"] == 32:
        return "W4A16Mxfp4"
    if kind == "float" and bits == 8 and strategy == "group" and w["group_size"] == 32:
        return "W8A8Mxfp8"
    if kind == "int" and strategy in ("channel", "group") and inputs is None:
        return "WNA16" if fmt == "pack-quantized" and bits in (4, 8) else None
    active = fmt in ("naive-quantized", "int-quantized", "float-quantized", "nvfp4-pack-quantized")
    if active and kind == "float" and w["symmetric"] and strategy in ("tensor", "channel", "block"):
        return "W8A16Fp8" if inputs is None else "W8A8Fp8"
    if active and kind == "int" and inputs and bits == inputs["num_bits"] == 8 and w["symmetric"]:
        return "W8A8Int8" if strategy in ("tensor", "channel") else None
    return None


def compressed_tensors(f, values):
    q = f.q
    f.rule("CT from_config", q.get("quant_method") == "compressed-tensors", "quant_method")
    f.rule("CT from_config", {"format", "config_groups", "ignore"} <= q.keys(), "keys")
    whole, groups = f.shape, list(q["config_groups"].values())
    named = [m for group in groups for m in group["targets"]]
    f.rule("CT find_matched_target", len(groups) == 1 or sorted(named) == sorted(whole), "targets")
    for group in groups:
        f.shape = whole if len(groups) == 1 else {m: whole[m] for m in group["targets"] if m in whole}
        ct_group(f, values, group, len(groups) == 1)
    f.shape = whole


def ct_group(f, values, group, alone):
    q = f.q
    f.rule("QuantizationScheme", group.keys() <= CT_GROUP, f"keys {group.keys()}")
    for args in (group["weights"], group["input_activations"]):
        f.rule("QuantizationArgs", args is None or args.keys() <= CT_ARGS, f"keys {args and args.keys()}")
    f.rule("CT find_matched_target", not alone or group["targets"] == ["Linear"], "targets")
    for module in f.shape:
        f.rule("CT should_ignore_layer", module not in q["ignore"], f"{module} is quantized and ignored")
    for module in f.kept:
        f.rule("CT should_ignore_layer", module in q["ignore"], f"{module} is neither quantized nor ignored")
    w, inputs = group["weights"], group["input_activations"]
    scheme = ct_scheme(w, inputs, group.get("format") or q["format"])
    research = w["num_bits"] == 2  # which transformers reads and vLLM does not
    f.rule("CT _get_scheme_from_parts", scheme or research, f"no scheme for {w}")
    if not scheme:
        return
    dense = {"BF16", "F16", "F32"}
    g, bits = w.get("group_size") or 0, w["num_bits"]

    def fp8(n, k):
        shape = {"tensor": [(1,), ()], "channel": [(n, 1)], "block": [(math.ceil(n / 128), math.ceil(k / 128))]}
        out = {"weight": ({"F8_E4M3"}, [(n, k)]), "weight_scale": (dense, shape[w["strategy"]])}
        return out | ({"input_scale": (dense, [(1,), ()])} if inputs and not inputs.get("dynamic") else {})

    def packed(n, k):
        groups = k // g if g else 1
        out = {"weight_packed": ({"I32"}, [(n, k * bits // 32)]), "weight_scale": (dense, [(n, groups)]),
               "weight_shape": ({"I64"}, [(2,)])}
        if not w["symmetric"]:
            out["weight_zero_point"] = ({"I32"}, [(n * bits // 32, groups)])
        return out

    def nvfp4(n, k):
        out = {"weight_packed": ({"U8"}, [(n, k // 2)]), "weight_scale": ({"F8_E4M3"}, [(n, k // 16)]),
               "weight_global_scale": ({"F32"}, [(1,)])}
        return out | ({"input_global_scale": ({"F32"}, [(1,)])} if scheme == "W4A4Fp4" else {})

    f.params(f"CT create_weights of {scheme}", {
        "W4A16Fp4": nvfp4, "W4A4Fp4": nvfp4, "W8A8Fp8": fp8, "W8A16Fp8": fp8, "WNA16": packed,
        "W4A16Mxfp4": lambda n, k: {"weight_packed": ({"U8"}, [(n, k // 2)]), "weight_scale": ({"U8"}, [(n, k // 32)])},
        "W8A8Mxfp8": lambda n, k: {"weight": ({"F8_E4M3"}, [(n, k)]), "weight_scale": ({"U8"}, [(n, k // 32)])},
        "W8A8Int8": lambda n, k: {"weight": ({"I8"}, [(n, k)]), "weight_scale": (dense, [(n, 1)])},
    }[scheme])
    if "Fp4" in scheme and "Mx" not in scheme:
        f.same_scale("CT process_weights_after_loading", values, "weight_global_scale")


def deepseek(f, values):
    q = f.q
    f.rule("F8 from_config", "fp8" in q.get("quant_method", ""), "quant_method")
    f.rule("F8 __init__", q.get("activation_scheme") == "dynamic", "blocks ask for dynamic activations")
    f.rule("F8 __init__", q.get("weight_block_size") == [128, 128], "weight_block_size")
    for module in f.kept:
        f.rule("UT is_layer_skipped", module in q["modules_to_not_convert"], f"{module} is not listed")
    f.params("F8 create_weights", lambda n, k: {
        "weight": ({"F8_E4M3"}, [(n, k)]),
        "weight_scale_inv": ({"F32"}, [(math.ceil(n / 128), math.ceil(k / 128))])})


def gptq(f, values):
    q, bits = f.q, f.q["bits"]
    asymmetric = not q["sym"]  # which GPTQModel reads and vLLM does not
    f.rule("GQ override_quantization_method", q.get("quant_method") == "gptq", "quant_method")
    f.rule("GQ TYPE_MAP", (bits, q["sym"]) in {(4, True), (8, True)} or asymmetric, f"{bits} bits, sym {q['sym']}")
    f.rule("GQ from_config", {"bits", "group_size", "desc_act", "sym"} <= q.keys(), "keys")
    f.rule("GQ verify_marlin_supported", q["group_size"] in (-1, 32, 64, 128), "group_size")
    f.rule("GQ desc_act", q["desc_act"] is False, "columns in order")
    own = json.loads(f.files["quantize_config.json"].read_text())
    f.rule("GQ get_config_filenames", all(own[k] == q[k] for k in ("bits", "group_size", "sym")), "the two files disagree")
    skip = [p.removeprefix("-:") for p in q["dynamic"] if p.startswith("-:")]
    for module in f.shape:
        f.rule("GQ get_dynamic_override", not any(re.match(p, module) for p in skip), f"{module} is skipped")
    for module in f.kept:
        f.rule("GQ get_dynamic_override", any(re.match(p, module) for p in skip), f"{module} is not skipped")

    def groups(k):
        return 1 if q["group_size"] == -1 else k // q["group_size"]

    f.params("GQ create_weights", lambda n, k: {
        "qweight": ({"I32"}, [(k * bits // 32, n)]), "qzeros": ({"I32"}, [(groups(k), n * bits // 32)]),
        "scales": ({"F16", "BF16"}, [(groups(k), n)]), "g_idx": ({"I32"}, [(k,)])})


def bitsandbytes(f, values):
    q = f.q
    f.rule("BB from_config", q.get("quant_method") == "bitsandbytes", "quant_method")
    f.rule("BB from_config", q["load_in_4bit"] != q["load_in_8bit"], "4 or 8 bits")
    for module in f.kept:
        f.rule("BB is_layer_skipped_bnb", module in q["llm_int8_skip_modules"], f"{module} is not listed")
    if q["load_in_8bit"]:
        f.params("BB SCB", lambda n, k: {"weight": ({"I8"}, [(n, k)]), "SCB": ({"F32"}, [(n,)]),
                                         "weight_format": ({"U8"}, [()])})
        return
    nested = {"weight.nested_absmax": ({"F32"}, None), "weight.nested_quant_map": ({"F32"}, [(256,)])}
    f.params("BB _parse_quant_state", lambda n, k: {
        "weight": ({"U8"}, [(n * k // 2, 1)]), "weight.absmax": ({"F32", "U8"}, [(n * k // 64,)]),
        "weight.quant_map": ({"F32"}, [(16,)]), "weight.quant_state.bitsandbytes__nf4": ({"U8"}, None)}
        | (nested if q["bnb_4bit_use_double_quant"] else {}))


def gpt_oss(f, values):
    f.rule("M4 from_config", f.q.get("quant_method") == "mxfp4", "quant_method")
    for name, (dtype, shape) in f.tensors.items():
        if name.endswith("_blocks"):
            scales = f.tensors.get(name.replace("_blocks", "_scales"))
            f.rule("M4 load_weights", dtype == "U8" and len(shape) == 4 and shape[3] == 16, f"{name} {dtype} {shape}")
            f.rule("M4 load_weights", scales == ("U8", shape[:3]), f"{name}: scales {scales}")
            f.rule("M4 load_weights", name.replace("_blocks", "_bias") in f.tensors, f"{name} has no bias")


CHECKS = {"modelopt": modelopt, "compressed-tensors": compressed_tensors, "compressed-tensors-naive": compressed_tensors,
          "deepseek": deepseek, "gptq": gptq, "gptq-v2": gptq, "bitsandbytes": bitsandbytes, "gpt-oss": gpt_oss}


def check(layout, folder, source, values):
    """source: name -> shape of the dense matrices; values: name -> array of the folder's tensors.
    Returns how many rules were asked, and what of them does not hold."""
    f = Folder(folder, source if layout != "gpt-oss" else {})
    common(f)
    CHECKS[layout](f, values)
    return f.count, f.broken
