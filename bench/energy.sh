#!/usr/bin/env bash
# energy.sh - joules per token of the decoder chain in every format beside cuBLAS in fp16, on a GPU.
#
#   bench/energy.sh BENCH_GEMV_CUDA OUT.json [SECONDS]     e.g. bench/results/energy-h100.json
#
# All linear layers of Llama-3.1-8B for one token, as gemv_decoder.c has them. Each format is a process
# of its own, since no GPU holds them all, and has cuBLAS beside it in the same process: a format is
# compared with the fp16 of its own run. A token is replayed for SECONDS (default 3), after a third of
# a second that does not count; joules are those of the GPU's own counter between its first and its last
# step in that time; the power of the idle GPU (with a context, before any work) is measured in each
# process. COMMIT names the source in the result.
#
# What OUT.json has already, of the same device, is kept and not measured again, but for a FORMATS of one's
# own; after BUDGET_S seconds (default: none) no other format is begun. So the same command goes on where a
# run was cut or short of time, and says what is left.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2; }
bench=$1 out=$2 seconds=${3:-3}
formats=${FORMATS:-nvfp4,nvfp4-shuffled,mxfp4,mxfp4-shuffled,int4-g128,int4-g32,int4-g128-asym,nf4,nf4-dq,mxfp6-e2m3,mxfp6-e3m2,mxfp8-e4m3,fp8-e4m3,fp8-e4m3-row,int8,int8-g128,mxint8,bf16,fp16}
if [ -z "${FORMATS:-}" ] && [ -s "$out" ]; then
    formats=$(python3 -c 'import json, sys
had = {r["format"] for r in json.load(open(sys.argv[1]))["results"]}
print(",".join(f for f in sys.argv[2].split(",") if f not in had))' "$out" "$formats")
    [ -n "$formats" ] || { echo "$out has every format" && exit 0; }
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for format in ${formats//,/ }; do
    [ -z "${BUDGET_S:-}" ] || [ $SECONDS -lt "$BUDGET_S" ] || { echo "$format: left for the next run" && continue; }
    list=$format
    [ "$format" = fp16 ] || list+=,fp16
    "$bench" --shapes none --decoder "$list" --columns 1 --replays 9 --energy "$seconds" \
        --commit "${COMMIT:-unknown}" -o "$tmp/$format.json" >"$tmp/$format.txt" 2>&1 ||
        echo "$format: failed: $(tail -n 2 "$tmp/$format.txt")" >&2
    grep -a 'J/token' "$tmp/$format.txt" || true
done
python3 - "$tmp" "$out" "$formats" "$seconds" <<'END'
import json, pathlib, sys

folder, out, formats, seconds = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3].split(","), sys.argv[4]
rows, head = [], {}
had = json.loads(out.read_text()) if out.exists() and out.stat().st_size else {"results": []}
for name in formats:
    path = folder / f"{name}.json"
    if not path.exists():
        continue
    run = json.loads(path.read_text())
    head = head or {k: run[k] for k in ("device", "driver", "cuda", "cublas", "commit")}
    tokens = {(r["by"], r["format"]): r for r in run["decoder"] if r["part"] == "token"}
    mine, blas = tokens.get(("kerf", name)), tokens.get(("cublas", "fp16"))
    if not mine or not blas or "joules_per_token" not in mine or "joules_per_token" not in blas:
        continue
    us = mine.get("us_chain", mine["us"])
    above = mine["joules_per_token"] - run["idle_w"] * us * 1e-6
    rows.append({
        "format": name, "commit": run["commit"], "bytes": mine["bytes"], "us": us, "joules_per_token": mine["joules_per_token"],
        "joules_per_gb": round(mine["joules_per_token"] / mine["bytes"] * 1e9, 5),
        "joules_above_idle": round(above, 5), "watts": mine["watts"], "peak_w": mine["peak_w"],
        "idle_w": run["idle_w"], "metered_s": mine["metered_s"], "step_s": mine["step_s"],
        "cublas_fp16": {k: blas[k] for k in ("us", "joules_per_token", "watts", "peak_w")},
        "energy_over_cublas": round(mine["joules_per_token"] / blas["joules_per_token"], 4),
        "time_over_cublas": round(us / blas["us"], 4)})
if not rows:
    raise SystemExit("energy.sh: no format gave joules: does the GPU count energy? (kerf monitor -n 1)")
if had["results"] and had["device"] != head["device"]:
    raise SystemExit(f"energy.sh: {out} is of {had['device']}, this is {head['device']}: name another file")
new = {r["format"] for r in rows}
rows = [{"commit": had["commit"], **r} for r in had["results"] if r["format"] not in new] + rows
head = {"schema": "kerf.bench-energy/1", "what": "linear layers of Llama-3.1-8B, one token",
        "command": f"bench/energy.sh BENCH OUT {seconds}", **head}
with open(out, "w") as f:
    f.write(json.dumps(head)[:-1] + ',\n "results": [\n  ')
    f.write(",\n  ".join(json.dumps(r) for r in rows) + "\n]}\n")
print(f"{'format':18s} {'us':>8s} {'J/token':>8s} {'W':>6s} {'J/GB':>7s} {'time':>6s} {'energy':>6s}  (over cuBLAS fp16)")
for r in sorted(rows, key=lambda r: r["joules_per_token"]):
    print(f"{r['format']:18s} {r['us']:8.1f} {r['joules_per_token']:8.4f} {r['watts']:6.0f} {r['joules_per_gb']:7.4f}"
          f" {r['time_over_cublas']:6.3f} {r['energy_over_cublas']:6.3f}")
END
