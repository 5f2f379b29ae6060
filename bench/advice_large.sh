#!/usr/bin/env bash
# advice_large.sh - what kerf advise costs on a checkpoint of 8 billion parameters: time and memory,
# and those of a second budget, which finds all scores in the cache.
#
#   bash bench/advice_large.sh [--folder FOLDER] [--layers N] [--formats LIST]
#
#   --folder   where the checkpoint is written (16 GB; removed afterwards) unless it is there
#   --layers   of Llama-3.1-8B's 32 (32)
#   --formats  candidates, if not the default ones
#
# Weights are random numbers with tails that differ from tensor to tensor. Writes
# bench/results/advice-8b.json. Seconds are of the wall; cpu_s are of all cores together and do not
# depend on what else the machine does.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${KERF_BUILD:-build/bench} folder='' layers=32 formats='' result=bench/results/advice-8b.json
while [ $# -gt 0 ]; do
    case $1 in
    --folder) folder=${2:?} ;;
    --layers) layers=${2:?} ;;
    --formats) formats=${2:?} ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' bench/advice_large.sh >&2 && exit 2 ;;
    esac
    shift 2
done
if [ -z "${KERF_BUILD:-}" ]; then
    cmake -S . -B "$build" --log-level=WARNING -DCMAKE_BUILD_TYPE=Release -DKERF_TESTS=ON >&2
    cmake --build "$build" -j "$(nproc)" --target kerf make_model peak_memory >&2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -e "${folder:-$work/model}/config.json" ]; then
    folder=${folder:-$work/model}
    "$build/tests/cli/make_model" llama "$folder" "$layers" >&2
fi

# advise BUDGET: one run; prints {"budget", "s", "cpu_s", "peak_mib", ...}.
advise() {
    local TIMEFORMAT='%R %U %S' took
    took=$({ time "$build/tests/cli/peak_memory" "$work/peak" "$build/kerf" advise "$folder" --budget "$1" \
        ${formats:+-f "$formats"} --cache "$work/scores.json" --hardware h200 --json >"$work/out" 2>"$work/err"; } 2>&1)
    jq -n --arg budget "$1" --arg took "$took" --argjson peak "$(<"$work/peak")" --slurpfile a "$work/out" '
        ($took | split(" ") | map(tonumber)) as $t | $a[0]
        | {budget: $budget, s: $t[0], cpu_s: ($t[1] + $t[2] | . * 100 | round / 100),
           peak_mib: ($peak / 1024 | round), groups: (.groups | length), scored, cached, choose_s, gap,
           bits: .total.bits,
           candidates: [.uniform[].codec]}'
}

first=$(advise 5bits)
second=$(advise 4.5bits)
jq -n --argjson first "$first" --argjson second "$second" --argjson layers "$layers" \
    --argjson bytes "$(du -cb "$folder"/*.safetensors | tail -n 1 | cut -f 1)" \
    --arg cpu "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1)" --argjson threads "$(nproc)" \
    --arg load "$(cut -d ' ' -f 1 /proc/loadavg)" --arg commit "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" '
    {schema: "kerf.bench.advice_large/1", model: "make_model llama", layers: $layers, bytes: $bytes,
     candidates: $first.candidates, machine: {cpu: $cpu, threads: $threads, load: $load},
     commit: $commit, first: ($first | del(.candidates)), second: ($second | del(.candidates))}' >"$work/result.json"
mkdir -p "$(dirname $result)"
cp "$work/result.json" $result
cat $result
