"""A Llama in float32 in torch, and what a changed copy of it loses: perplexity, KL, flips. It owns the
second way to judge of advice_calibrated.py (--torch), for models that kerf eval would need hours for on a
processor: weights that kerf decoded, everything else as tests/interop/calibrate_oracle.py compares it."""
import json
import math
import os

import numpy as np
import torch
from safetensors.torch import load_file

AT_ONCE = 16  # rows


class Judge:
    def __init__(self, folder, tokens, length):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_grad_enabled(False)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        with open(os.path.join(folder, "config.json")) as f:
            self.c = json.load(f)
        self.w = self.load(os.path.join(folder, "model.safetensors"))
        self.length, self.source = length, {}
        stream = np.fromfile(tokens, "<u2").astype(np.int64)
        self.rows = torch.from_numpy(stream[:len(stream) // length * length].reshape(-1, length)).to(self.device)
        dim = self.c.get("head_dim") or self.c["hidden_size"] // self.c["num_attention_heads"]
        angle = torch.outer(torch.arange(length).double(),
                            self.c["rope_theta"] ** (-torch.arange(0, dim, 2).double() / dim))
        self.dim, self.cos, self.sin = dim, angle.cos().float().to(self.device), angle.sin().float().to(self.device)

    def load(self, path, names=None):
        w = load_file(path)
        return {k: w[k].float().to(self.device) for k in (names or w)}

    def norm(self, x, w):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.c["rms_norm_eps"]) * w

    def turn(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], -1)

    def layer(self, x, i, changed):
        def w(name):
            name = f"model.layers.{i}.{name}.weight"
            return changed.get(name, self.w[name])

        def heads(y):
            return y.view(len(x), self.length, -1, self.dim).transpose(1, 2)

        h = self.norm(x, w("input_layernorm"))
        q, k, v = (heads(h @ w(f"self_attn.{n}_proj").T) for n in "qkv")
        q, k = self.turn(q), self.turn(k)
        k, v = (y.repeat_interleave(q.shape[1] // k.shape[1], 1) for y in (k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.transpose(1, 2).flatten(2) @ w("self_attn.o_proj").T
        m = self.norm(x, w("post_attention_layernorm"))
        return x + (torch.nn.functional.silu(m @ w("mlp.gate_proj").T) * (m @ w("mlp.up_proj").T)) \
            @ w("mlp.down_proj").T

    def said(self, rows, changed):
        """Logarithms of the next tokens' probabilities."""
        x = self.w["model.embed_tokens.weight"][rows]
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(x, i, changed)
        head = self.w.get("lm_head.weight", self.w["model.embed_tokens.weight"])
        return torch.log_softmax(self.norm(x[:, :-1], self.w["model.norm.weight"]) @ head.T, -1)

    def measure(self, changed, part):
        """As kerf eval --json says it of a candidate, over rows A:B."""
        a, b = map(int, part.split(":"))
        loss, kl, flips = 0.0, [], 0
        for at in range(a, b, AT_ONCE):
            rows = self.rows[at:min(b, at + AT_ONCE)]
            if at not in self.source:
                self.source[at] = self.said(rows, {})
            p, q = self.source[at][:len(rows)], self.said(rows, changed)
            loss -= q.gather(-1, rows[:, 1:, None]).double().sum().item()
            kl.append((p.exp() * (p - q)).sum(-1, dtype=torch.float64))
            flips += (p.argmax(-1) != q.argmax(-1)).sum().item()
        kl = torch.cat(kl).cpu().numpy()
        of_rows, chance = kl.mean(1), np.random.default_rng(1)
        again = [of_rows[chance.integers(0, len(kl), len(kl))].mean() for _ in range(1000)]
        return {"perplexity": math.exp(loss / kl.size), "kl": kl.mean(), "flips": flips / kl.size,
                "kl_interval": list(np.quantile(again, [0.025, 0.975])), "kl_p99": np.quantile(kl, 0.99)}
