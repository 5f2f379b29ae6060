#!/usr/bin/env python3
"""check_silent.py KERF [CASE...]: what must not pass without a word."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys

from files import f32, model, need, numbers, pack, read, run_cases, write, write_gguf

L = "model.layers.0."
UP = (L + "mlp.up_proj.weight", "BF16", (64, 128))


def notes(kerf, source, out, *args, code="int8"):
    return kerf.json("quantize", source, *(["-f", code] if code else []), "-o", out, "-y", *args)["notes"]


def case_kept_values(kerf, tmp):
    """NaN and Inf in tensors that are kept are copied, and said; an infinite mask is what a mask is."""
    clean = model(f"{tmp}/clean", [UP, ("model.norm.weight", "BF16", (128,))], model_type="llama")
    need(notes(kerf, clean, f"{tmp}/out") == [], "notes of a clean model")
    for name, shape in (("model.norm.weight", (128,)), ("lm_head.weight", (64, 128)), ("model.embed_tokens.weight", (64, 128)), (L + "mlp.up_proj.bias", (64,))):
        for dtype in ("F32", "BF16", "F16", "F64"):
            for value in (math.nan, math.inf, -math.inf):
                n = math.prod(shape)
                values = numbers(n)
                values[n - 1] = value
                bad = model(f"{tmp}/bad", [UP, (name, dtype, shape, values)], model_type="llama")
                said = notes(kerf, bad, f"{tmp}/out")
                need([s for s in said if "NaN or Inf" in s and name in s], f"{dtype} {value} in {name}: {said}")
    mask = model(f"{tmp}/mask", [UP, ("h.0.attn.masked_bias", "F32", (64, 64), [-math.inf] * 4096)], model_type="llama")
    need(not [s for s in notes(kerf, mask, f"{tmp}/out") if "NaN" in s], "a mask is taken for damage")


def case_zeros(kerf, tmp):
    """A weight of nothing but zeros is what is left of a download that broke off."""
    for dtype in ("BF16", "F16", "F32", "F64"):
        for code in ("nvfp4", "int8", "nf4", "fp8-e4m3", "int4-g32-asym"):
            zeros = model(f"{tmp}/m", [UP, (L + "mlp.down_proj.weight", dtype, (128, 64), [0.0] * 8192)], model_type="llama")
            said = notes(kerf, zeros, f"{tmp}/out", code=code)
            need(len([s for s in said if "zeros" in s and "down_proj" in s and "up_proj" not in s]) == 1, f"{dtype} {code}: {said}")
    one = model(f"{tmp}/one", [(L + "mlp.down_proj.weight", "F32", (128, 64), [0.0] * 8191 + [1e-30]), UP], model_type="llama")
    need(notes(kerf, one, f"{tmp}/out") == [], "one number is not nothing")
    none = model(f"{tmp}/none", [UP, (L + "mlp.down_proj.weight", "BF16", (0, 64), [])], model_type="llama")
    need(not [s for s in notes(kerf, none, f"{tmp}/out") if "zeros" in s], "no numbers are not zeros")


def case_parts(kerf, tmp):
    """A part says what it has seen, and only that."""
    norm = ("model.norm.weight", "F32", (128,), [math.nan] * 128)
    m = model(f"{tmp}/m", [(f"{L}{i}.mlp.up_proj.weight", "BF16", (64, 128)) for i in range(4)] + [norm], model_type="llama")
    said = [subprocess.run([kerf.path, "quantize", m, "-f", "int8", "-o", f"{tmp}/out/", "--shard-size", "9KB", "--part", f"{i}/2"],
                           capture_output=True, text=True, check=True).stderr for i in (1, 2)]
    need(sum("NaN or Inf" in s for s in said) == 1 and all("is finished" in s for s in said), said)
    kerf("merge", f"{tmp}/out")


def case_marks(kerf, tmp):
    """What an editor puts before JSON cannot be seen, and is named."""
    m = model(f"{tmp}/m", [UP], model_type="llama")
    recipe = json.dumps({"schema": "kerf.recipe/1", "rules": [{"tensors": ["*"], "codec": "int8"}]})
    for encoding, says in (("utf-8-sig", "byte order (BOM)"), ("utf-16", "UTF-16"), ("utf-8", None)):
        with open(f"{tmp}/r.json", "w", encoding=encoding) as f:
            f.write(recipe)
        kerf("quantize", m, "--recipe", f"{tmp}/r.json", "-n", code=3 if says else 0, says=says)


def case_idle_rules(kerf, tmp):
    """The last rule that matches counts; one that later ones leave nothing to is said."""
    m = model(f"{tmp}/m", [UP, (L + "mlp.down_proj.weight", "BF16", (128, 64))], model_type="llama")

    def recipe(*rules):
        with open(f"{tmp}/r.json", "w") as f:
            json.dump({"schema": "kerf.recipe/1", "rules": [{"tensors": [t], "codec": c} for t, c in rules]}, f)
        return kerf.json("quantize", m, "--recipe", f"{tmp}/r.json", "-n")["notes"]

    need("--recipe *down_proj* decides nothing" in recipe(("*down_proj*", "int8"), ("*", "nvfp4"))[0], "a recipe")
    need(recipe(("*", "nvfp4"), ("*down_proj*", "int8")) == [], "a rule that counts")
    need(recipe(("*down_proj*", "int8"), ("*", "int8")) == [], "the same is no loss")
    both = kerf.json("quantize", m, "-f", "int8", "--tensor", "*down*=mxfp4", "--tensor", "*up*=nvfp4", "--tensor", "*=keep", "--tensor", "*up*=nf4", "-n")["notes"]
    need("--tensor *down*=mxfp4 and others decide nothing" in both[0], both)
    need(recipe(("*up*", "int8"), ("*down*", "nvfp4")) == [], "two")
    said = kerf.json("quantize", m, "--recipe", f"{tmp}/r.json", "--tensor", "*=nf4", "-n")["notes"]
    need(said == [], "an option is there to change a recipe")


def case_patterns_and_what_is_kept(kerf, tmp):
    """"*self_attn*" means projections: norms, biases and scales among them became codes, or were refused one by one. "*mlp*" leaves the router, and says so."""
    a, e = L + "self_attn.", L + "mlp.experts.0."
    matrices = [(a + "q_proj.weight", (128, 128)), (a + "o_proj.weight", (128, 128)), (e + "up_proj.weight", (128, 128)), (e + "gate_proj.weight", (128, 128)), (e + "down_proj.weight", (128, 128))]
    kept = [(a + "q_norm.weight", (64,)), (a + "q_proj.bias", (128,)), (L + "mlp.gate.weight", (4, 128)), ("lm_head.weight", (64, 128)), ("model.norm.weight", (128,))]
    m = model(f"{tmp}/m", [(n, "BF16", s) for n, s in matrices + kept] + [(a + "q_proj.input_scale", "F32", (), [0.1])], model_type="qwen3_moe", hidden_size=128, num_experts=4)

    def taken(*rules, code="nvfp4", layout="kerf"):
        words = [w for r in rules for w in ("--tensor", r)]
        done = kerf.json("quantize", m, *(["-f", code] if code else []), *words, "-n", "--layout", layout)
        return {t["name"] for t in done["tensors"] if (t["format"] or "").startswith("int8")}, [n for n in done["notes"] if "pattern of" in n]

    for layout in ("kerf", "compressed-tensors"):
        need(taken("*self_attn*=int8", layout=layout) == ({a + "q_proj.weight", a + "o_proj.weight"}, []), f"attention, {layout}")
        need(taken("*layers.0*=int8", layout=layout)[0] == {n for n, _ in matrices}, f"a layer, {layout}")
        found, said = taken("*mlp*=int8", layout=layout)
        need(found == {n for n, _ in matrices if "mlp" in n} and len(said) == 1 and L + "mlp.gate.weight is kept" in said[0] and "--tensor *mlp*=int8" in said[0], f"{layout}: {found} {said}")
    for rule, name in (("*lm_head*", "lm_head.weight"), ("*mlp.gate.*", L + "mlp.gate.weight"), (L + "mlp.gate.weight", L + "mlp.gate.weight"), ("*q_norm*", a + "q_norm.weight"),
                       ("*.bias", a + "q_proj.bias")):
        need(taken(f"{rule}=int8") == ({name}, []), rule)
    need(taken("*mlp.gate.*=int8", "*mlp*=nf4") == ({L + "mlp.gate.weight"}, []), "a wide pattern does not take what an earlier one is for")
    need(taken("*norm*=int8")[0] == {a + "q_norm.weight", "model.norm.weight"}, "norms")
    need(taken("*=int8")[0] == {n for n, _ in matrices}, "all that -f takes")
    need(not [t for t in kerf.json("quantize", m, "-f", "int8", "--tensor", "*self_attn*=keep", "-n")["tensors"] if "self_attn" in t["name"] and t["format"]], "keep")


def case_tied_heads(kerf, tmp):
    """A model whose output head is its embedding has no tensor for it: patterns for one are answered so, and not with attn_output."""
    names = [("model.embed_tokens.weight", "BF16", (64, 128)), (L + "self_attn.o_proj.weight", "BF16", (128, 128))]
    m = model(f"{tmp}/m", names, model_type="llama", tie_word_embeddings=True)
    for glob in ("lm_head", "*lm_head*", "re:.*lm_head", "output.weight"):
        kerf("quantize", m, "-f", "nvfp4", "--keep", glob, "-n", code=2, says=f"--keep {glob} matches no tensor: the output head of this model is its embedding, model.embed_tokens.weight")
    whole = model(f"{tmp}/whole", [*names, ("lm_head.weight", "BF16", (64, 128))], model_type="llama")
    kerf("quantize", whole, "-f", "nvfp4", "--keep", "output.weight", "-n", code=2, says="matches no tensor; kerf inspect")
    kerf("quantize", whole, "-f", "nvfp4", "--keep", "*lm_head*", "-n")


def case_patterns_of_stacks(kerf, tmp):
    """A pattern for a stack of experts is one for each of them, in every file and option that takes patterns; one that matches nothing is refused by all."""
    layer = L + "mlp.experts."
    m = model(f"{tmp}/m", [(layer + "gate_up_proj", "BF16", (2, 256, 256)), (layer + "down_proj", "BF16", (2, 256, 128))], model_type="qwen3_5_moe", hidden_size=256,
              num_experts=2, moe_intermediate_size=128, num_hidden_layers=1)
    out = ["--layout", "compressed-tensors", "-o", f"{tmp}/out", "-y"]
    kerf("quantize", m, "-f", "nvfp4", *out)

    def put(name, schema, **content):
        with open(f"{tmp}/{name}", "w") as f:
            json.dump({"schema": schema, **content}, f)
        return f"{tmp}/{name}"

    advise = ("advise", m, "--budget", "6bits", "-f", "nvfp4,mxfp8-e4m3", "--layout", "compressed-tensors")
    for stack, code in ((layer + "*_proj", 0), (layer + "zzz*", 2)):
        says = "matches no tensor; kerf inspect" if code else None
        for args in (["-f", "nvfp4", "--keep", stack], ["-f", "nvfp4", "--only", stack], ["-f", "nvfp4", "--tensor", f"{stack}=nvfp4"],
                     ["--recipe", put("r.json", "kerf.recipe/1", rules=[{"tensors": [stack], "codec": "nvfp4"}])]):
            kerf("quantize", m, *args, "-n", *out[:2], code=code, says=says)
        kerf(*advise, "--alpha", put("a.json", "kerf.alpha/1", alpha={"*": 1, stack: 50}), code=code, says=says)
        limits = put("l.json", "kerf.limits/1", default={"t2": 1}, tensors={stack: {"t2": 1}})
        kerf("verify", m, f"{tmp}/out", "--limits", limits, code=code, says="match no tensor; kerf inspect" if code else None)
    losses = [kerf.json(*advise, *args)["groups"][0]["candidates"][0]["t2"] for args in ([], ["--alpha", put("a.json", "kerf.alpha/1", alpha={layer + "*_proj": 50})])]
    need(math.isclose(losses[1], 50 * losses[0], rel_tol=1e-6), losses)
    tight = put("l.json", "kerf.limits/1", default={"t2": 1}, tensors={layer + "gate_up_proj": {"t2": 1e-9}})
    rows = kerf.json("verify", m, f"{tmp}/out", "--limits", tight, code=1)["tensors"]
    need(sorted(bool(t["over"]) for t in rows if "t2" in t) == [False] * 2 + [True] * 4, rows)


def case_options_and_recipes(kerf, tmp):
    """What --keep and --only leave out, a recipe does not take: they did nothing beside one, without a word."""
    names = [L + f"mlp.{p}_proj.weight" for p in ("up", "gate", "down")]
    m = model(f"{tmp}/m", [(n, "BF16", (64, 64)) for n in names], model_type="llama")
    with open(f"{tmp}/r.json", "w") as f:
        json.dump({"schema": "kerf.recipe/1", "rules": [{"tensors": ["*"], "codec": "int8"}]}, f)
    for args, taken in ((["--keep", "*up*"], [1, 2]), (["--only", "*up*"], [0]), (["--keep", "*up*", "--tensor", "*up*=nf4"], [0, 1, 2]), ([], [0, 1, 2])):
        plan = kerf.decisions(m, "--recipe", f"{tmp}/r.json", *args)
        need([i for i, n in enumerate(names) if plan[n][0]] == taken, f"{args}: {plan}")
        kerf("quantize", m, "--recipe", f"{tmp}/r.json", *args, "-o", f"{tmp}/out", "-y")


def case_unknown_blocks(kerf, tmp):
    """Blocks that kerf does not decode are named by all, and what cannot hold them is said before anything is written."""
    source = write_gguf(f"{tmp}/m.gguf", [("blk.0.ffn_up.weight", (256, 64), 16, bytes(64 * 66)), ("blk.0.ffn_gate.weight", (256, 64), 1, pack("F16", numbers(64 * 256)))])
    for args in (["-n"], ["-n", "-o", f"{tmp}/o.gguf"], ["-o", f"{tmp}/o.gguf"]):
        said = kerf.json("quantize", source, "-f", "q4_k", *args)["notes"]
        need([s for s in said if "does not decode" in s and "blk.0.ffn_up.weight" in s and "ffn_gate" not in s], said)
    for args in (["-n"], []):
        kerf("quantize", source, "-f", "nvfp4", "-o", f"{tmp}/o.safetensors", *args, code=3, says="blk.0.ffn_up.weight: kerf does not decode blocks of type IQ2_XXS")
    kerf("dequantize", source, "-o", f"{tmp}/d.gguf", code=3, says="does not decode blocks of type IQ2_XXS")
    kerf("inspect", source, says="IQ2_XXS")
    need("does not decode" in str(kerf.json("inspect", source)["findings"]), "inspect finds nothing")
    need(sorted(os.listdir(tmp)) == ["m.gguf", "o.gguf"], os.listdir(tmp))


def case_no_importance(kerf, tmp):
    """An imatrix of zeros made a model of zeros; zeros in some columns are what ggml takes them for, and are said."""
    name = L + "mlp.up_proj.weight"
    m = model(f"{tmp}/m", [(name, "BF16", (64, 256))], model_type="llama")
    for zeros, lost in ((256, 0), (64, 1), (31, 0), (0, 0)):
        write(f"{tmp}/i.safetensors", [(name, "F32", (256,), [0.0] * zeros + [1.0 + i % 3 for i in range(256 - zeros)])])
        for code in ("q2_k", "q3_k", "q4_k", "q5_0", "q6_k", "iq4_nl", "iq4_xs"):
            said = notes(kerf, m, f"{tmp}/out", "--imatrix", f"{tmp}/i.safetensors", code=f"{code}:imatrix")
            need(len([s for s in said if name in s and "importance is 0 throughout" in s]) == (lost or (zeros == 31 and code in ("q2_k", "q3_k", "q6_k"))), f"{code} {zeros}: {said}")
            if not lost:
                kerf("verify", m, f"{tmp}/out")


def case_two_quantized(kerf, tmp):
    """Two quantized models, neither of them the source of the other: how they are compared is said."""
    m = model(f"{tmp}/m", [UP], model_type="llama")
    for code in ("nvfp4", "int4-g32"):
        kerf("quantize", m, "-f", code, "-o", f"{tmp}/{code}")
    kerf("verify", f"{tmp}/nvfp4", f"{tmp}/int4-g32", code=1, says="is int4-g32 and quantized in the source, too, as nvfp4: kerf dequantize makes a source of that")
    kerf("dequantize", f"{tmp}/nvfp4", "-o", f"{tmp}/dense")
    kerf("verify", f"{tmp}/dense", f"{tmp}/int4-g32")


def case_unused_importance(kerf, tmp):
    """An imatrix that changes nothing: the encoder that takes it is named."""
    name = L + "mlp.up_proj.weight"
    m = model(f"{tmp}/m", [(name, "BF16", (64, 256))], model_type="llama")
    write(f"{tmp}/i.safetensors", [(name, "F32", (256,), [1.0 + i % 3 for i in range(256)])])
    for code, says in (("q4_k", "q4_k:ggml does not weigh errors by it, q4_k:imatrix does"), ("int8", "no encoder of int8 weighs errors by it"), ("q4_k:imatrix", None)):
        said = [s for s in notes(kerf, m, f"{tmp}/out", "--imatrix", f"{tmp}/i.safetensors", code=code) if "changes nothing" in s]
        need(len(said) == (says is not None) and (not says or says in said[0]), f"{code}: {said}")


def case_near_the_end(kerf, tmp):
    """Weights within a step of 2^128 that codes and scales have as more: what verify counts as Inf, quantize has said."""
    for dtype, most in (("F32", f32(3.4028234e38)), ("BF16", 3.3895313892515355e38)):
        for value, ends in ((most, True), (-most, True), (most / 16, False)):
            m = model(f"{tmp}/m", [(UP[0], dtype, (256, 256), numbers(65535) + [value])], model_type="llama")
            found = set()
            for code in ("mxfp4", "mxfp4:floor", "mxfp6-e3m2", "mxfp8-e4m3", "mxfp8-e5m2", "nvfp4", "nvfp4:ct", "int8", "int8-tensor", "int4-g32", "int4-g32-asym", "int2-g16-asym", "nf4", "fp8-e4m3"):
                said = [s for s in notes(kerf, m, f"{tmp}/out", code=code) if UP[0] in s and "which are Inf now" in s]
                total = json.loads(subprocess.run([kerf.path, "verify", m, f"{tmp}/out", "--json"], capture_output=True, text=True).stdout)["total"]
                need(len(said) == (total["nonfinite"] > 0), f"{dtype} {value} {code}: {total['nonfinite']} are Inf, and {said}")
                found |= {code} if said else set()
            need(("mxfp4" in found and "mxfp4:floor" not in found) if ends else not found, found)


def case_nothing_of_much(kerf, tmp):
    """A header may claim any number of rows or matrices without elements: they are kept, whatever asks for them."""
    for shape in ((1 << 40, 0, 16), (1 << 24, 0, 64), (0, 1 << 40), (1 << 40, 0), (1 << 10, 1 << 10, 0)):
        m = model(f"{tmp}/m", [UP, (L + "mlp.down_proj.weight", "BF16", shape, [])], model_type="llama")
        for args in (["-f", "nvfp4"], ["-f", "int8", "--tensor", "*down*=nf4"], ["-f", "nvfp4", "--tensor", "*=nvfp4"]):
            done = kerf.json("quantize", m, *args, "-o", f"{tmp}/out", "-y")
            need([t["reason"] for t in done["tensors"] if "down" in t["name"]] == ["no elements"], f"{shape}: {done['tensors']}")
            kerf("verify", m, f"{tmp}/out")
            kerf("dequantize", f"{tmp}/out", "-o", f"{tmp}/dense", "-y")
        kerf("score", m, "-f", "nvfp4,int8,nf4")
        kerf("advise", m, "--budget", "5bits", "-f", "nvfp4,int8")


def case_undeclared(kerf, tmp):
    """Weights that loaders know by config.json alone, and none there to be told."""
    write(f"{tmp}/m/consolidated.safetensors", [UP])
    with open(f"{tmp}/m/params.json", "w") as f:
        f.write("{}")
    says = f"{tmp}/m has no config.json, where loaders look for how weights are quantized"
    for layout, codec in (("compressed-tensors", "int8"), ("modelopt", "nvfp4"), ("gptq", "int4-g128"), ("bitsandbytes", "nf4"), ("deepseek", "fp8-e4m3-128x128")):
        kerf("quantize", f"{tmp}/m", "-f", codec, "--layout", layout, "-o", f"{tmp}/{layout}", says=says)
    kerf("quantize", f"{tmp}/m", "-f", "int8", "--layout", "compressed-tensors", "-n", says=says)
    kerf("quantize", f"{tmp}/m/consolidated.safetensors", "-f", "int8", "--layout", "compressed-tensors", "-o", f"{tmp}/one", says="with the folder of a model as the source")
    need(not notes(kerf, f"{tmp}/m", f"{tmp}/kerf"), "its own layout stands in the files")
    need(not notes(kerf, f"{tmp}/m", f"{tmp}/one.safetensors", "--layout", "modelopt"), "a file stands alone")
    with open(f"{tmp}/m/config.json", "w") as f:
        f.write("{}")  # as it says
    need(not notes(kerf, f"{tmp}/m", f"{tmp}/modelopt", "--layout", "modelopt"), "said although it is there")
    kerf("inspect", f"{tmp}/modelopt")
    # convert says it as well, of a folder whose loaders look there, and of nothing else
    for codec, layout in (("int8", "compressed-tensors"), ("nvfp4", "modelopt"), ("int4-g128", "gptq"), ("nf4", "bitsandbytes"), ("fp8-e4m3-128x128", "deepseek")):
        for config in (True, False):
            os.path.exists(f"{tmp}/m/config.json") and os.remove(f"{tmp}/m/config.json")
            if config:
                shutil.copy(f"{tmp}/modelopt/config.json", f"{tmp}/m/config.json")
            kerf("quantize", f"{tmp}/m", "-f", codec, "-o", f"{tmp}/own", "-y")
            for out, says in ((f"{tmp}/moved", not config), (f"{tmp}/moved.safetensors", False)):
                said = [s for s in losses(kerf, f"{tmp}/own", layout, out) if "config.json" in s]
                need(len(said) == says and all("1 config.json that says how the weights are quantized" in s for s in said), f"{layout} {config} {out}: {said}")
            need(not losses(kerf, f"{tmp}/own", "kerf", f"{tmp}/moved"), "its own layout stands in the files")
            shutil.rmtree(f"{tmp}/own")
            shutil.rmtree(f"{tmp}/moved")
    kerf("quantize", f"{tmp}/m", "-f", "q4_k", "-o", f"{tmp}/o.gguf", code=3, says="there is no config.json that says which this is: convert it")


def case_names_of_mixtral(kerf, tmp):
    """Stacks as transformers 5 holds them become experts that vLLM's loader of this family does not look for."""
    def made(kind, prefix, stacked, family="mixtral"):
        experts = [(prefix + "experts.gate_up_proj", "BF16", (2, 256, 256)), (prefix + "experts.down_proj", "BF16", (2, 256, 128))] if stacked else [
            (f"{prefix}experts.{e}.{n}.weight", "BF16", (256, 128) if n == "w2" else (128, 256)) for e in range(2) for n in ("w1", "w2", "w3")]
        return model(f"{tmp}/{kind}", [(prefix + "gate.weight", "BF16", (2, 256)), *experts], model_type=family, hidden_size=256, intermediate_size=128,
                     moe_intermediate_size=128, num_hidden_layers=1, num_local_experts=2, num_experts=2, num_experts_per_tok=1)

    stacked = made("stacked", L + "mlp.", True)
    for source, layout, wanted in ((stacked, "compressed-tensors", 1), (stacked, "modelopt", 1), (stacked, "kerf", 0), (made("own", L + "block_sparse_moe.", False), "compressed-tensors", 0),
                                   (made("qwen", L + "mlp.", True, "qwen3_moe"), "compressed-tensors", 0)):
        said = [s for s in notes(kerf, source, f"{tmp}/out", "--layout", layout, code="nvfp4") if "block_sparse_moe.experts.N.w1" in s]
        need(len(said) == wanted, f"{source} {layout}: {said}")


def case_beside(kerf, tmp):
    """What a loader needs besides weights goes with them, and a pointer in the place of it is said."""
    wanted = ("tokenizer.json", "tekken.json", "qwen.tiktoken", "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json",
              "chat_template.jinja", "generation_config.json", "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json",
              "params.json", "mel_filters.npz", "source.spm", "target.spm", "rwkv_vocab_v20230424.txt", "entity_vocab.json", "SYSTEM_PROMPT.txt")
    others = ("pytorch_model.bin", "model.safetensors.index.json.bak", "quantize_config.json", "hf_quant_config.json", "adapter_config.json", "eval.u16")
    m = model(f"{tmp}/m", [UP], model_type="llama")
    for name in wanted + others:
        with open(f"{m}/{name}", "w") as f:
            f.write("{}")
    kerf("quantize", m, "-f", "nvfp4", "-o", f"{tmp}/out")
    need(sorted(os.listdir(f"{tmp}/out")) == sorted((*wanted, "config.json", "model.safetensors")), sorted(os.listdir(f"{tmp}/out")))
    for name in ("1_Pooling", "2_Dense", "additional_chat_templates", "onnx"):
        os.makedirs(f"{m}/{name}")
        with open(f"{m}/{name}/config.json", "w") as f:
            f.write("{}")
    with open(f"{m}/modules.json", "w") as f:
        json.dump([{"idx": 0, "path": ""}, {"idx": 1, "path": "1_Pooling"}, {"idx": 2, "path": "2_Dense"}, {"idx": 3, "path": "3_None"},
                   {"idx": 4, "path": "../m"}, {"path": 7}, "x"], f)
    said = notes(kerf, m, f"{tmp}/out")
    need(len(said) == 1 and said[0].startswith("3 folders beside the weights, which loaders read, are not copied: cp -r "), said)
    subprocess.run(said[0].split("copied: ")[1], shell=True, check=True)
    need(sorted(n for n in os.listdir(f"{tmp}/out") if os.path.isdir(f"{tmp}/out/{n}")) == ["1_Pooling", "2_Dense", "additional_chat_templates"], said)
    need(not notes(kerf, m, f"{tmp}/out.safetensors"), "a single file has no folder")
    for name in ("1_Pooling", "2_Dense", "additional_chat_templates", "onnx"):
        shutil.rmtree(f"{m}/{name}")
        shutil.rmtree(f"{tmp}/out/{name}", ignore_errors=True)
    with open(f"{m}/modules.json", "w") as f:
        f.write("{}")
    for name in ("tokenizer.json", "tekken.json", "tokenizer.model"):
        with open(f"{m}/{name}", "w") as f:
            f.write("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 16400\n")
        said = notes(kerf, m, f"{tmp}/out")
        need(len(said) == 1 and said[0].startswith(f"{name} ") and "git lfs pull" in said[0], said)
        with open(f"{m}/{name}", "w") as f:
            f.write("{}")
    need(notes(kerf, m, f"{tmp}/out") == [], "notes of whole files")


def case_examples(kerf, tmp):
    """What --help shows works where it is typed, with a model and no more than what the examples before have written."""
    needs = ("gguf", "--part", "merge", "imatrix", "--calibration", "-nf4", "--measure", "restored", "--device", "out.kerf")
    home = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/tiny-llama")
    for name in ("model", "llama"):
        shutil.copytree(home, f"{tmp}/{name}")
    for name in ("model.safetensors", "config.json"):
        shutil.copy(f"{home}/{name}", tmp)
    os.makedirs(f"{tmp}/bin")
    os.symlink(kerf.path, f"{tmp}/bin/kerf")
    env = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
    env["PATH"] = f"{tmp}/bin:{env['PATH']}"
    tried = 0
    for verb in ("quantize", "inspect", "dequantize", "verify", "score", "advise", "predict", "hardware", "formats"):
        text = subprocess.run([kerf.path, verb, "--help"], capture_output=True, text=True, check=True).stdout
        for line in text.split("Examples:\n")[1].splitlines() if "Examples:\n" in text else text.split("Example:\n")[1].splitlines():
            if not line.startswith("  kerf ") or any(n in line for n in needs):
                continue
            shutil.rmtree(f"{tmp}/out", ignore_errors=True)
            if "-o recipe.json" in line and os.path.exists(f"{tmp}/recipe.json"):
                os.remove(f"{tmp}/recipe.json")
            r = subprocess.run(line.split(" | jq")[0], shell=True, cwd=tmp, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
            need(r.returncode == 0, f"{line}: {r.returncode}: {r.stderr[-300:]}")
            tried += 1
    need(tried >= 25, f"{tried} examples")


def losses(kerf, source, layout, out):
    return kerf.json("convert", source, "--layout", layout, "-o", out, "-y")["losses"]


def case_merged_scales(kerf, tmp):
    """Of layers that loaders merge the last alone may have another scale, which is a loss as well."""
    values = numbers(64 * 128)
    for name, last, groups in (("same", values, 0), ("other", [2 * x for x in values], 1)):
        parts = [(f"{L}self_attn.{p}_proj.weight", "F32", (64, 128), v) for p, v in (("k", values), ("q", values), ("v", last))]
        kerf("quantize", model(f"{tmp}/{name}", parts, model_type="llama"), "-f", "nvfp4", "-o", f"{tmp}/q-{name}")
        said = losses(kerf, f"{tmp}/q-{name}", "modelopt", f"{tmp}/out")
        need([s.split()[0] for s in said if "groups of layers" in s] == ["1"] * groups, f"{name}: {said}")


def turns_back(x):
    """Whether x is the reciprocal of some float32."""
    y = struct.unpack("<I", struct.pack("<f", 1 / x))[0]
    near = [struct.unpack("<f", struct.pack("<I", y + i))[0] for i in (-2, -1, 0, 1, 2)]
    return any(f32(1 / z) == x for z in near)


def case_reciprocals(kerf, tmp):
    """A scale of inputs that is no reciprocal of a float32 is said to come back as another number."""
    up = L + "mlp.up_proj"
    nvfp4 = [(up + ".weight", "U8", (64, 64), [0x21] * 4096), (up + ".weight_scale", "F8_E4M3", (64, 8)), (up + ".weight_scale_2", "F32", (), [0.5])]
    config = {"model_type": "llama", "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {}, "ignore": []}}
    tried = [f32(1.75 + i / 997) for i in range(40)]
    for x in (next(x for x in tried if turns_back(x)), next(x for x in tried if not turns_back(x))):
        source = model(f"{tmp}/source", [*nvfp4, (up + ".input_scale", "F32", (), [x])], **config)
        said = losses(kerf, source, "compressed-tensors", f"{tmp}/out")
        need([s.split()[0] for s in said] == ([] if turns_back(x) else ["1"]), f"{x}: {said}")
        losses(kerf, f"{tmp}/out", "modelopt", f"{tmp}/back")
        same = read(f"{tmp}/back/model.safetensors")[up + ".input_scale"][2] == pack("F32", [x])
        need(same == turns_back(x), f"{x} comes back: {same}")

    # So are tensor scales of programs that store reciprocals: what is said is what comes back.
    kinds = set()
    theirs = {n: [d, s, struct.unpack("<f", raw) if d == "F32" else list(raw)] for n, (d, s, raw) in read(f"{tmp}/out/model.safetensors").items() if "input" not in n}
    for x in tried[:12]:
        theirs[up + ".weight_global_scale"][2] = [x]
        write(f"{tmp}/out/model.safetensors", [(n, *t) for n, t in theirs.items()])
        said = losses(kerf, f"{tmp}/out", "modelopt", f"{tmp}/back")
        losses(kerf, f"{tmp}/back", "compressed-tensors", f"{tmp}/again")
        same = read(f"{tmp}/again/model.safetensors")[up + ".weight_global_scale"][2] == pack("F32", [x])
        need([s.split()[0] for s in said] == ([] if same else ["1"]), f"{x} comes back: {same}, and {said}")
        kinds.add(same)
    need(kinds == {True, False}, kinds)


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
