#!/usr/bin/env bash
# validate.sh - do the predictions hold? Measures anchors on this machine, freezes them, draws shapes
# that nobody knew before, measures those, and compares.
#
#   bash bench/validate.sh [--kerf KERF] [--device cuda|cpu] [--hardware NAME] [--shapes N]
#                          [--trials N] [--formats LIST] [--batch LIST] [--threads N] [--machine FILE]
#                          [-o NAME]
#
#   --kerf      the command (build/bench/kerf); --device cuda needs one that was built with CUDA
#   --hardware  the machine's entry of the registry (h200; with --device cpu none: then its data sheet
#               is the stream that was measured)
#   --shapes    held-out shapes, times the formats (64)
#   --trials    replayed graphs per figure (7), or runs of a processor
#   --batch     columns of X (1)
#   --threads   of the processor (all that it has); fewer than that are not disturbed by other work
#   --machine   this machine as kerf hardware --measure wrote it just now, in place of measuring it here
#   -o          results are NAME.json and NAME.md (bench/results/predict-h200)
#
# The shapes follow from the sha256 of the measured machine's file, so that they cannot be known before it
# is frozen nor chosen after: the first two 32-bit words of sha256("DIGEST I"), I = 0, 1, ..., are
# uniform numbers for N and K, which are 1024 to 32768 and 1024 to 16384, uniform in their
# logarithms, multiples of 32 and 128 (256, where a format has GGUF's blocks of 256), up to 2^28 weights.
# On a GPU they are measured by the tuning of that file, as they are predicted. Exit 1 when fewer than 95 % of the
# predictions are within 10 %, when their median is off by more than 4 %, or when fewer than 95 % of
# the times lie in the band of the data sheet alone.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kerf=build/bench/kerf device=cuda hardware='' count=64 trials=7 batch=1 threads=() machine='' out=bench/results/predict-h200
formats=nvfp4,mxfp4,int4-g128,int8,fp8-e4m3,mxfp8-e4m3
while [ $# -gt 0 ]; do
    case $1 in
    --kerf) kerf=${2:?} ;;
    --device) device=${2:?} ;;
    --hardware) hardware=${2:?} ;;
    --shapes) count=${2:?} ;;
    --trials) trials=${2:?} ;;
    --formats) formats=${2:?} ;;
    --batch) batch=${2:?} ;;
    --threads) threads=(-j "${2:?}") ;;
    --machine) machine=${2:?} ;;
    -o) out=${2:?} ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' bench/validate.sh >&2 && exit 2 ;;
    esac
    shift 2
done
most_n=32768 most_k=16384 step_k=128
if [ "$device" = cpu ]; then most_n=8192 most_k=8192; else hardware=${hardware:-h200}; fi
case $formats, in *_k,* | *iq4_xs,*) step_k=256 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# draw_shapes DIGEST: NxK,NxK,... of `count` different shapes.
draw_shapes() {
    local i=0 hash shape list=,
    while [ "$(tr -cd x <<<"$list" | wc -c)" -lt "$count" ]; do
        hash=$(printf '%s %d' "$1" $i | sha256sum)
        i=$((i + 1))
        shape=$(awk -v a=$((16#${hash:0:8})) -v b=$((16#${hash:8:8})) -v n="$most_n" -v k="$most_k" -v step="$step_k" '
            function draw(u, most, multiple) {
                return multiple * int(1024 * exp(u / 4294967296 * log(most / 1024)) / multiple)
            }
            BEGIN {
                n = draw(a, n, 32); k = draw(b, k, step)
                if (n * k <= 2 ^ 28) printf "%dx%d", n, k
            }')
        [ -z "$shape" ] || [[ $list = *,$shape,* ]] || list+=$shape,
    done
    list=${list#,}
    echo "${list%,}"
}

# The last table that kerf compare prints, as Markdown.
make_table() {
    awk '/^format  *shapes/ { on = 1; print "| format | shapes | median off | p90 | worst | within 10 % | in band | its width |"
                              print "|---|---:|---:|---:|---:|---:|---:|---:|"; next }
         !on || /^-/ || NF == 0 { next }
         { gsub(/ %/, "%"); printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6, $7, $8 }' "$1"
}

start=$SECONDS
if [ -n "$machine" ]; then
    cp "$machine" "$work/mine.json"
else
    "$kerf" hardware ${hardware:+"$hardware"} --measure --device "$device" "${threads[@]}" -f "$formats" -b "$batch" \
        -n "$trials" >"$work/mine.json"
fi
digest=$(sha256sum <"$work/mine.json" | cut -d ' ' -f 1)
echo "measured in $((SECONDS - start)) s; frozen: sha256 $digest"
sheet=${hardware:-$work/sheet.json}
[ -n "$hardware" ] || jq '.fits = [] | .tables = []' "$work/mine.json" >"$sheet"
start=$SECONDS
shapes=$(draw_shapes "$digest")
tuned=()
[ "$device" = cpu ] || tuned=(--hardware "$work/mine.json")
"$kerf" bench gemv --device "$device" "${tuned[@]}" "${threads[@]}" -f "$formats" -b "$batch" --shape "$shapes" -n "$trials" --json \
    >"$work/held.json"
echo "measured $count shapes in $((SECONDS - start)) s"

status=0
"$kerf" compare "$work/held.json" --hardware "$work/mine.json" --limit 4 --within 95 >"$work/compare" || status=1
"$kerf" compare "$work/held.json" --hardware "$sheet" --band 95 >"$work/spec" || status=1
{
    echo "Predicted from anchors:"
    echo
    make_table "$work/compare"
    echo
    echo "Predicted from the data sheet alone (a band; its middle ranks formats):"
    echo
    make_table "$work/spec"
} >"$work/table"
{
    printf '{"schema": "kerf.bench.predict/1", "calibration_sha256": "%s", "shapes": %d,\n' "$digest" "$count"
    printf '"held": %s,\n' "$(<"$work/held.json")"
    printf '"fitted": %s,\n' "$("$kerf" compare "$work/held.json" --hardware "$work/mine.json" --json)"
    printf '"spec_only": %s,\n' "$("$kerf" compare "$work/held.json" --hardware "$sheet" --json)"
    printf '"calibration": %s}\n' "$(<"$work/mine.json")"
} >"$work/result.json"
mkdir -p "$(dirname "$out")"
cp "$work/result.json" "$out.json"
cp "$work/table" "$out.md"
cp "$work/mine.json" "$out-calibration.json"
cat "$out.md"
[ $status -eq 0 ] && echo "holds" || echo "does not hold: see above"
exit $status
