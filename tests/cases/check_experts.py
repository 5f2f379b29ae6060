#!/usr/bin/env python3
"""check_experts.py KERF [CASE...]: what config.json says of experts, by the names under which vLLM and SGLang ask: one
layer for all experts of a layer of the model, the matrices of whose first expert stand for it."""
import json
import sys

from files import model, need, run_cases

H, M = 256, 128
SIZES = {"hidden_size": H, "num_hidden_layers": 1, "num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": M, "vocab_size": 512}
MATRICES = ("gate_proj", "up_proj", "down_proj")
Q = ("model.layers.0.self_attn.q_proj.weight", "BF16", (H, H))


def singles(layer, names=MATRICES):
    return [(f"{layer}.{e}.{n}.weight", "BF16", (H, M) if n == names[2] else (M, H)) for e in range(2) for n in names]


def stacks(layer):
    return [(f"{layer}.gate_up_proj", "BF16", (2, 2 * M, H)), (f"{layer}.down_proj", "BF16", (2, H, M))]


def said(kerf, tmp, name, tensors, *args, **config):
    folder = model(f"{tmp}/{name}", [Q] + tensors, **{**SIZES, **config})
    kerf("quantize", folder, *args, "-o", f"{folder}-out")
    kerf("inspect", f"{folder}-out")
    with open(f"{folder}-out/config.json", encoding="utf-8") as f:
        return json.load(f)["quantization_config"]


def first(layer):
    return {f"{layer}.0.{n}" for n in MATRICES}


def case_kept_in_compressed_tensors(kerf, tmp):
    """Of the layer that predicts further tokens; of those that somebody asked to keep, whatever they are called."""
    layer, own = "model.layers.0.mlp.experts", "mtp.layers.0.mlp.experts"
    kinds = {"mtp": ("qwen3_5_moe", stacks(layer) + stacks(own), own, layer), "mtp-single": ("qwen3_next", singles(layer) + singles(own), own, layer),
             "kept": ("qwen3_5_moe", stacks(layer), layer, None),
             "w1": ("mixtral", singles("model.layers.0.block_sparse_moe.experts", ("w1", "w3", "w2")), "model.layers.0.block_sparse_moe.experts", None)}
    for kind, (family, tensors, kept, quantized) in kinds.items():
        keep = ("--keep", "*.experts.*") if not quantized else ()
        q = said(kerf, tmp, kind, tensors, "-f", "nvfp4", "--layout", "compressed-tensors", *keep, model_type=family, intermediate_size=M)
        need(first(kept) <= set(q["ignore"]), f"{kind}: {q['ignore']}")
        need(len(q["ignore"]) == len(set(q["ignore"])), f"{kind}: a name stands twice")
        need(not quantized or not first(quantized) & set(q["ignore"]), f"{kind}: quantized experts are listed")
        need(all(".experts.0" not in n for n in q["config_groups"]["group_0"]["targets"]), q)


def case_other_stacks(kerf, tmp):
    """Experts that lie beside each other in no module of that name; tables of three dimensions are none."""
    tensors = [("model.layers.0.moe.gate_proj.weight", "BF16", (2, M, H)), ("model.layers.0.moe.up_proj.weight", "BF16", (2, M, H)), ("model.layers.0.moe.down_proj.weight", "BF16", (2, H, M)),
               ("vision_tower.patch_embed.pos_emb.weight", "BF16", (4, 4, H)), ("vision_tower.conv1.weight", "BF16", (8, 4, 4))]
    q = said(kerf, tmp, "m", tensors, "-f", "nvfp4", "--layout", "compressed-tensors", model_type="step3p5", moe_num_experts=2, intermediate_size=512)
    need({n for n in q["ignore"] if ".experts" in n} == first("model.layers.0.moe.experts"), q["ignore"])


def case_kept_in_gptq(kerf, tmp):
    layer, own = "model.layers.0.mlp.experts", "mtp.layers.0.mlp.experts"
    q = said(kerf, tmp, "m", singles(layer) + singles(own), "-f", "int4-g128", "--layout", "gptq", model_type="qwen3_next")
    need("-:^mtp\\.layers\\.0\\.mlp\\.experts$" in q["dynamic"], q["dynamic"])
    need(not [n for n in q["dynamic"] if n.startswith("-:^model\\.layers\\.0\\.mlp\\.experts")], q["dynamic"])


def case_of_another_format(kerf, tmp):
    """Where layers have several formats each is listed; experts that are called w1 to w3 as runtimes ask for them, too."""
    layer = "model.layers.0.block_sparse_moe.experts"
    q = said(kerf, tmp, "m", singles(layer, ("w1", "w3", "w2")), "-f", "int4-g128", "--tensor", "*experts*=int4-g32", "--layout", "compressed-tensors",
             model_type="mixtral", intermediate_size=M)
    groups = {g["weights"]["group_size"]: set(g["targets"]) for g in q["config_groups"].values()}
    need(first(layer) <= groups[32] and not first(layer) & groups[128], groups)
    q = said(kerf, tmp, "n", singles("model.layers.0.mlp.experts"), "-f", "int4-g128", "--tensor", "*experts*=int4-g32", "--layout", "compressed-tensors", model_type="qwen3_moe")
    for g in q["config_groups"].values():
        need(len(g["targets"]) == len(set(g["targets"])), f"a name stands twice: {g['targets']}")


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
