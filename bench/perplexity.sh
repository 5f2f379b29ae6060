#!/usr/bin/env bash
# perplexity.sh - what every format and encoder costs a real model: quantizes tests/data/tiny-llama
# with each, decodes it to fp32, measures its error and its perplexity.
#
#   bash bench/perplexity.sh [CODEC...] [--table]
#
#   CODEC    FORMAT:ENCODER; without any, all that `kerf formats` lists
#   --table  make the table from the last results, measure nothing
#
# Writes bench/results/perplexity-tiny-llama.json and .md beside it, and prints the table. With
# CODECs only, nothing is written: their rows alone are printed. The figures do not depend on the
# machine; quantize_cpu_s (user and system time of all threads) does.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/packages.sh

model=tests/data/tiny-llama
result=bench/results/perplexity-tiny-llama
build=build/bench

usage() { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' bench/perplexity.sh; }

codecs=() table_only=0
for word in "$@"; do
    case $word in
    --table) table_only=1 ;;
    -*) usage >&2 && exit 2 ;;
    *) codecs+=("$word") ;;
    esac
done

need_packages "${build_packages[@]}" "pc:cmocka=libcmocka-dev" "jq=jq" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- measure -------------------------------------------------------------------------------------

evaluate() { "$build/tests/perplexity" "$1" "$model/eval.u16" --json; }

# One row of the results, as JSON.
measure() {
    local codec=$1 start=$EPOCHREALTIME cpu perplexity verify TIMEFORMAT='%U %S'
    cpu=$({ time "$build/kerf" quantize "$model" -f "$codec" -o "$work/quantized" -y \
        >/dev/null 2>"$work/log"; } 2>&1) || { cat "$work/log" >&2 && return 1; }
    # Over its limits is a finding for the table (int2), not an end of the run.
    verify=$("$build/kerf" verify "$model" "$work/quantized" --json) || [ $? -eq 1 ] || return 1
    "$build/kerf" dequantize "$work/quantized" --dtype fp32 -o "$work/dense" -y \
        >/dev/null 2>"$work/log" || { cat "$work/log" >&2 && return 1; }
    perplexity=$(evaluate "$work/dense") || return 1
    jq -n --arg codec "$codec" --arg cpu "$cpu" --arg seconds \
        "$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')" \
        --argjson verify "$verify" --argjson run "$perplexity" --argjson bf16 "$baseline" '
        {format: ($codec | split(":")[0]), encoder: ($codec | split(":")[1]),
         bpw: $verify.total.bpw, t2: $verify.total.t2,
         perplexity: $run.perplexity,
         delta: ($run.perplexity | if . then . - $bf16.perplexity else null end),
         quantize_cpu_s: ($cpu | split(" ") | map(tonumber) | add),
         seconds: ($seconds | tonumber)}'
}

list_codecs() {
    "$build/kerf" formats --json | jq -r '.formats[] | .name + ":" + .encoders[].name'
}

# Where the figures come from; "+" after the commit: with changes that are not in it.
describe_run() {
    local cpu compiler commit changes
    cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
    compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' $build/CMakeCache.txt)
    compiler=$("$compiler" --version | head -n 1)
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
    changes=$(git status --porcelain -- CMakeLists.txt codecs advisor cli tests/e2e 2>/dev/null)
    jq -n --arg cpu "${cpu:-$(uname -m)}" --arg compiler "$compiler" --arg model "$model" \
        --arg commit "$commit${changes:++}" --argjson cores "$(nproc)" --argjson bf16 "$baseline" \
        --arg version "$("$build/kerf" --version --json | jq -r .version)" '
        {schema: "kerf.bench.perplexity/1", model: $model, tokens: $bf16.tokens,
         baseline_perplexity: $bf16.perplexity, version: $version, commit: $commit,
         machine: {cpu: $cpu, cores: $cores}, compiler: $compiler}'
}

measure_all() {
    local codec rows=$work/rows
    describe_run >"$rows" || return 1
    for codec in "${codecs[@]}"; do
        measure "$codec" >"$work/row" || return 1
        jq -r '"\(.format):\(.encoder)  \(.bpw) bpw  t2 \(.t2)  perplexity \(.perplexity)"' \
            "$work/row" >&2
        cat "$work/row" >>"$rows"
    done
    jq -s '.[0] + {results: .[1:]}' "$rows"
}

# --- show ----------------------------------------------------------------------------------------

# Bold: nothing else is at once as small and as good, to the digits shown.
make_table() {
    jq -r '
    def digits($n): pow(10; $n) as $unit | (. * $unit | round | fabs) as $i
        | ($i % $unit | tostring) as $rest
        | (if . < 0 and $i > 0 then "-" else "" end) + ($i / $unit | floor | tostring)
          + if $n == 0 then "" else "." + "0" * ($n - ($rest | length)) + $rest end;
    def figure: if . == null then "-" elif fabs < 1000 then digits(4) else digits(0) end;
    def change: figure | if startswith("-") then . else "+" + . end;
    def power: if . == 0 then "0"
        else (. * 1.005 | log10 | floor) as $e | "\(. / pow(10; $e) | digits(2))e\($e)" end;
    def shown: [(.bpw * 1000 | round), (.perplexity // infinite | . * 10000 | round)];
    def beats($other): shown as $a | ($other | shown) as $b
        | $a != $b and $a[0] <= $b[0] and $a[1] <= $b[1];
    .results as $all | $all | sort_by(-.bpw, (.perplexity // infinite))
    | "| format:encoder | bpw | t2 | perplexity | change |", "|---|---:|---:|---:|---:|",
      (.[] | . as $row | "\(.format):\(.encoder)" as $name
       | [if any($all[]; beats($row)) then $name else "**\($name)**" end,
          (.bpw | digits(3)), (.t2 | power), (.perplexity | figure), (.delta | change)]
       | "| " + join(" | ") + " |")' "$1"
}

# --- run -----------------------------------------------------------------------------------------

if [ $table_only -eq 0 ]; then
    cmake -S . -B $build --log-level=WARNING -DCMAKE_BUILD_TYPE=Release -DKERF_TESTS=ON >&2
    cmake --build $build -j "$(nproc)" --target kerf perplexity >&2
    baseline=$(evaluate $model)
    if [ ${#codecs[@]} -gt 0 ]; then
        measure_all >"$work/result.json"
        make_table "$work/result.json"
        exit 0
    fi
    mapfile -t codecs < <(list_codecs)
    measure_all >"$work/result.json"
    cp "$work/result.json" $result.json
fi
make_table $result.json >"$work/table.md"
cp "$work/table.md" $result.md
cat $result.md
