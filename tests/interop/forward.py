"""forward.py - logits of kerf's forward pass against those of transformers, for a tiny random model
of every family: made by the library from a configuration, saved as it saves them, run by both in
float32 on the processor.

    forward.py PERPLEXITY KERF [--only NAME] [--write RESULTS.json]
    forward.py --golden tests/data/forward/golden.json     what tests/unit/test_forward.c is held against

PERPLEXITY is the program of tests/e2e; it and kerf are of one build. A case passes when no logit
differs by more than 2e-4 of the rms of all. Weights, norms, biases, sinks and routers are random and
large enough that a wrong one shows. Families that kerf writes as other layouts run from those too.
"""
import argparse
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

TOKENIZER = pathlib.Path(__file__).parents[1] / "data/tiny-llama/tokenizer.json"
LENGTH, ROWS, LIMIT = 48, 2, 2e-4
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=160, max_position_embeddings=64, pad_token_id=0,
             bos_token_id=1, eos_token_id=2, attn_implementation="eager")
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=32)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8,
              v_head_dim=24, first_k_dense_replace=1, n_routed_experts=8, n_shared_experts=1,
              routed_scaling_factor=2.5, **EXPERTS)


def rope(kind, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


PARTS = [1.0 + 0.1 * i for i in range(6)]
# name: (model_type, what is not as in SIZES, layouts to run from besides the library's own)
CASES = {
    "llama2": ("llama", dict(num_key_value_heads=4, vocab_size=2048), ["nvfp4", "gguf"]),
    "llama3": ("llama", dict(tie_word_embeddings=True, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)), []),
    "llama-linear": ("llama", rope("linear", factor=4.0), []),
    "llama-dynamic": ("llama", dict(max_position_embeddings=32, **rope("dynamic", factor=2.0)), []),
    "llama-yarn": ("llama", rope("yarn", factor=4.0, original_max_position_embeddings=16), []),
    "llama-biases": ("llama", dict(attention_bias=True, mlp_bias=True, head_dim=24), []),
    "mistral": ("mistral", dict(sliding_window=9), []),
    "qwen2": ("qwen2", dict(vocab_size=2048), ["gguf"]),
    "qwen2-window": ("qwen2", dict(use_sliding_window=True, sliding_window=7, max_window_layers=1), []),
    "qwen3": ("qwen3", dict(head_dim=32, vocab_size=2048), ["gguf"]),
    "qwen3-moe": ("qwen3_moe", dict(head_dim=32, num_experts=8, norm_topk_prob=True, vocab_size=2048, **EXPERTS), ["gguf"]),
    "qwen3-moe-dense": ("qwen3_moe", dict(head_dim=32, num_experts=8, norm_topk_prob=True, mlp_only_layers=[1], **EXPERTS), []),
    "qwen3-moe-plain": ("qwen3_moe", dict(head_dim=32, num_experts=8, norm_topk_prob=False, **EXPERTS), []),
    "mixtral": ("mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=11), ["nvfp4"]),
    "gemma": ("gemma", dict(head_dim=24), []),
    "gemma2": ("gemma2", dict(head_dim=32, sliding_window=8, query_pre_attn_scalar=48, attn_logit_softcapping=2.0, final_logit_softcapping=3.0), []),
    "gemma3": ("gemma3_text", dict(head_dim=32, sliding_window=8, num_hidden_layers=7, query_pre_attn_scalar=40), ["nvfp4"]),
    "phi3": ("phi3", dict(sliding_window=20), ["nvfp4"]),
    "phi3-longrope": ("phi3", dict(original_max_position_embeddings=32, max_position_embeddings=64, partial_rotary_factor=0.75,
        **rope("longrope", partial_rotary_factor=0.75, original_max_position_embeddings=32, short_factor=PARTS, long_factor=[2 * x for x in PARTS])), []),
    "smollm2": ("llama", dict(num_attention_heads=6, num_key_value_heads=2, hidden_size=96, tie_word_embeddings=True, **rope("default")), []),
    "smollm3": ("smollm3", dict(num_hidden_layers=5), []),
    "gpt-oss": ("gpt_oss", dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, num_hidden_layers=4), ["gpt-oss"]),
    "deepseek-v2": ("deepseek_v2", dict(q_lora_rank=None, head_dim=8, topk_method="greedy", n_group=1, topk_group=1, **LATENT), []),
    "deepseek-v2-groups": ("deepseek_v2", dict(q_lora_rank=24, head_dim=8, topk_method="group_limited_greedy", n_group=4, topk_group=2, **LATENT), []),
    "deepseek-v3": ("deepseek_v3", dict(q_lora_rank=24, n_group=4, topk_group=2, **LATENT), ["nvfp4"]),
    "deepseek-v3-yarn": ("deepseek_v3", dict(q_lora_rank=24, n_group=2, topk_group=1, rope_interleave=False,
        **rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=0.7, beta_fast=32, beta_slow=1), **LATENT), []),
}


def make(model_type, changes, folder):
    torch.manual_seed(7)
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + list(model.named_buffers()):
            if "inv_freq" in name or "embed_scale" in name or not p.is_floating_point():
                continue
            p.copy_(torch.randn_like(p) * (0.15 if p.dim() > 1 else 0.3))
            if "norm" in name and not model_type.startswith("gemma"):
                p.add_(1.0)
    model.save_pretrained(folder)
    return model


def run(program, folder, tokens, work):
    out = work / "logits"
    done = subprocess.run([program, folder, work / "tokens", "--context", str(LENGTH), "--logits", out],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return numpy.fromfile(out, dtype="<f4").reshape(ROWS, LENGTH, -1)


def reference(model, tokens):
    with torch.no_grad():
        return model(torch.from_numpy(tokens.astype(numpy.int64)), use_cache=False).logits.numpy()


def difference(ours, theirs):
    rms = float(numpy.sqrt(numpy.mean(theirs.astype(numpy.float64) ** 2)))
    if ours.shape != theirs.shape or not numpy.isfinite(ours).all():
        return float("inf")
    return float(numpy.abs(ours - theirs).max()) / rms


def from_layout(kerf, layout, model, source, work, program, tokens):
    """What kerf made of the model, run by kerf, against the same numbers run by the library: those
    of kerf dequantize, or what the library decodes."""
    target = work / ("model.gguf" if layout == "gguf" else "other")
    plain = work / "plain"
    how = {"gguf": ["-f", "ggml-q8_0", "--layout", "gguf"], "nvfp4": ["-f", "nvfp4"],
           "gpt-oss": ["-f", "mxfp4", "--layout", "gpt-oss"]}[layout]

    def kerf_makes(verb, origin, output, *options):
        subprocess.run([kerf, verb, origin, "-o", output, "-y", *options], check=True, capture_output=True)

    if layout == "gguf":
        shutil.copy(TOKENIZER, source)
    kerf_makes("quantize", source, target, *how)
    load = dict(attn_implementation="eager", dtype=torch.float32)
    ours = run(program, target, tokens, work)
    if layout == "gguf":  # the same codes in a folder that can be made dense
        target = work / "other"
        kerf_makes("quantize", source, target, "-f", "ggml-q8_0")
    if layout == "gpt-oss":  # which the library decodes itself
        load["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
        plain = target
    else:
        kerf_makes("dequantize", target, plain, "--dtype", "fp32")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(plain, **load).float().eval()
    return difference(ours, reference(theirs, tokens))


def formula(name, shape):
    """Numbers that test_forward.c makes too: a hash of the name and the index, in 24 bits."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2 ** 32
    u = (numpy.arange(numpy.prod(shape), dtype=numpy.uint64) * 2654435761 + seed) % 2 ** 32
    for _ in range(2):
        u = ((u >> 16) ^ u) * 0x45d9f3b % 2 ** 32
    u = (u >> 16) ^ u
    x = ((u >> 8).astype(numpy.float32) / numpy.float32(2 ** 24) - numpy.float32(0.5))
    return (x * numpy.float32(0.5)).reshape(shape)


def golden(path):
    from safetensors.numpy import load_file, save_file
    cases = []
    tokens = numpy.array([[(i * 37 + 11) % SIZES["vocab_size"] for i in range(LENGTH)]])
    for name, (model_type, changes, _) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            make(model_type, {**changes, "vocab_size": SIZES["vocab_size"]}, folder)
            file = pathlib.Path(folder) / "model.safetensors"
            tensors = {k: list(v.shape) for k, v in load_file(file).items()}
            save_file({k: formula(k, v) for k, v in tensors.items()}, file, metadata={"format": "pt"})
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
            logits = reference(model.eval(), tokens)[0, -1, :16]
            config = json.loads((pathlib.Path(folder) / "config.json").read_text())
            drop = ("architectures", "transformers_version", "attention_dropout", "initializer_range", "use_cache", "dtype")
            cases.append(dict(case=name, config={k: v for k, v in config.items() if k not in drop},
                              tensors=tensors, logits=[float(f"{x:.8g}") for x in logits]))
            print(name, logits[:3], flush=True)
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    pathlib.Path(path).write_text('{"schema":"kerf.forward-golden/1","transformers":"%s","tokens":%s,"cases":[\n%s\n]}\n'
                                  % (transformers.__version__, json.dumps(tokens[0].tolist(), separators=(",", ":")), lines))


def main():
    if sys.argv[1:2] == ["--golden"]:
        return golden(sys.argv[2])
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("kerf")
    parser.add_argument("--only")
    parser.add_argument("--write")
    args = parser.parse_args()
    rows, failed = [], 0
    for name, (model_type, changes, layouts) in CASES.items():
        if args.only and args.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            tokens = numpy.random.default_rng(3).integers(0, SIZES["vocab_size"], (ROWS, LENGTH))
            tokens.astype("<u2").tofile(work / "tokens")
            try:
                model = make(model_type, changes, work / "model")
                worst = difference(run(args.program, work / "model", tokens, work), reference(model, tokens))
                what = "ok" if worst <= LIMIT else "DIFFERS"
                row = dict(case=name, model_type=model_type, difference=float(f"{worst:.3g}"))
                for layout in layouts:
                    other = from_layout(args.kerf, layout, model, work / "model", work, args.program, tokens)
                    row[layout] = float(f"{other:.3g}")
                    if not other <= LIMIT:
                        what = "DIFFERS"
            except (RuntimeError, subprocess.CalledProcessError, ValueError, TypeError) as e:
                what, row = f"FAILED: {e} {getattr(e, 'stderr', b'')}", dict(case=name, error=str(e))
            rows.append(row)
            failed += what != "ok"
            print(f"{name:20} {row.get('difference', '')!s:10} {[(l, row.get(l)) for l in layouts]} {what}", flush=True)
    if args.write:
        document = dict(schema="kerf.forward/1", machine=platform.processor() or platform.machine(),
                        torch=torch.__version__, transformers=transformers.__version__, rows=ROWS, length=LENGTH,
                        limit=LIMIT, cases=rows)
        pathlib.Path(args.write).write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
