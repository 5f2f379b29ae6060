#!/usr/bin/env python3
"""check.py KERF [CASE...]: checkpoints as people really have them, each with the value that is right."""
import math
import os
import shutil
import sys

from files import bf16, count, e4m3, f32, model, need, numbers, pack, read, run_cases, write

L = "model.layers.0."
H = 128


def matrix(name, rows=H, cols=H, dtype="BF16", values=None):
    return (name, dtype, (rows, cols), *([values] if values else []))


# --- what stays wide -----------------------------------------------------------------------------
WIDE = {  # model_type: quantized, kept
    "nemotron_h": (["backbone.layers.1.mixer.experts.0.up_proj.weight", "backbone.layers.0.mixer.in_proj.weight"],
                   ["backbone.layers.1.mixer.gate.weight", "backbone.embeddings.weight", "backbone.layers.0.mixer.A_log"]),
    "deepseek_v4": (["layers.4.ffn.experts.0.w1.weight", "layers.4.attn.wo_b.weight"],
                    ["layers.4.ffn.gate.weight", "head.weight", "embed.weight", "layers.4.attn.indexer.wq_b.weight"]),
    "chatglm": (["transformer.encoder.layers.0.self_attention.query_key_value.weight"],
                ["transformer.output_layer.weight", "transformer.embedding.word_embeddings.weight"]),
    "qwen2_5_omni": (["thinker.model.layers.0.self_attn.q_proj.weight"],
                     ["thinker.audio_tower.layers.0.self_attn.q_proj.weight", "thinker.visual.blocks.0.attn.proj.weight",
                      "talker.model.layers.0.mlp.up_proj.weight"]),
    "mllama": (["language_model.model.layers.0.self_attn.q_proj.weight"],
               ["vision_model.transformer.layers.0.self_attn.q_proj.weight", "vision_model.global_transformer.layers.0.mlp.fc1.weight"]),
    "llava": (["model.layers.0.self_attn.q_proj.weight"], ["model.mm_projector.0.weight"]),
    # families that nobody knows: the same by names that many share, and what those do not tell is kept
    "never_heard_of": (["trunk.stack.7.attn.to_q.weight", "trunk.stack.7.moe.experts.3.w2.weight", "blocks.3.mlp.fc1.weight"],
                       ["trunk.stack.7.moe.gate.weight", "trunk.lm_head.weight", "trunk.frobnicator.7.weight", "trunk.image_tower.0.fc1.weight",
                        "model.video_tower.blocks.0.fc1.weight", "perceiver.layers.0.attn.q_proj.weight", "eva_vit.blocks.0.fc1.weight",
                        "model.ocr_encoder.blocks.0.attn.q_proj.weight", "dinov3.blocks.0.fc1.weight", "score.out_proj.weight",
                        "latent_attention_model.cross_attend_blocks.0.fn.to_q.weight"]),
    "vibevoice": (["model.language_model.layers.0.mlp.up_proj.weight"],
                  ["model.acoustic_tokenizer.decoder.stages.0.0.ffn.linear1.weight", "model.semantic_tokenizer.encoder.stages.0.0.ffn.linear1.weight",
                   "model.prediction_head.layers.0.ffn.gate_proj.weight"]),
    "lfm2_audio": (["lfm.layers.0.feed_forward.w1.weight"], ["depthformer.layers.0.feed_forward.w1.weight"]),
    "voxtral_tts": (["layers.0.attention.wq.weight"], ["acoustic_transformer.layers.0.attention.wq.weight"]),
    "deepseek_ocr2": (["model.layers.0.mlp.up_proj.weight"], ["model.qwen2_model.model.model.layers.0.mlp.up_proj.weight"]),
    "jet_nemotron": (["model.layers.0.self_attn.q_proj.weight"], ["model.layers.0.jet_block.dynamic_conv1d.kernel_generator.w1.weight"]),
    "mistral_large_3": (["layers.0.attention.wq_a.weight", "layers.0.attention.wkv_a_with_mqa.weight"], ["layers.1.gate.weight"]),
}


def case_roles(kerf, tmp):
    for kind, (narrow, wide) in WIDE.items():
        folder = model(f"{tmp}/{kind}", [matrix(n) for n in narrow + wide], model_type=kind)
        plan = kerf.decisions(folder)
        for name in narrow:
            need(plan[name][0], f"{kind}: {name} is kept: {plan[name][1]}")
        for name in wide:
            need(not plan[name][0], f"{kind}: {name} is quantized")
    notes = kerf.json("quantize", f"{tmp}/never_heard_of", "-f", "nvfp4", "-n")["notes"]
    need("never_heard_of" in notes[0] and "1 tensor of unknown role kept: trunk.frobnicator.7.weight" in notes[1], notes)


def case_mtp(kerf, tmp):
    """Layers behind the last one predict further tokens; so much as config.json says of them."""
    names = [f"model.layers.{i}.mlp.experts.0.gate_proj.weight" for i in range(2)]
    folder = model(f"{tmp}/m", [matrix(n) for n in names], model_type="deepseek_v3", num_hidden_layers=1, num_nextn_predict_layers=1)
    plan = kerf.decisions(folder)
    need(plan[names[0]][0] and plan[names[1]][1] == "multi-token prediction", plan)


# --- the input axis ------------------------------------------------------------------------------
def int8_t2(rows):
    """Each row with a scale of its own, the largest at 127."""
    signal = noise = 0.0
    for row in rows:
        scale = f32(max(abs(x) for x in row) / 127)
        for x in row:
            code = max(-127, min(127, round(x / scale))) if scale else 0
            signal += x * x
            noise += (code * scale - x) ** 2
    return noise / signal


def loud(rows, cols, loud_row, seed):
    """[in, out] with one input feature 400 times as large as the others."""
    v = [bf16(x) for x in numbers(rows * cols, seed)]
    v[loud_row * cols:(loud_row + 1) * cols] = [bf16(400 * x) for x in v[loud_row * cols:(loud_row + 1) * cols]]
    return v


def columns(v, rows, cols):
    return [[v[r * cols + c] for r in range(rows)] for c in range(cols)]


def is_near(a, b, part=0.02):
    return abs(a - b) <= part * abs(b)


def case_conv1d(kerf, tmp):
    shapes = {"h.0.attn.c_attn.weight": (H, 3 * H), "h.0.attn.c_proj.weight": (H, H), "h.0.mlp.c_fc.weight": (H, 4 * H), "h.0.mlp.c_proj.weight": (4 * H, H)}
    values = {n: loud(*s, 5, i) for i, (n, s) in enumerate(shapes.items())}
    tensors = [(n, "BF16", s, values[n]) for n, s in shapes.items()] + [("wte.weight", "BF16", (512, H))]
    folder = model(f"{tmp}/gpt2", tensors, model_type="gpt2", n_embd=H)
    for name, t2 in kerf.t2(folder, "int8").items():
        right = int8_t2(columns(values[name], *shapes[name]))
        need(is_near(t2, right), f"{name}: t2 is {t2}, along the inputs it is {right}")
    kerf("quantize", folder, "-f", "bf16", "-o", f"{tmp}/same")  # and back: the files' own order again
    kerf("dequantize", f"{tmp}/same", "-o", f"{tmp}/back")
    need(read(f"{tmp}/back/model.safetensors") == read(f"{folder}/model.safetensors"), "the way there and back changes tensors")
    kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/int8")
    kerf("verify", folder, f"{tmp}/int8")
    kerf("convert", f"{tmp}/int8", "--layout", "compressed-tensors", "-o", f"{tmp}/ct", code=3, says="no matrices that are [in, out]")
    kerf("quantize", folder, "-f", "int8", "--layout", "compressed-tensors", "-o", f"{tmp}/ct", code=2, says="no matrices that are [in, out]; layout kerf has")
    kerf("quantize", folder, "-f", "int8", "--layout", "compressed-tensors", "--tensor", "h.*=int8", "-o", f"{tmp}/ct", code=2, says="[in, out]")


STACKS = {  # model_type: prefix, orders of gate_up and down
    "llama4": ("language_model." + L + "feed_forward.experts.", True),
    "gpt_oss": (L + "mlp.experts.", True),
    "qwen3_5_moe": ("model.language_model.layers.0.mlp.experts.", False),
    "llama4_text": (L + "feed_forward.experts.", True),
}


def stack(kind, prefix, turned, inner=64, hidden=256, experts=2):
    out = []
    for name, rows, cols in (("gate_up_proj", hidden, 2 * inner), ("down_proj", inner, hidden)):
        v = [loud(rows, cols, 5, e + rows) for e in range(experts)]
        if not turned:
            v = [[x for c in columns(one, rows, cols) for x in c] for one in v]
        shape = (experts, rows, cols) if turned else (experts, cols, rows)
        out.append((prefix + name, "BF16", shape, [x for one in v for x in one]))
    return out


def case_stacks(kerf, tmp):
    for kind, (prefix, turned) in STACKS.items():
        inner = 128 if kind == "llama4_text" else 64  # gate_up is square there: down tells
        tensors = stack(kind, prefix, turned, inner)
        folder = model(f"{tmp}/{kind}", tensors, model_type=kind,
                       text_config={"hidden_size": 256, "intermediate_size": inner, "moe_intermediate_size": inner, "num_local_experts": 2})
        for name, _, shape, v in tensors:
            n = shape[1] * shape[2]
            rows = [r for e in range(2) for r in (columns(v[e * n:(e + 1) * n], *shape[1:]) if turned else
                    [v[e * n + i * shape[2]:e * n + (i + 1) * shape[2]] for i in range(shape[1])])]
            t2, right = kerf.t2(folder, "int8")[name], int8_t2(rows)
            need(is_near(t2, right), f"{kind}: {name}: t2 is {t2}, along the inputs it is {right}")
        recipe = f"{tmp}/{kind}.json"
        kerf("advise", folder, "--budget", "8.5bits", "-f", "int8,mxfp8-e4m3", "-o", recipe)
        for layout in ("kerf", "compressed-tensors"):
            out = f"{tmp}/{kind}-{layout}"
            kerf("quantize", folder, "--recipe", recipe, "--layout", layout, "-o", out, says="2 tensors measured as promised, 0 not")
            kerf("verify", folder, out)
        kerf("quantize", folder, "-f", "mxfp4", "--layout", "gpt-oss", "-o", f"{tmp}/{kind}-oss")
        kerf("verify", folder, f"{tmp}/{kind}-oss")


# --- sources that are quantized ------------------------------------------------------------------
def fp8(rows, cols, dtype, seed):
    """Codes, scales of tiles of 128 x 128, and what they decode to in F32."""
    codes = [c & 0x77 | (c >> 3 & 1) << 7 for c in (int(abs(x) * 1e6) % 256 for x in numbers(rows * cols, seed))]
    across = -(-cols // 128)
    scales = [2.0 ** -(7 + i % 3) if dtype == "F8_E8M0" else bf16(0.001 * (i + 1.3)) if dtype == "BF16" else f32(0.001 * (i + 1.3))
              for i in range(-(-rows // 128) * across)]
    truth = [f32(e4m3(codes[r * cols + c]) * scales[r // 128 * across + c // 128]) for r in range(rows) for c in range(cols)]
    return codes, scales, truth


def case_fp8(kerf, tmp):
    kinds = {"deepseek": (128, 256, "F32", "weight_scale_inv"), "qwen": (128, 256, "BF16", "weight_scale_inv"),
             "exponents": (128, 256, "F8_E8M0", "weight_scale_inv"), "native": (256, 128, "F8_E8M0", "scale"),
             "short": (192, 160, "BF16", "weight_scale_inv"), "narrow": (72, 96, "F32", "weight_scale_inv")}
    for kind, (rows, cols, dtype, suffix) in kinds.items():
        codes, scales, truth = fp8(rows, cols, dtype, rows + cols)
        name = L + "mlp.up_proj"
        tiles = (-(-rows // 128), -(-cols // 128))
        folder = model(f"{tmp}/{kind}", [(name + ".weight", "F8_E4M3", (rows, cols), codes), (f"{name}.{suffix}", dtype, tiles, scales),
                       matrix("lm_head.weight")], model_type="qwen3",
                       quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"})
        dense = model(f"{tmp}/{kind}-dense", [(name + ".weight", "F32", (rows, cols), truth)], model_type="qwen3")
        kerf("dequantize", folder, "--dtype", "fp32", "-o", f"{tmp}/{kind}-out")
        need(read(f"{tmp}/{kind}-out/model.safetensors")[name + ".weight"][2] == pack("F32", truth), f"{kind}: decoded wrongly")
        need(kerf.t2(folder, "nvfp4") == kerf.t2(dense, "nvfp4"), f"{kind}: another error than that of the decoded weights")
        for layout in ("kerf", "compressed-tensors"):
            kerf("quantize", folder, "-f", "nvfp4", "--layout", layout, "-o", f"{tmp}/{kind}-{layout}", says="1 tensor is decoded on the way in")
            kerf("verify", folder, f"{tmp}/{kind}-{layout}")
            kerf("inspect", f"{tmp}/{kind}-{layout}")
        kerf("advise", folder, "--budget", "5bits", "-f", "nvfp4", "-o", f"{tmp}/{kind}.json")
        kerf("quantize", folder, "--recipe", f"{tmp}/{kind}.json", "-o", f"{tmp}/{kind}-advised")
    kerf("quantize", f"{tmp}/deepseek", "-f", "fp8-e4m3-128x128", "--layout", "deepseek", "-n", says="already fp8-e4m3-128x128")
    # a scale that is missing, and one of another name
    codes, scales, truth = fp8(128, 128, "F32", 3)
    folder = model(f"{tmp}/lost", [(L + "mlp.up_proj.weight", "F8_E4M3", (128, 128), codes)], model_type="qwen3")
    for verb in (("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/x"), ("score", folder, "-f", "nvfp4"), ("advise", folder, "--budget", "5bits")):
        kerf(*verb, code=3, says="weight_scale is missing")
    folder = model(f"{tmp}/comfy", [("blocks.0.attn.qkv.weight", "F8_E4M3", (128, 128), codes), ("blocks.0.attn.qkv.scale_weight", "F32", (1,), [0.03]),
                   ("scaled_fp8", "F8_E4M3", (2,), [0, 0])], _class_name="FluxTransformer2DModel")
    kerf("quantize", folder, "-f", "nvfp4", "-o", f"{tmp}/comfy-out")
    kerf("verify", folder, f"{tmp}/comfy-out")
    need("scaled_fp8" not in read(f"{tmp}/comfy-out/model.safetensors"), "scaled_fp8 stays")


def case_other_sources(kerf, tmp):
    """What kerf itself writes in other projects' layouts, without its description, is a source again."""
    folder = model(f"{tmp}/m", [matrix(L + "mlp.up_proj.weight"), matrix(L + "mlp.gate_proj.weight"), matrix("lm_head.weight")], model_type="llama")
    for layout, codec in (("modelopt", "nvfp4"), ("compressed-tensors", "int4-g128"), ("bitsandbytes", "nf4"), ("gptq", "int4-g64"), ("compressed-tensors", "mxfp4")):
        out = f"{tmp}/{layout}-{codec}"
        kerf("quantize", folder, "-f", codec, "--layout", layout, "-o", out)
        path = f"{out}/model.safetensors"
        with open(path, "rb") as f:
            raw = f.read()
        with open(path, "wb") as f:
            f.write(raw.replace(b'"kerf":"{', b'"gone":"{', 1))
        kerf("dequantize", out, "--dtype", "fp32", "-o", f"{out}-dense")
        kerf("quantize", out, "-f", "int8", "-o", f"{out}-int8", says="2 tensors are decoded on the way in")
        kerf("verify", out, f"{out}-int8")
        need(kerf.t2(out, "int8") == kerf.t2(f"{out}-dense", "int8"), f"{layout} {codec}: another error than that of the decoded weights")


def case_f64(kerf, tmp):
    v = numbers(64 * H)
    write(f"{tmp}/a.safetensors", [(L + "mlp.up_proj.weight", "F64", (64, H), v)])
    write(f"{tmp}/b.safetensors", [(L + "mlp.up_proj.weight", "F32", (64, H), [f32(x) for x in v])])
    kerf("quantize", f"{tmp}/a.safetensors", "-f", "int8", "-o", f"{tmp}/c.safetensors", says="rounded from F64")
    kerf("verify", f"{tmp}/a.safetensors", f"{tmp}/c.safetensors")
    need(kerf.t2(f"{tmp}/a.safetensors", "int8") == kerf.t2(f"{tmp}/b.safetensors", "int8"), "F64 is not F32 rounded")
    kerf("dequantize", f"{tmp}/c.safetensors", "-o", f"{tmp}/d.safetensors")
    need(read(f"{tmp}/d.safetensors")[L + "mlp.up_proj.weight"][0] == "F32", "what was F64 comes back as F32")
    kerf("verify", f"{tmp}/a.safetensors", f"{tmp}/d.safetensors", "--by-value", says="passed: 1 tensors measured")


def case_activation_scales(kerf, tmp):
    """Scales of inputs and caches go with what is decoded; NaN and zeros in them are found."""
    up = L + "mlp.up_proj"
    nvfp4 = [(up + ".weight", "U8", (64, 64), [0x21] * 4096), (up + ".weight_scale", "F8_E4M3", (64, 8)), (up + ".weight_scale_2", "F32", (), [0.01])]
    scales = [(up + ".input_scale", "F32", (), [0.02]), (L + "self_attn.k_proj.k_scale", "F32", (), [1.0])]
    config = {"model_type": "llama", "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {}, "ignore": []}}
    folder = model(f"{tmp}/good", nvfp4 + scales, **config)
    kerf("dequantize", folder, "-o", f"{tmp}/dense")
    need(list(read(f"{tmp}/dense/model.safetensors")) == [up + ".weight"], "scales stay in a dense output")
    kerf("verify", folder, f"{tmp}/dense")
    for name, value in (("nan", math.nan), ("negative", -1.0), ("zero", 0.0)):
        bad = model(f"{tmp}/{name}", nvfp4 + [scales[0], (L + "self_attn.v_proj.v_scale", "F32", (), [value])], **config)
        kerf("inspect", bad, code=1, says="v_scale: is")
    zeros = model(f"{tmp}/zeros", [nvfp4[0], (up + ".weight_scale", "F8_E4M3", (64, 8), [0] * 512), *nvfp4[2:], *scales], **config)
    kerf("inspect", zeros, code=1, says="all 512 scales are zero")


# --- what is ruined ------------------------------------------------------------------------------
def case_outlier(kerf, tmp):
    v = numbers(64 * H)
    v[0] = 3e4
    write(f"{tmp}/a.safetensors", [(L + "mlp.up_proj.weight", "F32", (64, H), v)])
    kerf("score", f"{tmp}/a.safetensors", "-f", "nvfp4,int8", says="weights become zero; an outlier has taken all of the range")
    kerf("quantize", f"{tmp}/a.safetensors", "-f", "nvfp4", "-o", f"{tmp}/b.safetensors")
    kerf("verify", f"{tmp}/a.safetensors", f"{tmp}/b.safetensors", code=1, says="rest_t2")
    kerf("inspect", f"{tmp}/b.safetensors", says="scales are zero, and so are their weights")
    v[0] = 0.03
    write(f"{tmp}/c.safetensors", [(L + "mlp.up_proj.weight", "F32", (64, H), v)])
    kerf("quantize", f"{tmp}/c.safetensors", "-f", "nvfp4", "-o", f"{tmp}/d.safetensors")
    kerf("verify", f"{tmp}/c.safetensors", f"{tmp}/d.safetensors")


def case_limits(kerf, tmp):
    a = f"{tmp}/a.safetensors"
    write(a, [matrix(L + "mlp.up_proj.weight", 64)])
    for codec in ("nvfp4", "int8", "int4-g128", "nf4", "mxfp4", "fp8-e4m3"):
        kerf("quantize", a, "-f", codec, "-o", f"{tmp}/{codec}.safetensors")
        kerf("verify", a, f"{tmp}/{codec}.safetensors", "--exact")
    raw = bytearray(open(f"{tmp}/int8.safetensors", "rb").read())
    name = L + "mlp.up_proj.weight"
    start = raw.find(read(f"{tmp}/int8.safetensors")[name][2])
    raw[start + 77] ^= 1  # too little for a limit of error
    open(f"{tmp}/bit.safetensors", "wb").write(raw)
    kerf("verify", a, f"{tmp}/bit.safetensors")
    kerf("verify", a, f"{tmp}/bit.safetensors", "--exact", code=1, says="byte 77 of its codes differs first")
    for i in range(start, start + 2000):
        raw[i] ^= 0x60
    open(f"{tmp}/noise.safetensors", "wb").write(raw)
    kerf("verify", a, f"{tmp}/noise.safetensors", code=1, says="over its limit")
    with open(f"{tmp}/none.json", "w") as f:
        f.write('{"schema": "kerf.limits/1", "tensors": {"*gate_proj*": {"t2": 0.1}}}')
    kerf("verify", a, f"{tmp}/int8.safetensors", "--limits", f"{tmp}/none.json", code=3, says="--write-limits FILE writes some that do")
    kerf("verify", a, f"{tmp}/int8.safetensors", "--write-limits", f"{tmp}/some.json")
    kerf("verify", a, f"{tmp}/int8.safetensors", "--limits", f"{tmp}/some.json")


def case_nothing(kerf, tmp):
    """Where nothing qualifies the table is shown, with a reason for each."""
    write(f"{tmp}/a.safetensors", [("model.norm.weight", "BF16", (H,)), ("model.embed_tokens.weight", "BF16", (512, H))])
    kerf("quantize", f"{tmp}/a.safetensors", "-f", "nvfp4", "-n", says="kept (embedding)")
    kerf("quantize", f"{tmp}/a.safetensors", "-f", "nvfp4", "-o", f"{tmp}/b", code=2, says="is kept (embedding); --dry-run shows")


# --- files and folders ---------------------------------------------------------------------------
def case_downloads(kerf, tmp):
    for name, text, says in (("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 16400\n", "git lfs pull"),
                             ("page", "<!DOCTYPE html><html>" + "x" * 500, "an HTML page"), ("html", "<html>\n" + "x" * 500, "an HTML page")):
        with open(f"{tmp}/{name}.safetensors", "w") as f:
            f.write(text)
        kerf("inspect", f"{tmp}/{name}.safetensors", code=3, says=says)


def shards(folder, names=("model-00001-of-00002", "model-00002-of-00002")):
    os.makedirs(folder, exist_ok=True)
    for i, n in enumerate(names):
        write(f"{folder}/{n}.safetensors", [matrix(f"model.layers.{i}.mlp.up_proj.weight")])


def case_folders(kerf, tmp):
    for names in (("model-00001-of-00002", "model-00002-of-00002"), ("diffusion_pytorch_model-00001-of-00002", "diffusion_pytorch_model-00002-of-00002"),
                  ("consolidated",), ("diffusion_pytorch_model",)):
        folder = f"{tmp}/{names[0]}"
        shards(folder, names)
        need(len(kerf.json("inspect", folder)["weights"]) == len(names), f"{names}: not all shards are read")
        kerf("quantize", folder, "-f", "nvfp4", "-o", folder + "-out")
        kerf("verify", folder, folder + "-out")
    os.remove(f"{tmp}/model-00001-of-00002/model-00002-of-00002.safetensors")
    kerf("inspect", f"{tmp}/model-00001-of-00002", code=3, says="model-00002-of-00002.safetensors) is not there")
    left = f"{tmp}/left"
    shards(left)
    index = f"{left}/model.safetensors.index.json"
    with open(index, "w") as f:
        f.write('{"weight_map": {"model.layers.0.mlp.up_proj.weight": "model-00001-of-00002.safetensors"}}')
    kerf("quantize", left, "-f", "nvfp4", "-o", f"{tmp}/x", code=3, says=f"mv {index} {index}.old")
    os.rename(index, index + ".old")  # as the message says
    need(len(kerf.json("inspect", left)["weights"]) == 2, "the shard is still left out")
    for part in ("transformer", "vae"):
        write(f"{tmp}/pipe/{part}/diffusion_pytorch_model.safetensors", [matrix("blocks.0.attn.to_q.weight")])
    with open(f"{tmp}/pipe/model_index.json", "w") as f:
        f.write("{}")
    kerf("inspect", f"{tmp}/pipe", code=3, says=f"give one of them, as {tmp}/pipe/transformer")
    kerf("inspect", f"{tmp}/pipe/transformer")


def case_hub(kerf, tmp):
    hub = f"{tmp}/hub/models--org--name"
    shards(f"{hub}/snapshots/abc123")
    os.makedirs(f"{hub}/refs")
    with open(f"{hub}/refs/main", "w") as f:
        f.write("abc123")
    for name in ("org/name", "models--org--name"):
        kerf("inspect", name, env={"HF_HUB_CACHE": f"{tmp}/hub"}, says="2 tensors in 2 files")
    kerf("inspect", hub, says="2 tensors in 2 files")
    shutil.copytree(f"{hub}/snapshots/abc123", f"{hub}/snapshots/def456")
    kerf("inspect", hub, says="2 tensors in 2 files")
    os.remove(f"{hub}/refs/main")
    kerf("inspect", hub, code=3, says="give one of them, as abc123")
    kerf("inspect", "no/body", code=4, env={"HF_HUB_CACHE": f"{tmp}/hub"})


# --- configurations ------------------------------------------------------------------------------
def case_predict(kerf, tmp):
    def ask(config, *args):
        model(f"{tmp}/c", [matrix("a.weight")], **config)
        return kerf.json("predict", "--hardware", "h200", "--model", f"{tmp}/c", *args)

    mistral = dict(model_type="mistral", hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                   num_key_value_heads=8, vocab_size=32000, sliding_window=4096)
    p = ask(mistral, "-f", "bf16", "--batch", "32", "--context", "32768")["predictions"][0]
    need(p["cache_bytes"] == 32 * 32 * 4096 * 2 * 8 * 128 * 2, f"the cache is {p['cache_bytes']}")
    need(is_near(p["crossover_tokens"], 3390, 0.01), "below its window a model without one")
    alone = ask(mistral, "-f", "bf16", "--batch", "1")["predictions"][0]
    need(alone["crossover_tokens"] is None, "a cache that windows bound never outgrows the weights")
    short = ask(mistral, "-f", "bf16", "--batch", "1", "--context", "1000")["predictions"][0]
    need(short["cache_bytes"] == 32 * 1000 * 2 * 8 * 128 * 2, f"the cache is {short['cache_bytes']}")
    sizes = dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, vocab_size=32000, intermediate_size=11008)
    known = ask({**sizes, "model_type": "llama"}, "-f", "bf16")
    same = ask({**sizes, "model_type": "phi3"}, "-f", "bf16")
    need(known["parameters"] == same["parameters"] and not same["estimated"], "phi3 is a Llama under another name")
    other = ask({**sizes, "model_type": "never_heard_of"}, "-f", "bf16")
    need(other["estimated"] and other["parameters"] == known["parameters"], "an estimate from sizes")
    layers = {**sizes, "sliding_window": 1024}
    full = 32 * 8192 * 2 * 4096 * 2  # bytes of the cache of 8,192 tokens

    def cache(**config):
        return ask({**layers, **config}, "-f", "bf16", "--context", "8192")["predictions"][0]["cache_bytes"] / full

    latent = dict(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128)
    chunked = dict(sliding_window=None, attention_chunk_size=2048, num_local_experts=4, num_experts_per_tok=1)
    for share, config in (
            (1 - 0.75 * 7 / 8, dict(model_type="exaone4", sliding_window_pattern="LLLG")), (1, dict(model_type="gemma3_text", sliding_window_pattern=1)),
            (1 - 0.75 * 7 / 8, dict(model_type="cohere2", sliding_window_pattern=4)), (1 / 8, dict(model_type="mistral", sliding_window=1024.0)),
            (1 - 0.5 * 7 / 8, dict(model_type="new", hybrid_layer_pattern=[0, 1] * 16)), (1, dict(model_type="new", use_sliding_window=False, layer_types=["sliding_attention"] * 32)),
            (1 - 0.75 * 3 / 4, dict(model_type="llama4_text", **chunked)), (1 - 0.5 * 3 / 4, dict(model_type="llama4_text", no_rope_layers=[1, 0] * 16, **chunked)),
            (1 - 0.75 * 3 / 4, dict(model_type="llama4_text", layer_types=(["chunked_attention"] * 3 + ["full_attention"]) * 8, **chunked)),
            (4 / 32, dict(model_type="jamba", sliding_window=None, attn_layer_period=8, attn_layer_offset=4)), (3 / 32, dict(model_type="bamba", attn_layer_indices=[9, 18, 27])),
            (1 / 8, dict(model_type="minimax_text_01", sliding_window=None, attn_type_list=([0] * 7 + [1]) * 4)),
            (10 / 32, dict(model_type="recurrent_gemma", sliding_window=None, block_types=["recurrent", "recurrent", "attention"])),
            (576 / 8192, dict(model_type="deepseek_v32", sliding_window=None, **latent)), (576 / 8192 / 4, dict(model_type="kimi_linear", sliding_window=None, linear_attn_config={"kda_layers": list(range(24))}, **latent))):
        need(is_near(cache(**config), share, 1e-6), f"{config}: a cache of {cache(**config)}, not {share}")
    experts = dict(model_type="llama4_text", num_local_experts=16, num_experts_per_tok=1, intermediate_size_mlp=8192)
    every, half = (ask({**sizes, **experts, "interleave_moe_layer_step": n}, "-f", "bf16")["parameters"] for n in (1, 2))
    need(is_near(every - half, 16 * (17 * 11008 - 8192) * 3 * 4096, 0.001), "half of the layers have experts")
    several = ask({**sizes, "model_type": "gemma3n_text", "intermediate_size": [11008] * 32}, "-f", "bf16")
    need(several["parameters"] == other["parameters"], "one size for each layer, and the same in all")
    chatglm = ask(dict(model_type="chatglm", hidden_size=4096, ffn_hidden_size=13696, num_layers=28, num_attention_heads=32, multi_query_attention=True,
                       multi_query_group_num=2, padded_vocab_size=65024), "-f", "bf16")
    need(is_near(chatglm["parameters"], 6.244e9, 0.001), f"ChatGLM3 has {chatglm['parameters']}")


# --- no circle in advice -------------------------------------------------------------------------
def case_advice_works(kerf, tmp):
    """The command that a refusal names is run, and works."""
    folder = model(f"{tmp}/dbrx", [(f"transformer.blocks.0.ffn.experts.mlp.{n}", "BF16", (4 * 64, 256)) for n in ("w1", "v1", "w2")]
                   + [("transformer.blocks.0.ffn.router.layer.weight", "BF16", (4, 256)), matrix("transformer.blocks.0.norm_attn_norm.attn.out_proj.weight", 256, 256)],
                   model_type="dbrx", d_model=256)
    kerf("advise", folder, "--budget", "5bits", "-f", "nvfp4", "-o", f"{tmp}/r.json")
    kerf("quantize", folder, "--recipe", f"{tmp}/r.json", "--layout", "compressed-tensors", "-o", f"{tmp}/x", code=2,
         says="a recipe that fits: kerf advise --layout compressed-tensors")
    kerf("advise", folder, "--layout", "compressed-tensors", "--budget", "14bits", "-f", "nvfp4", "-o", f"{tmp}/s.json")
    kerf("quantize", folder, "--recipe", f"{tmp}/s.json", "-o", f"{tmp}/ct")
    need(kerf.json("inspect", f"{tmp}/ct")["weights"][-1]["layout"] == "compressed-tensors", "the recipe's layout is not taken")
    kerf("advise", folder, "--layout", "modelopt", "--budget", "14bits", "-f", "nvfp4,int8", "-o", f"{tmp}/m.json")
    kerf("quantize", folder, "--recipe", f"{tmp}/m.json", "-o", f"{tmp}/mo1")  # which names one format for all
    plain = model(f"{tmp}/plain", [matrix(L + f"self_attn.{n}_proj.weight") for n in "qkv"], model_type="llama")
    kerf("quantize", plain, "-f", "nvfp4", "-o", f"{tmp}/own")
    kerf("quantize", plain, "-f", "nvfp4", "--layout", "modelopt", "-o", f"{tmp}/mo")
    kerf("quantize", f"{tmp}/mo", "-f", "int8", "-o", f"{tmp}/x", code=3, says="convert it first, or ask for --layout modelopt")
    kerf("convert", f"{tmp}/mo", "--layout", "kerf", "-o", f"{tmp}/converted")
    kerf("quantize", plain, "-f", "nvfp4", "-o", f"{tmp}/own", code=4, says="-y replaces it")
    kerf("quantize", plain, "-f", "nvfp4", "-o", f"{tmp}/own", "-y")


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
