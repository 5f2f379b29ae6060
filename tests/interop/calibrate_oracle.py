"""kerf calibrate and kerf eval against transformers, on the same tokens: mean squares, Gram matrices and
largest inputs of every linear layer, largest keys and values, perplexity, KL, agreement.

    calibrate_oracle.py KERF MODEL TOKENS.u16 LENGTH CALIBRATE-ROWS JUDGE-ROWS CODEC

Rows are A:B. Exit 1 when something differs by more than it may.
"""
import json
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

kerf, model_path, tokens_path, length, calibrate, judge, codec = sys.argv[1:]
length = int(length)
torch.set_grad_enabled(False)
stream = np.fromfile(tokens_path, dtype="<u2").astype(np.int64)
rows = torch.from_numpy(stream[:len(stream) // length * length].reshape(-1, length))
failed = False


def part(text):
    a, b = text.split(":")
    return rows[int(a):int(b)]


def load(path):
    return AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32,
                                                attn_implementation="eager").eval()


def run(*words):
    return subprocess.run([kerf, *words], check=True, capture_output=True, text=True).stdout


def expect(what, got, wanted, limit):
    global failed
    worst = float(np.max(np.abs(np.asarray(got) - np.asarray(wanted)) / np.maximum(np.abs(wanted), 1e-30)))
    failed |= not worst <= limit
    print(f"{'ok' if worst <= limit else 'FAILED'}: {what}: {worst:.2e} (at most {limit:g})")


class Sums:
    def __init__(self, layer):
        self.gram, self.amax, self.n = 0, 0, 0
        layer.register_forward_pre_hook(self.take)

    def take(self, _, args):
        x = args[0].reshape(-1, args[0].shape[-1])
        self.gram = self.gram + x.double().T @ x.double()
        self.amax = max(self.amax, float(x.abs().max()))
        self.n += len(x)


def check_calibration(work):
    model = load(model_path)
    sums = {n: Sums(m) for n, m in model.model.layers.named_modules() if isinstance(m, torch.nn.Linear)}
    cache = {}
    for at in part(calibrate).split(16):
        kept = model(at, use_cache=True).past_key_values
        for i, layer in enumerate(kept.layers):
            for k, x in ("k", layer.keys), ("v", layer.values):
                cache[i, k] = max(cache.get((i, k), 0), float(x.abs().max()))
    run("calibrate", model_path, "--tokens", tokens_path, "--length", str(length), "--rows", calibrate,
        "--gram", "--alpha-by", "none", "-o", work + "/cal")
    index = json.load(open(work + "/cal/model.safetensors.index.json"))["weight_map"]
    meta, tensors = {}, {}
    for file in sorted(set(index.values())):
        with safe_open(work + "/cal/" + file, "np") as f:
            meta.update(json.loads(f.metadata()["kerf.gram_of"]))
            tensors.update({k: f.get_tensor(k) for k in f.keys()})
    worst = dict.fromkeys(("squares", "gram", "amax"), 0.0)
    for name, s in sums.items():
        name = f"model.layers.{name}.weight"
        gram = (s.gram / s.n).numpy()
        scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
        mine = tensors[meta.get(name, name) + ".gram"]
        worst["squares"] = max(worst["squares"], np.max(np.abs(tensors[name] / np.diag(gram) - 1)))
        worst["gram"] = max(worst["gram"], np.max(np.abs(mine - gram) / scale))
        worst["amax"] = max(worst["amax"], abs(tensors[name + ".amax"][0] / s.amax - 1))
    expect(f"mean squares of {len(sums)} inputs", 1 + worst["squares"], 1, 1e-5)
    expect("Gram matrices, of sqrt(g_ii g_kk)", 1 + worst["gram"], 1, 1e-5)
    expect("largest inputs", 1 + worst["amax"], 1, 1e-5)
    expect("largest keys and values", [tensors[f"model.layers.{i}.{k}_amax"][0] for i, k in cache],
           list(cache.values()), 1e-5)


def check_eval(work):
    run("quantize", model_path, "-f", codec, "-o", work + "/q")
    run("dequantize", work + "/q", "--dtype", "fp32", "-o", work + "/d")
    source, other = load(model_path), load(work + "/d")
    loss = [0.0, 0.0]
    kl, same, n = [], 0, 0
    for at in part(judge).split(16):
        both = [torch.log_softmax(m(at).logits[:, :-1].double(), -1) for m in (source, other)]
        for i in range(2):
            loss[i] -= float(both[i].gather(-1, at[:, 1:, None]).sum())
        kl.append((both[0].exp() * (both[0] - both[1])).sum(-1).flatten())
        same += int((both[0].argmax(-1) == both[1].argmax(-1)).sum())
        n += at.shape[0] * (at.shape[1] - 1)
    kl = torch.cat(kl).numpy()
    e = json.loads(run("eval", model_path, work + "/q", "--tokens", tokens_path, "--length",
                       str(length), "--rows", judge, "--json"))
    c = e["candidates"][0]
    expect("perplexity of the source", e["source"]["perplexity"], np.exp(loss[0] / n), 2e-6)
    expect(f"perplexity in {codec}", c["perplexity"], np.exp(loss[1] / n), 2e-6)
    expect("mean KL", c["kl"], kl.mean(), 1e-4)
    expect("99th percentile of KL", c["kl_p99"], np.sort(kl)[n - 1 - n // 100], 1e-3)
    expect("flips", 1 + c["flips"], 1 + 1 - same / n, 2 / n)


with tempfile.TemporaryDirectory() as folder:
    check_calibration(folder)
    check_eval(folder)
sys.exit(failed)
