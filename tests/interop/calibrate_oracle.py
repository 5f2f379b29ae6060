"""kerf calibrate and kerf eval against transformers, on the same tokens: mean squares, Gram matrices and
largest inputs of every linear layer, largest keys and values, perplexity, KL, agreement; and what rounded
inputs and an FP8 cache cost, rounded here by hooks and a cache of our own.

    calibrate_oracle.py KERF MODEL TOKENS.u16 LENGTH CALIBRATE-ROWS JUDGE-ROWS CODEC [EVAL-OPTION...]

Rows are A:B; the options are for kerf eval, --device cuda for one. Exit 1 when something differs by more
than it may.
"""
import json
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, DynamicCache

kerf, model_path, tokens_path, length, calibrate, judge, codec, *options = sys.argv[1:]
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


def compare(source, other):
    """Perplexities of both, KL of each prediction in rising order, and how many have one top token."""
    loss, kl, same, n = [0.0, 0.0], [], 0, 0
    for at in part(judge).split(16):
        both = [torch.log_softmax(m(at).double(), -1) for m in (source, other)]
        for i in range(2):
            loss[i] -= float(both[i].gather(-1, at[:, 1:, None]).sum())
        kl.append((both[0].exp() * (both[0] - both[1])).sum(-1).flatten())
        same += int((both[0].argmax(-1) == both[1].argmax(-1)).sum())
        n += at.shape[0] * (at.shape[1] - 1)
    return np.exp(loss[0] / n), np.exp(loss[1] / n), np.sort(torch.cat(kl).numpy()), same


def plain(model):
    return lambda at: model(at).logits[:, :-1]


def check_eval(work):
    run("quantize", model_path, "-f", codec, "-o", work + "/q")
    run("dequantize", work + "/q", "--dtype", "fp32", "-o", work + "/d")
    own, other, kl, same = compare(plain(load(model_path)), plain(load(work + "/d")))
    n = len(kl)
    e = evaluate(work + "/q")
    c = e["candidates"][0]
    expect("perplexity of the source", e["source"]["perplexity"], own, 2e-6)
    expect(f"perplexity in {codec}", c["perplexity"], other, 2e-6)
    expect("mean KL", c["kl"], kl.mean(), 1e-4)
    expect("99th percentile of KL", c["kl_p99"], kl[n - 1 - n // 100], 1e-3)
    expect("flips", 1 + c["flips"], 1 + 1 - same / n, 2 / n)


def evaluate(path):
    return json.loads(run("eval", model_path, path, "--tokens", tokens_path, "--length", str(length),
                          "--rows", judge, "--json", *options))


# --- rounding -----------------------------------------------------------------------------------------------

MIDDLES = torch.tensor([.25, .75, 1.25, 1.75, 2.5, 3.5, 5], dtype=torch.float64)
NUMBERS = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
ODD = torch.arange(7) % 2 == 1  # in the middle the even code is taken


def e2m1(x):
    a = x.abs()[..., None]
    return NUMBERS[((a > MIDDLES) | ((a == MIDDLES) & ODD)).sum(-1)] * x.sign()


def e4m3(x):
    return x.clamp(-448, 448).float().to(torch.float8_e4m3fn).double()


def as_nvfp4(x, scale):
    blocks = x.double().reshape(-1, 16)
    of_block = e4m3(blocks.abs().amax(-1, keepdim=True) / 6 / scale) * scale
    codes = e2m1(torch.where(of_block > 0, blocks / of_block, 0))
    return (codes * of_block).reshape(x.shape).to(x.dtype)


def as_fp8(x, scale):
    return (e4m3(x.double() / scale) * scale).to(x.dtype)


def as_fp8_tokens(x, _):
    scale = x.double().abs().amax(-1, keepdim=True) / 448
    return torch.where(scale > 0, e4m3(x.double() / scale) * scale, 0).to(x.dtype)


class Fp8Cache(DynamicCache):
    def __init__(self, scales):
        super().__init__()
        self.scales = scales

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        k, v = self.scales[layer_idx]
        return super().update(as_fp8(key_states, k), as_fp8(value_states, v), layer_idx, *args, **kwargs)


def check_rounding(work, codec, layout, by, kv):
    name = f"{work}/{codec}-{layout}"
    asked = ["--calibration", work + "/cal", "--input-scales", "--kv", "fp8-e4m3"] if kv else []
    run("quantize", model_path, "-f", codec, "--layout", layout, "-o", name, *asked)
    run("dequantize", name, "--dtype", "fp32", "-o", name + "-d")
    model, scales, cached = load(name + "-d"), {}, {}
    with safe_open(name + "/model.safetensors", "pt") as f:
        scales = {k: float(f.get_tensor(k)) for k in f.keys() if k.endswith(("input_scale", ".k_scale", ".v_scale"))}
    for n, m in model.model.layers.named_modules():
        if isinstance(m, torch.nn.Linear):
            scale = scales.get(f"model.layers.{n}.input_scale")
            m.register_forward_pre_hook(lambda _, args, s=scale: (by(args[0], s), *args[1:]))
    for i in range(len(model.model.layers) if kv else 0):
        cached[i] = [scales[f"model.layers.{i}.self_attn.{c}_proj.{c}_scale"] for c in "kv"]

    def rounded(at):
        cache = {"past_key_values": Fp8Cache(cached), "use_cache": True} if kv else {}
        return model(at, **cache).logits[:, :-1]

    # What is rounded is not continuous: a state that differs in its last place is rounded to another
    # number now and then. How much that comes to is seen in the same model in float64.
    source = plain(load(model_path))
    _, other, kl, _ = compare(source, rounded)
    model.double()
    _, twin, kl_twin, _ = compare(source, rounded)
    c = evaluate(name)["candidates"][0]
    what = f"{codec} in {layout}, {'inputs and cache' if kv else 'inputs'}"
    print(f"    float64 beside float32: perplexity {twin / other - 1:.1e}, KL {kl_twin.mean() / kl.mean() - 1:.1e}")
    expect(f"perplexity in {what}", c["perplexity"], other, 5e-3)
    expect(f"mean KL in {what}", c["kl"], kl.mean(), 2e-2)
    weights = json.loads(run("eval", model_path, name, "--tokens", tokens_path, "--length", str(length), "--rows",
                             judge, "--json", "--weights-only", *options))["candidates"][0]
    print(f"    KL {c['kl']:.5f} here {kl.mean():.5f}, by weights alone {weights['kl']:.5f}")


with tempfile.TemporaryDirectory() as folder:
    check_calibration(folder)
    check_eval(folder)
    check_rounding(folder, "nvfp4", "modelopt", as_nvfp4, True)
    check_rounding(folder, "fp8-e4m3", "modelopt", as_fp8, True)
    check_rounding(folder, "fp8-e4m3-row", "compressed-tensors", as_fp8_tokens, False)
sys.exit(failed)
