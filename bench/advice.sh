#!/usr/bin/env bash
# advice.sh - what advised recipes are worth on a real model: for budgets from 4.3 to 8 bits, the
# perplexity of tests/data/tiny-llama in the advised formats, in the best single format of at most
# that size, and with the first and the last layer at 8 bits.
#
#   bash bench/advice.sh [--update-page] [--table]
#
#   --update-page  put the table between the markers of advisor/advice.md as well
#   --table          make the table from the last results, measure nothing
#
# Writes bench/results/advice-tiny-llama.json, with .md and .svg beside it. Every t2 is measured again on what
# was written; sizes are bits per weight of the linear layers. The figures do not depend on the
# machine.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/packages.sh

model=tests/data/tiny-llama
result=bench/results/advice-tiny-llama
build=${KERF_BUILD:-build/bench}
budgets="4.3 4.51 4.75 5 5.5 6.25 6.5 7 8"

update_page=0 table_only=0
for word in "$@"; do
    case $word in
    --update-page) update_page=1 ;;
    --table) table_only=1 ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' bench/advice.sh >&2 && exit 2 ;;
    esac
done

need_packages "${build_packages[@]}" "pc:cmocka=libcmocka-dev" "jq=jq" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kerf() { "$build/kerf" "$@"; }

# --- measure -------------------------------------------------------------------------------------

# measure NAME QUANTIZE-ARGS...: a JSON object of what the model is worth so; once per name.
measure() {
    local done=$work/done-${1//[^a-z0-9.-]/_}
    shift
    if [ ! -e "$done" ]; then
        kerf quantize $model "$@" -o "$work/q" -y 2>"$work/log" || { cat "$work/log" >&2 && return 1; }
        kerf verify $model "$work/q" --json >"$work/verify"
        "$build/tests/perplexity" "$work/q" $model/eval.u16 --json >"$work/run"
        jq -n --slurpfile v "$work/verify" --slurpfile r "$work/run" '
            [$v[0].tensors[] | select(.t2 != null)] as $all
            | {bits: (8 * ([$all[].bytes] | add) / ([$all[].elements] | add)),
               t2: ([$all[].t2] | add), perplexity: $r[0].perplexity}' >"$done"
        jq -c --arg what "$*" '{$what} + .' "$done" >&2
    fi
    cat "$done"
}

advise() { kerf advise $model --cache "$work/scores" -y --json "$@"; }

# The single format with the least sum of t2 under a budget; nothing when none fits.
best_uniform() {
    jq -r --argjson most "$1" '[.uniform[] | select((.bits * 1000 | round) <= $most * 1000)] | min_by(.t2) // empty | .codec' \
        "$work/advice"
}

# The same for the middle layers when the first and the last are int8.
best_heuristic() {
    jq -r --argjson most "$1" '
        .groups as $g | [$g[].name | capture("layers\\.(?<n>[0-9]+)\\.").n | tonumber] as $n
        | ($n | max) as $last
        | [.uniform[].codec as $codec
           | [range($g | length) as $i
              | (if $n[$i] == 0 or $n[$i] == $last then "int8:search" else $codec end) as $c
              | $g[$i].candidates[] | select(.codec == $c)] as $all
           | {$codec, t2: ([$all[].t2] | add),
              bits: (([$all[].bytes] | add) * 8 / ([$all[] | .bytes * 8 / .bits] | add))}
           | select((.bits * 1000 | round) <= $most * 1000)] | min_by(.t2) // empty | .codec' "$work/advice"
}

measure_budget() {
    local budget=$1 uniform heuristic
    advise --budget "${budget}bits" -o "$work/recipe.json" >"$work/advice"
    uniform=$(best_uniform "$budget") heuristic=$(best_heuristic "$budget")
    measure "advised-$budget" --recipe "$work/recipe.json" >"$work/advised"
    advise --budget "${budget}bits" --imatrix $model/imatrix.safetensors -o "$work/weighted.json" >/dev/null
    measure "weighted-$budget" --recipe "$work/weighted.json" >"$work/by_imatrix"
    echo null | tee "$work/uniform" >"$work/heuristic"
    [ -z "$uniform" ] || measure "single-$uniform" -f "$uniform" >"$work/uniform"
    [ -z "$heuristic" ] || measure "ends-$heuristic" -f "$heuristic" --tensor '*layers.0.*_proj*=int8:search' \
        --tensor '*layers.3.*_proj*=int8:search' >"$work/heuristic"
    jq -n --argjson budget "$budget" --arg u "$uniform" --arg h "$heuristic" \
        --slurpfile a "$work/advised" --slurpfile i "$work/by_imatrix" --slurpfile s "$work/uniform" \
        --slurpfile e "$work/heuristic" --slurpfile advice "$work/advice" '
        def named($name): if . == null then null else {codec: $name} + . end;
        {$budget, gap: $advice[0].gap, advised: $a[0], by_imatrix: $i[0],
         uniform: ($s[0] | named($u)), first_last: ($e[0] | named($h))}'
}

describe_run() {
    local commit changes
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
    changes=$(git status --porcelain -- CMakeLists.txt codecs advisor cli tests/e2e 2>/dev/null || true)
    jq -n --arg model "$model" --arg commit "$commit${changes:++}" \
        --arg version "$(kerf --version --json | jq -r .version)" \
        --argjson bf16 "$("$build/tests/perplexity" $model $model/eval.u16 --json)" '
        {schema: "kerf.bench.advice/1", model: $model, tokens: $bf16.tokens,
         baseline_perplexity: $bf16.perplexity, version: $version, commit: $commit}'
}

# --- show ----------------------------------------------------------------------------------------

# Bold: the least perplexity of a row.
make_table() {
    jq -r '
    def digits($n): pow(10; $n) as $u | (. * $u | round) as $i | ($i % $u | tostring) as $rest
        | "\($i / $u | floor)." + "0" * ($n - ($rest | length)) + $rest;
    def cell($best): if . == null then "-" else
        (if .codec then "\(.codec), " else "" end)
        + "\(.bits | digits(3)) b, t2 \(.t2 | digits(4)), "
        + (.perplexity | digits(4) | if . == $best then "**\(.)**" else . end) end;
    "| budget | advised | advised with imatrix | best single format | first and last layer int8 |",
    "|---:|---|---|---|---|",
    (.results[]
     | ([.advised, .by_imatrix, .uniform, .first_last] | map(.perplexity // infinite) | min | digits(4))
       as $best
     | "| \(.budget) | \(.advised | cell($best)) | \(.by_imatrix | cell($best)) "
       + "| \(.uniform | cell($best)) | \(.first_last | cell($best)) |")' "$1"
}

# The same as a picture: what each choice loses against bf16, by its size. Lines: advised; dots: the
# others, where they fit under a budget.
make_chart() {
    jq -r '.baseline_perplexity as $base | .results[] | to_entries[]
        | select(.value | type == "object")
        | [.key, .value.bits, .value.perplexity - $base, (.value.codec // "")] | @tsv' "$1" |
        awk -F '\t' -v W=860 -v H=420 -v L=70 -v R=20 -v T=40 -v B=50 -v x0=4 -v x1=8.25 -v y0=0.005 -v y1=1.2 '
        function px(x) { return L + (x - x0) / (x1 - x0) * (W - L - R) }
        function py(y) { return H - B - log(y / y0) / log(y1 / y0) * (H - T - B) }
        function mark(class, x, y, title) {
            printf "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>%s</title></circle>\n", class, px(x), py(y), title
        }
        function text(class, x, y, anchor, words) {
            printf "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", class, x, y, anchor, words
        }
        {
            line[$1] = line[$1] sprintf("%.1f,%.1f ", px($2), py($3))
            if (!(($1, $2) in seen)) point[n++] = $0
            seen[$1, $2] = 1
        }
        END {
            names["advised"] = "advised"; names["by_imatrix"] = "advised with imatrix"
            names["uniform"] = "best single format"; names["first_last"] = "first and last layer int8"
            split("advised by_imatrix uniform first_last", order, " ")
            printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", W, H, W, H
            print "<style>svg{--bg:#fff;--fg:#1b1f24;--dim:#5b6570;--grid:#d5dae0;--advised:#1f5fbf;--by_imatrix:#2b7a3d;" \
                "--uniform:#b3541e;--first_last:#8a3fa0}@media(prefers-color-scheme:dark){svg{--bg:#14171b;--fg:#e4e8ec;" \
                "--dim:#98a2ad;--grid:#353c44;--advised:#7fb0ff;--by_imatrix:#7fd08f;--uniform:#f0a070;--first_last:#d59be8}}" \
                "text{font:12px system-ui,sans-serif;fill:var(--fg)}.dim{fill:var(--dim)}.grid{stroke:var(--grid);fill:none}" \
                ".back{fill:var(--bg)}polyline{fill:none;stroke-width:2}"
            for (i = 1; i <= 4; i++) printf ".%s{fill:var(--%s)}polyline.%s{fill:none;stroke:var(--%s)}", order[i], order[i], order[i], order[i]
            print "</style>"
            printf "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", W, H
            for (x = 4; x <= 8; x++) {
                printf "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", px(x), T, H - B
                text("dim", px(x), H - B + 18, "middle", x)
            }
            split("0.005 0.01 0.02 0.05 0.1 0.2 0.5 1", ticks, " ")
            for (i = 1; i <= 8; i++) {
                printf "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", L, py(ticks[i]), W - R
                text("dim", L - 8, py(ticks[i]) + 4, "end", ticks[i])
            }
            text("dim", (L + W - R) / 2, H - 12, "middle", "bits per weight")
            printf "<text class=\"dim\" transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">perplexity above bf16</text>\n", (T + H - B) / 2
            for (i = 1; i <= 2; i++) printf "<polyline class=\"%s\" points=\"%s\"/>\n", order[i], line[order[i]]
            for (i = 0; i < n; i++) {
                split(point[i], p, "\t")
                mark(p[1], p[2], p[3], sprintf("%s%s: %.3f bits, +%.4f", names[p[1]], p[4] == "" ? "" : " (" p[4] ")", p[2], p[3]))
            }
            for (i = 1; i <= 4; i++) {
                at = L + (i - 1) * 190
                printf "<circle class=\"%s\" cx=\"%d\" cy=\"20\" r=\"4.5\"/>\n", order[i], at + 6
                text("", at + 16, 24, "start", names[order[i]])
            }
            print "</svg>"
        }'
}

update_page() {
    bench/section advice $result.md <advisor/advice.md >"$work/page" && cat "$work/page" >advisor/advice.md
}

# --- run -----------------------------------------------------------------------------------------

if [ $table_only -eq 0 ]; then
    if [ -z "${KERF_BUILD:-}" ]; then
        cmake -S . -B $build --log-level=WARNING -DCMAKE_BUILD_TYPE=Release -DKERF_TESTS=ON >&2
        cmake --build $build -j "$(nproc)" --target kerf perplexity >&2
    fi
    describe_run >"$work/rows"
    for budget in $budgets; do measure_budget "$budget" >>"$work/rows"; done
    jq -s '.[0] + {results: .[1:]}' "$work/rows" >"$work/result.json"
    mkdir -p bench/results
    cp "$work/result.json" $result.json
fi
make_table $result.json >$result.md
make_chart $result.json >$result.svg
[ $update_page -eq 0 ] || update_page
cat $result.md
