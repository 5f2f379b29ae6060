#!/usr/bin/env python3
"""check_configs.py KERF [CASE...]: what config.json says of quantization, wherever it says it: in the description of the
language model of a checkpoint of several modalities, and twice. What is written says it once."""
import json
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


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
