"""How much a choice of formats can gain on tests/data/tiny-llama at all, in torch on a GPU: the methods
of kerf advise beside what they stand for (KL measured for each group in each format), and beside
climbs that change one or two groups at a time by the measured KL of the whole recipe.

    python3 bench/advice_bound.py ENC MODEL OUT.json [ALPHA.json]

ENC MATRIX ROWS COLS CODEC... encodes a file of bf16 and writes MATRIX.I for the I-th codec, decoded to
float32, and prints its bytes (bench/advice_bound.c). ALPHA.json: of kerf calibrate --json; without it
alpha is measured here. Calibrates on rows 0 to 127 of eval.u16, judges on 128 to 255."""
import json, math, os, struct, subprocess, sys

import numpy as np
import torch

ENC, MODEL, OUT = sys.argv[1:4]
BUDGETS = (4.3, 4.51, 4.75, 5, 5.5, 6.5, 7)
CODECS = ("nvfp4:4/6,nvfp4:sweep,mxfp4:even,nf4-dq,int4-g128:search,int4-g128-asym:search,"
          "int4-g32-asym:search,mxfp6-e2m3:even,mxfp8-e4m3:rceil,fp8-e4m3-row,int8:search,"
          "int8-g128:search").split(",")
PARTS = (("self_attn", "q_proj k_proj v_proj"), ("self_attn", "o_proj"), ("mlp", "gate_proj up_proj"),
         ("mlp", "down_proj"))
LAYERS, T2, DRAWS = 4, 0.02, 4
torch.backends.cuda.matmul.allow_tf32 = False
torch.set_grad_enabled(False)

# --- the model ---------------------------------------------------------------------------------------
blob = open(MODEL + "/model.safetensors", "rb").read()
start = 8 + struct.unpack("<Q", blob[:8])[0]
head = {k: v for k, v in json.loads(blob[8:start]).items() if k[0] != "_"}
raw = {k: blob[start + v["data_offsets"][0]:start + v["data_offsets"][1]] for k, v in head.items()}
W = {k: torch.frombuffer(bytearray(raw[k]), dtype=torch.bfloat16).reshape(v["shape"]).float().cuda()
     for k, v in head.items()}
rows = torch.from_numpy(np.fromfile(MODEL + "/eval.u16", "<u2").astype(np.int64)).reshape(-1, 256).cuda()
cal, judged = rows[:128], rows[128:]
E = W["model.embed_tokens.weight"]
angle = torch.outer(torch.arange(256).double(), 1e4 ** (-torch.arange(16).double() / 16))
COS, SIN = angle.cos().float().cuda(), angle.sin().float().cuda()


def norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w


def rotate(x):
    a, b = x[..., :16], x[..., 16:]
    return torch.cat([a * COS - b * SIN, b * COS + a * SIN], -1)


def layer(x, i, changed, seen=None):
    def w(name):
        name = f"model.layers.{i}.{name}.weight"
        return changed.get(name, W[name])

    def heads(y, n):
        return y.view(len(x), 256, n, 32).transpose(1, 2)

    h = norm(x, w("input_layernorm"))
    q, k = (rotate(heads(h @ w(f"self_attn.{n}_proj").T, c)) for n, c in (("q", 8), ("k", 4)))
    k, v = (y.repeat_interleave(2, 1) for y in (k, heads(h @ w("self_attn.v_proj").T, 4)))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    o = o.transpose(1, 2).reshape(len(x), 256, 256)
    x = x + o @ w("self_attn.o_proj").T
    m = norm(x, w("post_attention_layernorm"))
    f = torch.nn.functional.silu(m @ w("mlp.gate_proj").T) * (m @ w("mlp.up_proj").T)
    for p, y in enumerate((h, o, m, f)) if seen is not None else ():
        y = y.reshape(-1, y.shape[-1]).double()
        seen[i, p] = (y.T @ y / len(y)).float()
    return x + f @ w("mlp.down_proj").T


def said(x):
    return torch.log_softmax(norm(x, W["model.norm.weight"]) @ E.T, -1)[:, :-1]


def finish(x, i, changed, rows, plain=None):
    """Loss, and KL from the states `plain`, of rows that come to layer i as x."""
    for j in range(i, LAYERS):
        x = layer(x, j, changed)
    loss = kl = 0
    for s in range(0, len(rows), 64):
        q = said(x[s:s + 64])
        loss -= q.gather(-1, rows[s:s + 64, 1:, None]).double().sum()
        if plain is not None:
            p = said(plain[s:s + 64])
            kl += (p.exp() * (p - q)).sum(-1).double().sum()
    n = len(rows) * 255
    return float(loss) / n, float(kl) / n


gram, states = {}, [E[cal]]
for i in range(LAYERS):
    states.append(layer(states[-1], i, {}, gram))
plain = E[judged]
for i in range(LAYERS):
    plain = layer(plain, i, {})
source = math.exp(finish(plain, LAYERS, {}, judged)[0])

# --- groups, formats, errors -------------------------------------------------------------------------
groups = [(i, p, [f"model.layers.{i}.{PARTS[p][0]}.{n}.weight" for n in PARTS[p][1].split()])
          for i in range(LAYERS) for p in range(4)]
Q, N, K = {}, len(groups), len(CODECS)
bits, t2, own, column, output = (np.zeros((N, K)) for _ in range(5))
for g, (i, p, members) in enumerate(groups):
    A = gram[i, p]
    h = A.diagonal()
    for name in members:
        w = W[name]
        open("/tmp/matrix", "wb").write(raw[name])
        sizes = subprocess.run([ENC, "/tmp/matrix", *map(str, w.shape), *CODECS], capture_output=True,
                               text=True, check=True).stdout.split()
        for c in range(K):
            v = torch.from_numpy(np.fromfile(f"/tmp/matrix.{c}", "<f4").reshape(w.shape)).cuda()
            d, signal = v - w, (w * w).sum()
            Q[name, c] = v
            bits[g, c] += 8 * int(sizes[c])
            t2[g, c] += (d * d).sum() / signal
            own[g, c] += (d * d * h).sum() / (w * w * h).sum()
            column[g, c] += (d * d * h).sum() / (signal * h.mean())
            output[g, c] += ((d @ A) * d).sum() / (signal * h.mean())
weights = sum(W[n].numel() for _, _, m in groups for n in m)

# --- what errors cost --------------------------------------------------------------------------------
alpha, error = np.zeros(N), np.zeros(N)
for g, (i, p, members) in enumerate(groups if len(sys.argv) < 5 else ()):
    draws = []
    for draw in range(DRAWS):
        chance = torch.Generator("cuda").manual_seed(1000 * g + draw)
        noisy = {}
        for n in members:
            z = torch.randn(W[n].shape, generator=chance, device="cuda")
            noisy[n] = W[n] + z * (T2 * (W[n] ** 2).sum() / (z * z).sum()).sqrt()
        draws.append(finish(states[i], i, noisy, cal, states[LAYERS])[1] / T2)
    alpha[g], error[g] = np.mean(draws) / len(members), np.std(draws, ddof=1) / DRAWS ** 0.5
if len(sys.argv) > 4:
    found = {w["name"]: w["alpha"] for w in json.load(open(sys.argv[4]))["weights"]}
    alpha = np.array([found[m[0]] for _, _, m in groups])


def alone(g, c, rows, plain, x, i):
    return finish(x, i, {n: Q[n, c] for n in groups[g][2]}, rows, plain)[1]


kl_cal = np.array([[alone(g, c, cal, states[LAYERS], states[groups[g][0]], groups[g][0])
                    for c in range(K)] for g in range(N)])
kl_judged = np.array([[alone(g, c, judged, plain, E[judged], 0) for c in range(K)] for g in range(N)])
COST = {"flat": t2, "imatrix": own, "alpha": alpha[:, None] * t2, "alpha, imatrix": alpha[:, None] * own,
        "calibration": alpha[:, None] * column, "calibration and Gram": alpha[:, None] * output,
        "KL of each format": kl_cal, "KL of each format, judged rows": kl_judged}


def choose(cost, budget):
    """The knapsack by dynamic programming over units of 16,384 bits."""
    unit = 16384
    room = int(budget * weights / unit)
    need = np.ceil(bits / unit - 1e-9).astype(int)
    best, picks = np.full(room + 1, np.inf), []
    best[0] = 0
    for g in range(N):
        new, pick = np.full(room + 1, np.inf), np.zeros(room + 1, int)
        for c in range(K):
            if need[g, c] <= room:
                v = np.full(room + 1, np.inf)
                v[need[g, c]:] = best[:room + 1 - need[g, c]] + cost[g, c]
                pick[v < new] = c
                new = np.minimum(new, v)
        best = new
        picks.append(pick)
    at, out = int(np.argmin(best)), []
    for g in reversed(range(N)):
        out.append(int(picks[g][at]))
        at -= need[g, out[-1]]
    return out[::-1]


def changed(recipe):
    return {n: Q[n, recipe[g]] for g, (_, _, m) in enumerate(groups) for n in m}


def judge(recipe):
    loss, kl = finish(E[judged], 0, changed(recipe), judged, plain)
    return {"perplexity": math.exp(loss), "kl": kl, "bits": sum(bits[range(N), recipe]) / weights}


def climb(recipe, budget, rows, plain, guess):
    """The best of the 120 most promising changes of one or two groups, as long as one helps."""
    recipe = list(recipe)
    now = finish(E[rows], 0, changed(recipe), rows, plain)[1]
    while True:
        used, moves = sum(bits[range(N), recipe]), []
        single = [(g, c, guess[g, c] - guess[g, recipe[g]], bits[g, c] - bits[g, recipe[g]])
                  for g in range(N) for c in range(K) if c != recipe[g]]
        for a in single:
            if used + a[3] <= budget * weights:
                moves.append((a[2], [a]))
            moves += [(a[2] + b[2], [a, b]) for b in single
                      if b[0] < a[0] and used + a[3] + b[3] <= budget * weights]
        moves.sort(key=lambda m: m[0])
        tried = []
        for _, move in moves[:120]:
            other = list(recipe)
            for g, c, *_ in move:
                other[g] = c
            tried.append((finish(E[rows], 0, changed(other), rows, plain)[1], other))
        if not tried or min(tried)[0] >= now:
            return recipe
        now, recipe = min(tried)


def correlation(x, y):
    a, b = (np.argsort(np.argsort(v)) for v in (x, y))
    return float(np.corrcoef(a, b)[0, 1])


result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "source": source,
          "alpha": [[f"layer {i} {PARTS[p][1]}", alpha[g] * len(m), error[g]]
                    for g, (i, p, m) in enumerate(groups)],
          "singles": {c: judge([k] * N) for k, c in enumerate(CODECS)}, "budgets": {}, "random": {}}
for budget in BUDGETS:
    row = {m: judge(choose(cost, budget)) for m, cost in COST.items()}
    if budget <= 5.5:
        begin = choose(COST["calibration"], budget)
        row["climb, calibration rows"] = judge(climb(begin, budget, cal, states[LAYERS], kl_cal))
        row["climb, judged rows"] = judge(climb(choose(kl_judged, budget), budget, judged, plain, kl_judged))
    result["budgets"][budget] = row
chance = np.random.default_rng(1)
for kind, pool in ("all formats", K), ("formats below 5 bits", 7):
    recipes = [chance.integers(0, pool, N) for _ in range(100)]
    kl = [judge(list(r))["kl"] for r in recipes]
    result["random"][kind] = {"least": min(kl), "most": max(kl), "correlation": {
        m: correlation([cost[range(N), r].sum() for r in recipes], kl) for m, cost in COST.items()}}
json.dump(result, open(OUT, "w"), indent=1)
for key, zero in ("perplexity", source), ("kl", 0):
    print(key)
    for budget, row in result["budgets"].items():
        print(budget, ", ".join(f"{m} {v[key]:.4f} ({100 * (1 - (v[key] - zero) / (row['flat'][key] - zero)):+.0f} %)"
                                for m, v in row.items()))
    for m in result["budgets"][5.5]:
        print("mean to 5.5 bits", m, f"{100 * np.mean([1 - (r[m][key] - zero) / (r['flat'][key] - zero) for b, r in result['budgets'].items() if b <= 5.5]):+.1f} %")
for kind, r in result["random"].items():
    print(kind, r)
