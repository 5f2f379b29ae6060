#!/usr/bin/env bash
# validate_step.sh - does the predicted time of a whole token hold? Measures anchors on this machine,
# freezes them, draws decoders that nobody knew before, measures those as one graph each, compares.
#
#   bench/validate_step.sh pack BUILD FOLDER     here: what another machine with a GPU needs
#   bench/validate_step.sh run FOLDER OUT        there: OUT gets predict-step.json and .md, decoders.json,
#                                                machine.json, predict-products.json and .md
#
# BUILD is configured with CUDA and -DKERF_BENCH=ON. HARDWARE (h100) is the machine's entry of the
# registry, FORMATS (nvfp4,int4-g128,fp8-e4m3) are taken in turns, MODELS (20) is how many decoders,
# PRODUCTS (64) of how many drawn shapes the single products are validated too (validate.sh, the same
# anchors; 0: none), TRIALS (3) how many graphs per anchor, REPLAYS (21) of a decoder. Python 3 is needed there, no jq.
#
# A decoder is all linear layers of a model for one token, launched as a chain in one graph: q, k and v
# in one launch, gate and up with SwiGLU in one, the residual added where it is written, and the
# logits. The predicted time is the sum of its products as `kerf predict --model` has them; attention,
# norms and sampling are no products and not in either.
#
# The decoders follow from the sha256 of the measured machine's file: word i of sha256("DIGEST M") for
# model M gives layers (8 to 48), hidden (2048 to 8192 in steps of 256), kv heads of 128 (1/8 to 1 of the
# heads), the ratio of the inner width (2.5 to 4.5, in steps of 256) and the vocabulary (32000 to 152064);
# drawn again above 16e9 weights. Exit 1 when the median error is above 5 % or fewer than 95 % of
# the decoders are within 12 %.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

pack() { # BUILD FOLDER
    mkdir -p "$2/lib"
    cp "$here/validate_step.sh" "$here/validate.sh" "$2"
    for f in kerf bench/bench_gemv_cuda; do
        install -s "$1/$f" "$2/$(basename "$f")"
        # Not libc, and not what belongs to the driver.
        ldd "$1/$f" | awk '$3 ~ /^\// && $1 !~ /^(libc|libm|libdl|libpthread|librt|ld-linux.*|libcuda)\.so/ { print $3 }' |
            while read -r so; do cp -Ln "$so" "$2/lib/" 2>/dev/null || true; done
    done
    du -sh "$2"
}

# draw DIGEST COUNT FORMATS FOLDER: FOLDER/models, and a config.json for each.
draw() {
    python3 - "$@" <<'END'
import hashlib, json, math, os, sys
digest, count, formats, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4]
found, number = [], 0
while len(found) < count:
    h = hashlib.sha256(f"{digest} {number}".encode()).digest()
    number += 1
    u = [int.from_bytes(h[4 * i : 4 * i + 4], "big") / 2**32 for i in range(8)]
    layers = 8 + int(u[0] * 41)
    hidden = 256 * int(2048 * math.exp(u[1] * math.log(4)) / 256)
    heads = hidden // 128
    kv = max(1, heads >> int(u[2] * 4))
    ff = 256 * int(hidden * (2.5 + 2 * u[3]) / 256)
    vocab = 64 * int(32000 * math.exp(u[4] * math.log(152064 / 32000)) / 64)
    weights = layers * (2 * hidden * hidden + 2 * kv * 128 * hidden + 3 * hidden * ff) + vocab * hidden
    if weights > 16e9 or hidden % (128 * kv) and heads % kv:
        continue
    name, f = f"m{len(found)}", formats[len(found) % len(formats)]
    found.append(f"{name} {layers} {hidden} {hidden} {kv * 128} {ff} {vocab} {f}")
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    json.dump({"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
               "num_key_value_heads": kv, "head_dim": 128, "intermediate_size": ff, "vocab_size": vocab,
               "tie_word_embeddings": False}, open(f"{folder}/{name}/config.json", "w"))
open(f"{folder}/models", "w").write("\n".join(found) + "\n")
END
}

# compare OUT: measured and predicted side by side, as JSON and Markdown.
compare() {
    python3 - "$1" <<'END'
import json, sys
out = sys.argv[1]
measured = {r["model"]: r for r in json.load(open(f"{out}/decoders.json"))["decoder"] if r["by"] == "kerf" and r["part"] == "token"}
rows, wrong = [], []
for line in open(f"{out}/models"):
    name, layers, hidden, q, kv, ff, vocab, f = line.split()
    if name not in measured or not measured[name].get("us_chain"):
        wrong.append(name)
        continue
    p = json.load(open(f"{out}/{name}/predicted.json"))["predictions"][0]
    ops = [o for o in p["operators"] if "proj" in o["name"] or o["name"] == "lm_head"]
    assert len(ops) == 5, [o["name"] for o in p["operators"]]
    us, low, high = (sum(o["count"] * o[k] for o in ops) for k in ("us", "low_us", "high_us"))
    m = measured[name]["us_chain"]
    rows.append({"model": name, "format": f, "layers": int(layers), "hidden": int(hidden), "kv": int(kv), "inner": int(ff),
                 "vocabulary": int(vocab), "bytes": measured[name]["bytes"], "measured_us": m, "plain_us": measured[name]["us"],
                 "predicted_us": us, "low_us": low, "high_us": high, "tiers": sorted({o["tier"] for o in ops}),
                 "error": us / m - 1})
errors = sorted(abs(r["error"]) for r in rows)
n = len(errors)
median = (errors[(n - 1) // 2] + errors[n // 2]) / 2 if n else float("nan")
within = sum(e <= 0.12 for e in errors) / n if n else 0
inside = sum(r["low_us"] <= r["measured_us"] <= r["high_us"] for r in rows) / n if n else 0
holds = n > 0 and not wrong and median <= 0.05 and within >= 0.95
doc = {"schema": "kerf.bench.predict-step/1", "calibration_sha256": open(f"{out}/digest").read().strip(), "models": rows,
       "not_measured": wrong, "median": median, "within_12": within, "in_band": inside, "holds": holds}
json.dump(doc, open(f"{out}/predict-step.json", "w"), indent=1)
with open(f"{out}/predict-step.md", "w") as to:
    print("| decoder | format | layers x hidden | measured us | predicted us | off | plain graph us |\n|---|---|---|---:|---:|---:|---:|", file=to)
    for r in rows:
        print(f"| {r['model']} | {r['format']} | {r['layers']} x {r['hidden']} | {r['measured_us']:.1f} | {r['predicted_us']:.1f} "
              f"| {100 * r['error']:+.1f} % | {r['plain_us']:.1f} |", file=to)
    print(f"\n{n} decoders: median off {100 * median:.1f} %, worst {100 * (errors or [0])[-1]:.1f} %, within 12 % "
          f"{100 * within:.0f} %, in band {100 * inside:.0f} %; machine frozen as sha256 {doc['calibration_sha256'][:12]}", file=to)
print(open(f"{out}/predict-step.md").read())
print("holds" if holds else "does not hold", *(["not measured:"] + wrong if wrong else []))
sys.exit(not holds)
END
}

run() { # FOLDER OUT
    local folder start=$SECONDS status=0 formats=${FORMATS:-nvfp4,int4-g128,fp8-e4m3}
    mkdir -p "$2"
    folder=$(realpath "$1") out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    export LD_LIBRARY_PATH=$folder/lib:${LD_LIBRARY_PATH:-}
    "$folder/kerf" hardware "${HARDWARE:-h100}" --measure --device cuda -f "$formats" -n "${TRIALS:-3}" >"$out/machine.json"
    sha256sum <"$out/machine.json" | cut -d ' ' -f 1 >"$out/digest"
    echo "anchors measured in $((SECONDS - start)) s; frozen: sha256 $(<"$out/digest")"
    draw "$(<"$out/digest")" "${MODELS:-20}" "$formats" "$out"
    while read -r name _ _ _ _ _ _ format; do
        "$folder/kerf" predict --model "$out/$name/config.json" --hardware "$out/machine.json" -f "$format" \
            --head "$format" --json >"$out/$name/predicted.json"
    done <"$out/models"
    start=$SECONDS
    "$folder/bench_gemv_cuda" --formats none --shapes none --columns 1 --x bf16 --no-baselines --no-ceilings \
        --models "$out/models" --replays "${REPLAYS:-21}" -o "$out/decoders.json" >"$out/decoders.txt" 2>&1 ||
        tail -n 8 "$out/decoders.txt"
    echo "decoders measured in $((SECONDS - start)) s"
    compare "$out" || status=1
    [ "${PRODUCTS:-64}" = 0 ] || bash "$folder/validate.sh" --kerf "$folder/kerf" --hardware "${HARDWARE:-h100}" --trials \
        "${TRIALS:-3}" --formats "$formats" --shapes "${PRODUCTS:-64}" --machine "$out/machine.json" -o "$out/predict-products" ||
        status=1
    for f in machine.json decoders.json predict-step.json predict-step.md predict-products.json predict-products.md; do
        [ ! -e "$out/$f" ] || cp "$out/$f" "$2"
    done
    return $status
}

case ${1:-} in
pack) [ $# -eq 3 ] && pack "$2" "$3" ;;
run) [ $# -eq 3 ] && run "$2" "$3" ;;
*) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2 ;;
esac
