#!/usr/bin/env bash
# gpus.sh - one GPU against several of this machine: calibration of a model of Llama-3.1-8B's shape
# with random BF16 weights, with and without Gram matrices, the command itself, encoding from
# page-locked memory, and error feedback.
#
#   bash bench/gpus.sh BUILD OUT.json [GPUS [FOLDER]]
#
#   BUILD    with CUDA: kerf, tests/gpu/gpus_cuda, tests/gpu/forward_cuda
#   GPUS     that share (default: 0,1); the first of them is the one that they are compared with
#   FOLDER   for the model, 16 GB, made where it is not there, and for outputs (default: /tmp/kerf-gpus)
#
# ROWS=128 rows of 2,048 tokens. The weights are read once first, so that they are in the page cache.
set -eu
[ $# -ge 2 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2; }
build=$1 out=$2 gpus=${3:-0,1} folder=${4:-/tmp/kerf-gpus}
rows=${ROWS:-128} layers=${LAYERS:-32}
one=${gpus%%,*}
programs=$build/tests/gpu
mkdir -p "$folder"
: >"$out.lines"
note() { # a result: shown, and kept
    echo "$1"
    echo "$1" >>"$out.lines"
}
run() { note "$(timeout 240 "$@" 2>&1 | tail -n 1)"; } # or its failure, which ends nothing

[ -d "$folder/model" ] || timeout 200 "$programs/forward_cuda" "$folder/model" -l "$layers" -r 4 -g 0 | tail -n 1
cat "$folder/model/model.safetensors" >/dev/null

# Without files for Gram matrices: they are 31 GB (gpus_cuda says why).
for gram in 1 0; do
    for devices in "$one" "$gpus"; do
        run "$programs/gpus_cuda" -d "$devices" -r "$rows" -g $gram -f $((1 - gram)) \
            calibrate "$folder/model" "$folder/cal-$gram-${devices//,/-}"
    done
done
same=true
diff -r "$folder/cal-0-$one" "$folder/cal-0-${gpus//,/-}" >/dev/null || same=false
note "{\"what\": \"the files of one GPU and of several are the same\", \"same\": $same}"

if [ -x "$programs/feedback_cuda" ]; then
    timeout 120 "$programs/feedback_cuda" -c 64 -o "$out.feedback" || echo "feedback_cuda: $?" >&2
fi
for codec in mxfp4 nvfp4; do
    run "$programs/gpus_cuda" -d "$gpus" -c $codec encode
done
for at in 1.3 2.8 4.1; do
    run "$programs/gpus_cuda" -d "$gpus" -r "$rows" -g 1 -f 0 -x $at calibrate "$folder/model" "$folder/cal-x"
done

# The command, from its start to its end.
python3 - "$folder/tokens.u32" "$rows" <<'PY'
import array, sys
n = int(sys.argv[2]) * 2048
array.array("I", [i * 2654435761 % 2**32 % 128256 for i in range(n)]).tofile(open(sys.argv[1], "wb"))
PY
for devices in "$one" "$gpus"; do
    start=$(date +%s.%N)
    timeout 240 "$build/kerf" calibrate "$folder/model" --tokens "$folder/tokens.u32" --length 2048 \
        --alpha-by none -y -o "$folder/cal" --device "cuda:$devices" --json >/dev/null
    note "$(echo "$start $(date +%s.%N) $devices" | awk '{
        printf "{\"what\": \"kerf calibrate --alpha-by none\", \"gpus\": \"%s\", \"s\": %.2f}", $3, $2 - $1 }')"
done

python3 - "$out" "$gpus" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" <<'PY'
import json, sys
out, gpus, commit = sys.argv[1:]
lines = [json.loads(line) for line in open(out + ".lines") if line.startswith("{")]
document = {"schema": "kerf-bench-gpus/1", "device": next(x["device"] for x in lines if "device" in x),
            "gpus": gpus, "command": "bash bench/gpus.sh BUILD OUT.json " + gpus, "commit": commit,
            "results": lines}
with open(out, "w") as f:
    f.write("{\n")
    for key, value in document.items():
        if key != "results":
            f.write("  %s: %s,\n" % (json.dumps(key), json.dumps(value)))
    f.write('  "results": [\n    ' + ",\n    ".join(json.dumps(x) for x in lines) + "\n  ]\n}\n")
PY
rm -f "$out.lines"
