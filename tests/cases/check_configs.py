#!/usr/bin/env python3
"""check_configs.py KERF [CASE...]: what config.json says of quantization, wherever it says it: in the description of the
language model of a checkpoint of several modalities, twice, and of the KV cache. What is written says it once."""
import json
import os
import shutil
import sys

from files import model, need, read, run_cases

L = "language_model.model.layers.0."
DOWN = L + "mlp.down_proj"
TEXT = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 512}
HEAD = ("language_model.lm_head.weight", "BF16", (512, 256))
WORDS = [(DOWN + ".weight_packed", "I32", (256, 32), [(i * 2654435761) % 2 ** 32 - 2 ** 31 for i in range(8192)]), (DOWN + ".weight_scale", "BF16", (256, 2), [0.01] * 512),
         (DOWN + ".weight_shape", "I64", (2,), [256, 256]), HEAD]
CT = {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed", "ignore": ["re:.*lm_head"],
      "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128, "dynamic": False}}}}


def nested(nest, q):
    """{"a.b": ...} for nest "a.b", with q in the innermost."""
    inner = {**TEXT, "quantization_config": q}
    for name in reversed(nest.split(".")):
        inner = {name: inner}
    return inner


def config_of(folder):
    with open(f"{folder}/config.json") as f:
        return json.load(f)


def places(config, at="top"):
    """Where a quantization_config stands."""
    found = [at] if "quantization_config" in config else []
    for name, value in config.items():
        if isinstance(value, dict) and name != "quantization_config":
            found += places(value, name)
    return found


def layouts(kerf, folder):
    return {w["layout"] for w in kerf.json("inspect", folder)["weights"] if w["format"]}


def case_nested(kerf, tmp):
    """It is read in the description of the language model, and written at the top, once."""
    for nest in ("text_config", "llm_config", "thinker_config", "thinker_config.text_config"):
        m = model(f"{tmp}/{nest}", WORDS, model_type="llava", **nested(nest, CT))
        kerf("inspect", m)
        kerf("dequantize", m, "-o", f"{m}-dense", says="1 of 2 tensors decoded")
        need(places(config_of(f"{m}-dense")) == [], f"{nest}: dequantize leaves {places(config_of(f'{m}-dense'))}")
        kerf("inspect", f"{m}-dense")
        for verb, *args in (("convert", "--layout", "compressed-tensors"), ("quantize", "-f", "nvfp4", "--layout", "compressed-tensors"), ("quantize", "-f", "nvfp4", "--layout", "modelopt")):
            kerf(verb, m, *args, "-o", f"{m}-out", "-y")
            need(places(config_of(f"{m}-out")) == ["top"], f"{nest} {verb}: stands in {places(config_of(f'{m}-out'))}")
            kerf("inspect", f"{m}-out")
        kerf("convert", m, "--layout", "kerf", "-o", f"{m}-out", "-y")
        need(places(config_of(f"{m}-out")) == [], f"{nest}: layout kerf leaves {places(config_of(f'{m}-out'))}")


def case_null(kerf, tmp):
    """null at the top is nothing."""
    m = model(f"{tmp}/m", WORDS, model_type="llava", quantization_config=None, **nested("text_config", CT))
    kerf("inspect", m)
    m = model(f"{tmp}/towers", WORDS, model_type="llava", quantization_config=CT, text_config=TEXT, vision_config={"quantization_config": None, "hidden_size": 64})
    kerf("inspect", m)


def case_tiles(kerf, tmp):
    """FP8 in tiles, with and without a number for each part of one, and how large they are."""
    q = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    tiles = [(DOWN + ".weight", "F8_E4M3", (256, 192)), (DOWN + ".weight_scale_inv", "F32", (2, 2), [0.5, 0.25, 0.125, 2.0]), HEAD]
    m = model(f"{tmp}/m", tiles, model_type="llava", **nested("text_config", q))
    top = model(f"{tmp}/top", tiles, model_type="llava", text_config=TEXT, quantization_config=q)
    need(layouts(kerf, m) == layouts(kerf, top) == {"deepseek"}, f"{layouts(kerf, m)}, not {layouts(kerf, top)}")
    kerf("dequantize", m, "-o", f"{m}-dense")
    kerf("dequantize", top, "-o", f"{top}-dense")
    need(read(f"{m}-dense/model.safetensors") == read(f"{top}-dense/model.safetensors"), "other numbers than with one at the top")


def case_foreign(kerf, tmp):
    """A method that kerf does not read is named."""
    m = model(f"{tmp}/m", [(DOWN + ".W_q", "U8", (128, 256)), HEAD], model_type="llava", **nested("text_config", {"quant_method": "hqq"}))
    kerf("quantize", m, "-f", "nvfp4", "-o", f"{tmp}/out", code=3, says='quantized with "hqq"')


def case_two(kerf, tmp):
    """Two that say different things are found; two that say the same are one."""
    m = model(f"{tmp}/m", WORDS, model_type="llava", quantization_config={**CT, "quantization_status": "frozen"}, **nested("text_config", CT))
    kerf("inspect", m, code=1, says="has a second quantization_config in text_config, which says something else")
    for verb, *args in (("convert", "--layout", "compressed-tensors"), ("quantize", "-f", "int8", "--layout", "compressed-tensors"), ("dequantize",)):
        kerf(verb, m, *args, "-o", f"{tmp}/out", "-y")
        kerf("inspect", f"{tmp}/out")
    kerf("inspect", model(f"{tmp}/same", WORDS, model_type="llava", quantization_config=CT, **nested("text_config", CT)))


def case_text(kerf, tmp):
    """All else stays as it was, in each object."""
    m = model(f"{tmp}/m", WORDS)
    before = '{\n    "a": [1, {"c": "quantization_config"}],\n    "text_config": {\n        "b": 1.50,%s\n        "d": {"e":2 , "f" : null}%s\n    },\n    "z": 1e3\n}\n'
    said = '\n        "quantization_config": ' + json.dumps(CT)
    for text in (before % (said + ",", ""), before % ("", "," + said), before % (said + ",", ",\n        \"vision\": {\"quantization_config\": {\"x\": 1}}")):
        with open(f"{m}/config.json", "w") as f:
            f.write(text)
        kerf("dequantize", m, "-o", f"{tmp}/out", "-y")
        with open(f"{tmp}/out/config.json") as f:
            found = f.read()
        need(found == before % ("", ',\n        "vision": {}' if "vision" in text else ""), f"wrote {found}")


# --- the KV cache ---------------------------------------------------------------------------------
UP = "model.layers.0.mlp.up_proj"
FP8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}
MODELOPT = {"dynamic": False, "num_bits": 8, "type": "float"}
SCALES = [(f"model.layers.0.self_attn.{x}_scale", "F32", (1,), [0.02]) for x in "kv"]


def change(folder, name="config.json", **members):
    """Members of what a file says of quantization; None: away with it."""
    with open(f"{folder}/{name}") as f:
        config = json.load(f)
    q = config["quantization_config" if name == "config.json" else "quantization"]
    q.update(members)
    for key in [k for k, v in members.items() if v is None]:
        del q[key]
    with open(f"{folder}/{name}", "w") as f:
        json.dump(config, f)


def quantized(kerf, tmp, layout, scales):
    plain = model(f"{tmp}/plain", [(UP + ".weight", "BF16", (256, 256)), ("lm_head.weight", "BF16", (512, 256)), *scales], model_type="llama")
    kerf("quantize", plain, "-f", "nvfp4", "--layout", layout, "-o", f"{tmp}/{layout}", "-y")
    return f"{tmp}/{layout}"


def said(folder):
    """Of the cache, in config.json and in hf_quant_config.json."""
    q = config_of(folder).get("quantization_config", {})
    try:
        with open(f"{folder}/hf_quant_config.json") as f:
            return q.get("kv_cache_scheme"), json.load(f)["quantization"]["kv_cache_quant_algo"]
    except FileNotFoundError:
        return q.get("kv_cache_scheme"), None


def lost(kerf, folder, layout, out):
    return [s for s in kerf.json("convert", folder, "--layout", layout, "-o", out, "-y")["losses"] if "KV cache" in s or "scales of activations" in s]


def case_cache(kerf, tmp):
    """A quantized KV cache outlives a change of layout, there and back, and one that does not change anything."""
    for scales in (SCALES, [(n.replace(".k_", ".k_proj.k_").replace(".v_", ".v_proj.v_"), *rest) for n, *rest in SCALES], []):
        ct = quantized(kerf, tmp, "compressed-tensors", scales)
        need(said(ct) == (None, None), f"a cache that nobody asked for: {said(ct)}")
        change(ct, kv_cache_scheme=FP8)
        out = f"{tmp}/out"
        need(lost(kerf, ct, "compressed-tensors", out) == [], f"lost without a change: {lost(kerf, ct, 'compressed-tensors', out)}")
        need(said(out) == (FP8, None), f"the same layout: {said(out)}")
        need(lost(kerf, ct, "modelopt", out) == [], f"lost to modelopt: {lost(kerf, ct, 'modelopt', out)}")
        need(said(out) == (MODELOPT, "FP8"), f"modelopt: {said(out)}")
        kerf("inspect", out)
        need(lost(kerf, out, "modelopt", f"{tmp}/again") == [] and said(f"{tmp}/again") == (MODELOPT, "FP8"), f"modelopt again: {said(f'{tmp}/again')}")
        need(lost(kerf, out, "compressed-tensors", f"{tmp}/back") == [] and said(f"{tmp}/back") == (FP8, None), f"and back: {said(f'{tmp}/back')}")
        change(out, kv_cache_scheme=None)  # older exports say it in the other file alone
        need(lost(kerf, out, "compressed-tensors", f"{tmp}/back") == [] and said(f"{tmp}/back") == (FP8, None), f"from hf_quant_config.json: {said(f'{tmp}/back')}")
        need(any(s.startswith("1 quantization of the KV cache") for s in lost(kerf, ct, "kerf", out)), "nothing lost")
        need(lost(kerf, out, "kerf", f"{tmp}/again") == [], "lost where nothing changes")
        kerf("quantize", ct, "-f", "nvfp4", "--tensor", "lm_head.weight=nvfp4", "--layout", "compressed-tensors", "-o", out, "-y")
        need(said(out) == (FP8, None), f"weights that stay: {said(out)}")
        words = model(f"{tmp}/words", [*WORDS, *scales], model_type="llama", quantization_config={**CT, "kv_cache_scheme": FP8})
        kerf("quantize", words, "-f", "nvfp4", "--layout", "modelopt", "-o", out, "-y", says="decoded on the way in")
        need(said(out) == ((None, None) if scales else (MODELOPT, "FP8")), f"weights that are decoded: {said(out)}")
        kerf("dequantize", words, "-o", out, "-y")
        need(places(config_of(out)) == [], "dequantized")


def case_cache_words(kerf, tmp):
    """What only one layout can say stays there, and is counted elsewhere."""
    ct, out = quantized(kerf, tmp, "compressed-tensors", SCALES), f"{tmp}/out"
    for scheme in ({**FP8, "type": "int"}, {**FP8, "strategy": "attn_head"}, {**FP8, "dynamic": True}, {**FP8, "symmetric": False}):
        change(ct, kv_cache_scheme=scheme)
        need(lost(kerf, ct, "compressed-tensors", out) == [] and said(out) == (scheme, None), f"{scheme}: {said(out)}")
        need([s[:16] for s in lost(kerf, ct, "modelopt", out)] == ["2 scales of acti", "1 quantization o"], f"{scheme}: {lost(kerf, ct, 'modelopt', out)}")
        need(said(out) == (None, None), f"{scheme} in modelopt: {said(out)}")
    older = quantized(kerf, tmp, "compressed-tensors", [(n.replace(".k_", ".k_proj.output_").replace(".v_", ".v_proj.output_"), *rest) for n, *rest in SCALES])
    change(older, kv_cache_scheme=FP8)
    need(lost(kerf, older, "compressed-tensors", out) == [] and said(out) == (FP8, None), "older names")
    need(len(lost(kerf, older, "modelopt", out)) == 2 and said(out) == (None, None), "older names in modelopt")
    mo = quantized(kerf, tmp, "modelopt", SCALES)
    for scheme in ("NVFP4", {"dynamic": False, "num_bits": 4, "type": "float"}):
        change(mo, kv_cache_scheme=scheme)
        change(mo, "hf_quant_config.json", kv_cache_quant_algo="NVFP4")
        need(lost(kerf, mo, "modelopt", out) == [] and said(out) == (scheme, "NVFP4"), f"{scheme}: {said(out)}")
        need(len(lost(kerf, mo, "compressed-tensors", out)) == 2 and said(out) == (None, None), f"{scheme} in compressed-tensors: {said(out)}")


def case_quantized_head(kerf, tmp):
    """A head that somebody asks for is told to loaders: GPTQ's have a key for it, and to vLLM it is no Linear."""
    def plan(name, codec, layout, says=None, **config):
        folder = model(f"{tmp}/{name}", [("model.layers.0.mlp.down_proj.weight", "BF16", (256, 256)), ("lm_head.weight", "BF16", (512, 256))], **{**TEXT, **config})
        args = ("--tensor", f"lm_head.weight={codec}") if says is not False else ()
        kerf("quantize", folder, "-f", codec, *args, "--layout", layout, "-o", f"{folder}-out", says=says or None)
        kerf("inspect", f"{folder}-out")
        return config_of(f"{folder}-out")["quantization_config"]

    for layout in ("gptq", "gptq-v2"):
        need(plan(layout, "int4-g128", layout)["lm_head"] is True, f"{layout}: lm_head is not said to be quantized")
        need(plan(layout + "-kept", "int4-g128", layout, says=False)["lm_head"] is False, f"{layout}: lm_head is said to be quantized")
    for codec in ("int4-g128", "nvfp4", "fp8-e4m3-row"):
        q = plan(codec, codec, "compressed-tensors")
        need(q["config_groups"]["group_0"]["targets"] == ["Linear", "lm_head"] and "lm_head" not in q["ignore"], q)
        q = plan(codec + "-kept", codec, "compressed-tensors", says=False)
        need(q["config_groups"]["group_0"]["targets"] == ["Linear"] and "lm_head" in q["ignore"], q)
    # DeepSeek's loaders quantize linear layers and experts, and to vLLM and SGLang the head is neither
    source, tiles = f"{tmp}/int4-g128", "fp8-e4m3-128x128"
    kerf("quantize", source, "-f", tiles, "--layout", "deepseek", "--tensor", f"*head*={tiles}", "-o", f"{tmp}/ds", code=2,
         says="layout deepseek: its loaders take no quantized output head; layout compressed-tensors does; --tensor 'lm_head.weight=keep'")
    kerf("quantize", source, "-f", tiles, "--layout", "deepseek", "--tensor", f"*head*={tiles}", "--tensor", "lm_head.weight=keep", "-o", f"{tmp}/ds")
    kerf("inspect", f"{tmp}/ds")
    kerf("quantize", source, "-f", tiles, "--tensor", f"*head*={tiles}", "-o", f"{tmp}/own")
    kerf("convert", f"{tmp}/own", "--layout", "deepseek", "-o", f"{tmp}/moved", code=3, says="lm_head.weight: loaders of layout deepseek take no quantized output head: kerf dequantize makes")
    says = "lm_head.weight is quantized, but config.json ties it to the embedding"
    plan("tied", "int4-g128", "compressed-tensors", says=says, tie_word_embeddings=True)
    plan("tied-inside", "int4-g128", "compressed-tensors", says=says, model_type="llava", text_config={**TEXT, "tie_word_embeddings": True})
    notes = kerf.json("quantize", f"{tmp}/int4-g128", "-f", "int4-g128", "--tensor", "lm_head.weight=int4-g128", "--layout", "compressed-tensors", "-n")["notes"]
    need(not any("ties" in n for n in notes), notes)


def case_another_graph(kerf, tmp):
    """What llama.cpp computes in a way of its own, whatever config.json says, is no GGUF."""
    tiny = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "tiny-llama")
    for name, more, says in (("act", {"hidden_act": "gelu"}, "hidden_act"), ("part", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
                             ("part5", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}}, "partial_rotary_factor"),
                             ("experts", {"norm_topk_prob": False}, "norm_topk_prob"), ("none", {"hidden_act": "swish", "partial_rotary_factor": 1.0, "norm_topk_prob": True}, None)):
        folder = f"{tmp}/{name}"
        shutil.copytree(tiny, folder)
        with open(f"{folder}/config.json", "w") as f:
            json.dump({**config_of(tiny), **more}, f)
        kerf("quantize", folder, "-f", "q8_0", "-o", f"{folder}.gguf", code=3 if says else 0, says=says)
        kerf("quantize", folder, "-f", "int8", "-o", f"{folder}-int8")
    shutil.copytree(tiny, f"{tmp}/rows")
    with open(f"{tmp}/rows/config.json", "w") as f:
        json.dump({**config_of(tiny), "vocab_size": 2112}, f)
    kerf("quantize", f"{tmp}/rows", "-f", "q8_0", "-o", f"{tmp}/rows.gguf", code=3, says="vocab_size is 2112, but model.embed_tokens.weight has 2048 rows")


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
