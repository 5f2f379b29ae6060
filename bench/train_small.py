"""Trains a small Llama (8 layers, hidden 512, 8 heads over 4 key heads, 24 million parameters) in some
minutes on a GPU, so that what is measured on tests/data/tiny-llama can be measured on a second model.

    python3 bench/train_small.py OUT [--seconds 150] [--layers 8] [--megabytes 150] [--device cuda]

Trained on what the machine itself has: the Python sources with their docstrings, Markdown, reStructuredText and
plain text (.py .pyi .md .rst .txt) below Python's own folders and /usr/share, each file once, those of 300
bytes to 1 MB in UTF-8. The hash of a file's text says what it is for: 2 of 100 files to calibrate, 2 to
judge, the others to train; so nothing that is judged was seen. Vocabulary: 4,096 byte-level BPE tokens, made
from the same training files. The seed is fixed, but the text is the machine's and the learning rate follows
the clock: another run gives another model of the same kind.

Writes OUT/config.json, model.safetensors (BF16), tokenizer.json, eval.u16 (256 rows of 256 tokens: 0 to 127 from
the files to calibrate, 128 to 255 from those to judge) and meta.json. Needs torch, tokenizers, safetensors.
"""
import argparse
import hashlib
import json
import math
import os
import site
import sys
import sysconfig
import time

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional as F

LENGTH, VOCAB = 256, 4096
KINDS = (".py", ".pyi", ".md", ".rst", ".txt")


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--seconds", type=float, default=150)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--megabytes", type=float, default=150)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--device", default="cuda")
    return p.parse_args()


# --- text ----------------------------------------------------------------------------------------
def files():
    roots = {*site.getsitepackages(), sysconfig.get_path("stdlib"), "/usr/share", "/usr/lib/python3"}
    for root in sorted(roots):
        for folder, inside, names in os.walk(root):
            inside.sort()
            yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(KINDS))


def texts(limit):
    """The texts to train, to calibrate and to judge, `limit` bytes together, in an order by chance."""
    found, total = {}, 0
    paths = list(files())
    np.random.default_rng(1).shuffle(paths)
    for path in paths:
        try:
            if os.path.islink(path) or not 300 <= os.path.getsize(path) <= 1 << 20:
                continue
            with open(path, "rb") as f:
                data = f.read()
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        key = hashlib.sha256(data).digest()
        if key not in found:
            found[key] = text
            total += len(data)
        if total > limit:
            break
    parts = {"train": [], "calibrate": [], "judge": []}
    for key, text in found.items():
        at = key[0] * 256 + key[1]
        parts["judge" if at % 100 < 2 else "calibrate" if at % 100 < 4 else "train"].append(text)
    return parts


def make_tokenizer(some):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(some, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<|end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def rows_of(tokenizer, some):
    """Rows of LENGTH tokens; the end of a file is token 0."""
    out = []
    for at in range(0, len(some), 2000):
        for e in tokenizer.encode_batch_fast(some[at:at + 2000]):
            out.append(np.array([*e.ids, 0], np.uint16))
    stream = np.concatenate(out)
    return stream[:len(stream) // LENGTH * LENGTH].reshape(-1, LENGTH)


# --- model ---------------------------------------------------------------------------------------
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dim = c["head_dim"]
        wide, narrow = (c[k] * self.dim for k in ("num_attention_heads", "num_key_value_heads"))
        self.q_proj = nn.Linear(c["hidden_size"], wide, bias=False)
        self.k_proj = nn.Linear(c["hidden_size"], narrow, bias=False)
        self.v_proj = nn.Linear(c["hidden_size"], narrow, bias=False)
        self.o_proj = nn.Linear(wide, c["hidden_size"], bias=False)

    def forward(self, x, cos, sin):
        def heads(y):
            return y.view(*y.shape[:2], -1, self.dim).transpose(1, 2)

        def turn(y):
            a, b = y.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(y.dtype)

        q, k, v = turn(heads(self.q_proj(x))), turn(heads(self.k_proj(x))), heads(self.v_proj(x))
        k, v = (y.repeat_interleave(q.shape[1] // k.shape[1], 1) for y in (k, v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), Mlp(c)
        self.input_layernorm, self.post_attention_layernorm = Norm(c["hidden_size"]), Norm(c["hidden_size"])

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"])
        half = c["head_dim"] // 2
        angle = torch.outer(torch.arange(LENGTH), c["rope_theta"] ** (-torch.arange(half) / half))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, rows):
        x = self.embed_tokens(rows)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.norm(x[:, :-1]) @ self.embed_tokens.weight.T
        return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


def train(model, rows, a):
    chance = np.random.default_rng(2)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    best = 2e-3
    adam = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                              {"params": others, "weight_decay": 0.0}], lr=best, betas=(0.9, 0.95),
                             fused=a.device == "cuda")
    run = torch.compile(model) if a.device == "cuda" else model
    stock = torch.from_numpy(rows.astype(np.int32)).to(a.device)
    begin, step, losses = None, 0, []
    while True:
        done = (time.time() - begin) / a.seconds if begin else 0
        if done >= 1:
            return step, losses
        rate = best * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        for g in adam.param_groups:
            g["lr"] = rate
        at = torch.from_numpy(chance.integers(0, len(rows), a.batch)).to(a.device)
        with torch.autocast(a.device, torch.bfloat16, enabled=a.device == "cuda"):
            loss = run(stock[at].long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)
        step += 1
        if step == 2:  # what is compiled is compiled
            loss.item()
            begin = time.time()
        if step % 200 == 0:
            losses.append(loss.item())
            print(f"step {step}, {100 * done:.0f} %, loss {losses[-1]:.3f}", flush=True)


def main():
    a = arguments()
    os.makedirs(a.out, exist_ok=True)
    torch.manual_seed(1)
    parts = texts(a.megabytes * 1e6)
    count = {k: [len(v), sum(map(len, v))] for k, v in parts.items()}
    print("files and characters:", count, flush=True)
    tokenizer = make_tokenizer(parts["train"][:1500])
    tokenizer.save(os.path.join(a.out, "tokenizer.json"))
    rows = {k: rows_of(tokenizer, v) for k, v in parts.items()}
    print("rows:", {k: len(v) for k, v in rows.items()}, flush=True)
    chance = np.random.default_rng(3)
    np.concatenate([rows[k][np.sort(chance.choice(len(rows[k]), 128, replace=len(rows[k]) < 128))]
                    for k in ("calibrate", "judge")]).astype("<u2").tofile(os.path.join(a.out, "eval.u16"))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
              "intermediate_size": 1280, "num_hidden_layers": a.layers, "num_attention_heads": 8,
              "num_key_value_heads": 4, "head_dim": 64, "vocab_size": VOCAB,
              "max_position_embeddings": LENGTH, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": True, "hidden_act": "silu", "torch_dtype": "bfloat16",
              "attention_bias": False, "mlp_bias": False, "bos_token_id": 0, "eos_token_id": 0}
    model = Llama(config).to(a.device)
    size = sum(p.numel() for p in model.parameters())
    steps, losses = train(model, rows["train"], a)
    save_file({"model." + k: v.detach().bfloat16().cpu().contiguous() for k, v in model.state_dict().items()},
              os.path.join(a.out, "model.safetensors"), metadata={"format": "pt"})
    for name, what in ("config", config), ("meta", {
            "parameters": size, "files and characters": count, "rows": {k: len(v) for k, v in rows.items()},
            "steps": steps, "tokens": steps * a.batch * LENGTH, "losses": losses,
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if a.device == "cuda" else "cpu"}):
        with open(os.path.join(a.out, name + ".json"), "w") as f:
            json.dump(what, f, indent=1)
    print(f"{size} parameters, {steps} steps of {a.batch * LENGTH} tokens", file=sys.stderr)


main()
