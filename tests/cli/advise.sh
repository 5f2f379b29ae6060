#!/usr/bin/env bash
# advise.sh - choices under budgets, recipes that quantize keeps, reports, and what is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cache=(--cache "$tmp/scores.json")
few=(-f 'nvfp4:sweep,int4-g32-asym:search,mxfp6-e2m3,int8')

number() { awk -v x="$(json "$1")" "BEGIN { exit !(x $2) }"; }

# --- groups -------------------------------------------------------------------------------------
expect 0 advise "$model" --budget 5bits "${few[@]}" "${cache[@]}" --json
json_is schema kerf.advise/1
json_is groups.# 16
json_is groups.2.name model.layers.0.self_attn.qkv_proj
json_is groups.2.tensors.# 3
json_is groups.2.candidates.# 5
json_is scored 112
json_is gap 0.0
check "under 5 bits" number total.bits '< 5.0005'
check "and close to it" number total.bits '> 4.9'
bits5=$(json total.t2)
check "less error than one format of no more bits" awk -v t2="$bits5" '
    $1 <= 5 && $2 <= t2 { exit 1 }' <(paste <(json 'uniform.*.bits') <(json 'uniform.*.t2'))
check "the curve falls" awk 'NR > 1 && $1 > last { exit 1 } { last = $1 }' <(json 'curve.*.t2')

# Scores of another version are measured again, and so is a tensor that differs in its first bytes.
sed 's/"version": "[^"]*"/"version": "0.0.0"/' "$tmp/scores.json" >"$tmp/old.json"
expect 0 advise "$model" --budget 5bits "${few[@]}" --cache "$tmp/old.json" --json
json_is scored 112
"$TOOLS/make_model" big "$tmp/big.safetensors" 16
cp "$tmp/big.safetensors" "$tmp/other.safetensors"
"$TOOLS/spoil" bytes "$tmp/other.safetensors" 4096 4 61
for file in big other; do
    expect 0 advise "$tmp/$file.safetensors" --budget 5bits -f nvfp4 --cache "$tmp/two.json" --json
    json_is scored 1
done

# A second budget measures nothing; the same budget gives the same choice on one thread or many.
expect 0 advise "$model" --budget 5.5bits "${few[@]}" "${cache[@]}" --json
json_is scored 0
json_is cached 112
check "a larger budget costs less error" number total.t2 "< $bits5"
expect 0 advise "$model" --budget 5bits "${few[@]}" --json -j 1
json_is total.t2 "$bits5"

# --- recipes ------------------------------------------------------------------------------------
expect 0 advise "$model" --budget 5bits "${few[@]}" "${cache[@]}" -o "$tmp/recipe.json" --wide
output_says 'why$'
expect 4 advise "$model" --budget 5bits "${few[@]}" "${cache[@]}" -o "$tmp/recipe.json"
error_says 'exists; -y replaces it'
expect 0 quantize "$model" --recipe "$tmp/recipe.json" -o "$tmp/q"
error_says '28 tensors measured as promised, 0 not, 0 edited'
expect 0 verify "$model" "$tmp/q" --json
check "the size that was promised" test "$(json 'tensors.*.bytes' | awk '{ s += $1 } END { printf "%.0f", s }')" \
    = "$("$TOOLS/json_get" 'promise.tensors.*.bytes' <"$tmp/recipe.json" | awk '{ s += $1 } END { printf "%.0f", s }')"

# In a layout whose loaders fuse layers these share a scale, which moves their errors a little.
expect 0 advise "$model" --budget 4.6bits -f nvfp4:4/6 --only '*layers.0.*' -o "$tmp/fp4.json"
for layout in kerf modelopt; do
    expect 0 quantize "$model" --recipe "$tmp/fp4.json" --layout $layout -o "$tmp/fp4_$layout"
    error_says '7 tensors measured as promised, 0 not, 0 edited'
done

# Edited by hand: a glob, and a tensor kept.
sed 's/"rules": \[/"rules": [{"tensors": ["*"], "codec": "keep"},/' "$tmp/recipe.json" >"$tmp/same.json"
expect 0 quantize "$model" --recipe "$tmp/same.json" -o "$tmp/same"
same_file "$tmp/q/model.safetensors" "$tmp/same/model.safetensors"
sed 's/"promise"/"note": 1, "promise"/; s/\("rules": \[\)/\1/; s/^ \],/  , {"tensors": ["*o_proj*"], "codec": "keep"}],/' \
    "$tmp/recipe.json" >"$tmp/edited.json"
expect 0 quantize "$model" --recipe "$tmp/edited.json" -o "$tmp/edited"
error_says '24 tensors measured as promised, 0 not, 4 edited'
expect 0 quantize "$model" --recipe "$tmp/recipe.json" --tensor '*layers.0.*down_proj*=int8' -o "$tmp/over"
error_says '27 tensors measured as promised, 0 not, 1 edited'

# A promise that does not hold is a mismatch: of an error, of a size, of another model.
sed '0,/"t2": 0.00/s//"t2": 0.01/' "$tmp/recipe.json" >"$tmp/better.json"
run quantize "$model" --recipe "$tmp/better.json" -o "$tmp/better"
check "exit code 1 for a t2 that is not so" test "$code" -eq 1
error_says 't2 was promised as'
error_says '27 tensors measured as promised, 1 not'
sed '0,/"bytes": [0-9]*,/s//"bytes": 1,/' "$tmp/recipe.json" >"$tmp/smaller.json"
run quantize "$model" --recipe "$tmp/smaller.json" -o "$tmp/smaller"
check "exit code 1 for a size that is not so" test "$code" -eq 1

# --- limits -------------------------------------------------------------------------------------
expect 0 advise "$model" --budget 5bits --budget 2.9MB "${few[@]}" "${cache[@]}" --json
check "both limits hold" awk -v a="$(json total.bytes)" -v k="$(json kept_bytes)" 'BEGIN { exit !(a + k <= 2.9e6) }'
expect 0 advise "$model" --budget 110us:likely --hardware b200 "${few[@]}" "${cache[@]}" --json
check "the step takes 110 us at most" awk -v a="$(json total.us)" -v o="$(json other_us)" 'BEGIN { exit !(a + o <= 110) }'
json_is tier spec-only
expect 0 advise "$model" --budget 110us:likely --hardware b200 "${few[@]}" "${cache[@]}"
output_says 'holds in part of the band only'
output_says ' to .* tokens/s, .* in the middle (spec-only)'
expect 5 advise "$model" --budget 110us --hardware b200 "${few[@]}" "${cache[@]}" # the slow end counts
error_says 'at the slow end'
expect 0 advise "$model" --budget 1.2ms --hardware b200 "${few[@]}" "${cache[@]}" --json
check "its slow end is within 1.2 ms" awk -v a="$(json total.high_us)" -v o="$(json other_high_us)" 'BEGIN { exit !(a + o <= 1200) }'
expect 0 advise "$model" --budget 1.2ms --hardware b200 "${few[@]}" "${cache[@]}"
output_says 'holds in the whole band'
# Weights and cache in the memory of the machine: 100000 sequences of 4096 tokens take 839 GB.
expect 0 advise "$model" --budget 9bits --hardware t4 "${few[@]}" "${cache[@]}"
check "it fits" bash -c "! grep -q 'not fit' '$tmp/out'"
expect 0 advise "$model" --budget 9bits --hardware t4 -b 100000 "${few[@]}" "${cache[@]}" --report "$tmp/fits.html"
output_says 'it does not fit: weights and cache take 838.8[67] GB, of 16 GB of memory'
check "the page says so, too" grep -q 'It does not fit' "$tmp/fits.html"
expect 0 advise "$model" --budget 9bits --hardware t4 -b 100000 --gpus 4 "${few[@]}" "${cache[@]}"
output_says 'it does not fit: weights and cache take 209.72 GB on each GPU'
for machine in t4:true h200:true epyc-9654:null; do
    expect 0 advise "$model" --budget 9bits --hardware "${machine%:*}" "${few[@]}" "${cache[@]}" --json
    json_is fits "${machine#*:}"
done
expect 2 advise "$model" --budget 5bits:likely "${few[@]}" "${cache[@]}"
expect 2 advise "$model" --budget 5us:maybe --hardware b200 "${few[@]}" "${cache[@]}"
expect 0 advise "$model" --minimise time --budget 0.05t2 --hardware gb10 "${few[@]}" "${cache[@]}" --json
check "t2 under its limit" number total.t2 '<= 0.05'
time=$(json total.us)
expect 0 advise "$model" --minimise bytes --budget 0.05t2 --hardware gb10 "${few[@]}" "${cache[@]}" --json
check "t2 under its limit" number total.t2 '<= 0.05'
check "least time is no more than that of least bytes" number total.us ">= $time"
expect 0 advise "$model" --budget 5bits --nested "${few[@]}" "${cache[@]}" --json
check "nested is not better than the best" number total.t2 ">= $bits5"

# A kernel that is slower than the one of the source's type: in bytes its format looks fine, in time
# it is no candidate, and the report says why the group stays as it is.
said='"source": "test", "date": "2026-11"'
fit() { echo "{\"format\": \"$1\", \"batch\": [1, 8], \"fixed_us\": $2, \"bandwidth_gbps\": 4000, $said}"; }
"$KERF" hardware h200 --json |
    sed "s/\"fits\": \[\]/\"fits\": [$(fit bf16 2), $(fit nvfp4 9), $(fit int8 1)]/" >"$tmp/slow.json"
expect 0 advise "$model" --minimise time --budget 9t2 --hardware "$tmp/slow.json" -f nvfp4 "${cache[@]}" --json
check "all kept" test "$(json 'groups.*.codec' | sort -u)" = keep
check "and it says why" test "$(json 'groups.*.reason' | grep -c '^no candidate is faster; .*next best nvfp4:amax')" -eq 16
json_is time_curve.0.t2 0.0
expect 0 advise "$model" --minimise time --budget 9t2 --hardware "$tmp/slow.json" -f nvfp4,int8 "${cache[@]}" --json
check "the faster one" test "$(json 'groups.*.codec' | sort -u)" = int8:amax
check "the curve over time falls" awk 'NR > 1 && $1 > last { exit 1 } { last = $1 }' <(json 'time_curve.*.t2')

# What runs besides the groups takes its part of a step.
expect 0 advise "$model" --budget 16bits --hardware b200 "${few[@]}" "${cache[@]}" --json
other=$(json other_us) tight=$(json 'time_curve.*.us' | sed -n 9p)
limit=$(awk -v a="$other" -v b="$tight" 'BEGIN { printf "%.6f", a + b }')
check "keeping all takes longer" awk -v a="$(json total.us)" -v b="$tight" 'BEGIN { exit !(a > b) }'
expect 0 advise "$model" --budget "${limit}us:likely" --hardware b200 "${few[@]}" "${cache[@]}" --json
check "a step within $limit us" awk -v a="$(json total.us)" -v o="$other" -v l="$limit" 'BEGIN { exit !(a + o <= l) }'

# Tokens of all sequences count: twice the batch may take twice the time.
for batch in 1 2; do
    expect 0 advise "$model" --budget $((batch * 13500))tok/s:likely --batch $batch --context 64 --hardware b200 "${few[@]}" \
        "${cache[@]}" --json
    check "a step of $batch in 1/13500 s" awk -v a="$(json total.us)" -v o="$(json other_us)" \
        'BEGIN { exit !(a + o <= 1e6 / 13500) }'
done

# A config.json that does not say the sizes is told so, and not that there is none.
mkdir "$tmp/sparse"
cp "$model"/*.safetensors "$tmp/sparse"
sed 's/"vocab_size": *[0-9]*,\{0,1\}//' "$model/config.json" >"$tmp/sparse/config.json"
run advise "$tmp/sparse" --budget 60tok/s --hardware b200 -f nvfp4
check "exit code 2 without sizes" test "$code" -eq 2
error_says 'products alone: .*/sparse/config.json: no vocab_size'
error_says 'tok/s needs a model whose sizes its config.json says, beside the weights or by --config FILE'
expect 0 advise "$tmp/sparse" --config "$model/config.json" --budget 60tok/s --hardware b200 -f nvfp4

# What cannot be says what could.
expect 5 advise "$model" --budget 4bits "${few[@]}" "${cache[@]}"
error_says 'it would take 4.5003 bits'
expect 0 advise "$model" --budget 4.5004bits "${few[@]}" "${cache[@]}" --json
expect 5 advise "$model" --budget 1MB "${few[@]}" "${cache[@]}"
error_says 'what is kept takes 1053184 bytes already'
error_says 'it would take 4.5003 bits, 2822'
expect 5 advise "$model" --budget 1us --hardware b200 "${few[@]}" "${cache[@]}"
error_says 'other operators take .* already at the slow end; or .* us a step, .* tok/s'

# --- what errors weigh --------------------------------------------------------------------------
expect 0 advise "$model" --budget 5bits --imatrix "$model/imatrix.safetensors" "${few[@]}" "${cache[@]}" --json
json_is scored 112
check "and it says so" sh -c "'$KERF' advise '$model' --budget 5bits -f nvfp4 --imatrix '$model/imatrix.safetensors' | grep -q 't2 of 28 weighted'"
"$TOOLS/make_model" groups "$tmp/groups.safetensors"
expect 3 advise "$model" --budget 5bits -f nvfp4 --imatrix "$tmp/groups.safetensors"
error_says 'names none of the tensors'
expect 0 advise "$model" --budget 5bits --imatrix "$model/imatrix.safetensors" "${few[@]}" "${cache[@]}" --json
check "weighted errors differ" test "$(json total.t2)" != "$bits5"
expect 0 advise "$model" --budget 5bits --alpha depth "${few[@]}" "${cache[@]}" --json
json_is alpha 'built-in curves over depth, fitted to other models'
echo '{"schema": "kerf.alpha/1", "alpha": {"*": 1, "*down_proj*": 100}}' >"$tmp/alpha.json"
expect 0 advise "$model" --budget 5bits --alpha "$tmp/alpha.json" "${few[@]}" "${cache[@]}" --json
check "what matters more gets more bits" awk -F '\t' '
    $1 ~ /down_proj/ && $2 < 6 { exit 1 }' <(paste <(json 'groups.*.name') <(json 'groups.*.bits'))
echo '{"schema": "kerf.alpha/1", "alpha": {"*": 0}}' >"$tmp/alpha.json"
expect 3 advise "$model" --budget 5bits --alpha "$tmp/alpha.json" "${few[@]}" "${cache[@]}"

# --- experts ------------------------------------------------------------------------------------
# All experts of a layer are one group; a pattern names them where it takes in nothing else.
"$TOOLS/make_model" moe "$tmp/moe.safetensors"
cat >"$tmp/moe.json" <<'END'
{"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 64,
 "num_attention_heads": 4, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 1,
 "moe_intermediate_size": 32}
END
moe=(advise "$tmp/moe.safetensors" --config "$tmp/moe.json" --hardware gb10 -f nvfp4,int8 --json)
expect 0 "${moe[@]}" --budget 6bits -o "$tmp/moe_recipe.json"
json_is groups.# 3
json_is groups.0.name layers.0.mlp.experts
json_is groups.0.tensors.# 12
json_is groups.2.tensors.# 2
check "a pattern for many" grep -qF '"layers.0.mlp.experts.*"' "$tmp/moe_recipe.json"
check "none that takes in biases" sh -c "! grep -qF 'layers.1.mlp.experts.*' '$tmp/moe_recipe.json'"
# With time for bytes alone, one token reads one expert of four, and 64 tokens read them all.
"$KERF" hardware gb10 --json | sed "s/\"fits\": \[\]/\"fits\": [{\"format\": \"bf16\", \"batch\": [1, 999], \
\"fixed_us\": 0, \"bandwidth_gbps\": 0.01, $said}]/" >"$tmp/bytes.json"
moe[5]=$tmp/bytes.json
expect 0 "${moe[@]}" --budget 6bits
one=$(json groups.0.candidates.2.us)
expect 0 "${moe[@]}" --budget 6bits --batch 64
check "more tokens choose more experts" awk -v one="$one" -v many="$(json groups.0.candidates.2.us)" \
    'BEGIN { exit !(many / one > 3.5 && many / one < 12) }'
expect 0 quantize "$tmp/moe.safetensors" --recipe "$tmp/moe_recipe.json" -o "$tmp/moe_q.safetensors"
error_says ' 0 not, 0 edited'

# --- reports ------------------------------------------------------------------------------------
for kind in html md json; do
    expect 0 advise "$model" --budget 5bits --hardware h200 "${few[@]}" "${cache[@]}" --report "$tmp/r.$kind"
    check "a $kind report" test -s "$tmp/r.$kind"
done
check "charts: two curves, a roofline, two maps" test "$(grep -c '<svg' "$tmp/r.html")" -eq 5
check "a rectangle per group and map" test "$(grep -c '<rect.*><title>' "$tmp/r.html")" -eq 32
check "nothing is fetched" sh -c "! grep -qE 'https?:|<script|<link|url\(|@import' '$tmp/r.html'"
check "no figure is missing" sh -c "! grep -qE '(nan|inf)[^o]' '$tmp/r.html'"
if command -v xmllint >/dev/null; then
    sed -e '1d' -e 's/<meta[^>]*>//g' "$tmp/r.html" >"$tmp/r.xml"
    check "tags close" xmllint --noout "$tmp/r.xml"
fi
check "a row per group" test "$(grep -c '^| model' "$tmp/r.md")" -eq 16
check "the schema" test "$("$TOOLS/json_get" schema <"$tmp/r.json")" = kerf.advise/1

# --- bits as they are printed --------------------------------------------------------------------
# A scale per tensor makes 4.5003 of 4.5, and every table says 4.500.
expect 0 advise "$model" --budget 4.5bits -f nvfp4 --report "$tmp/printed.html"
output_says '4.500 bits per weight'
check "the page agrees" grep -q 'Limits: 4.5 bits per weight holds' "$tmp/printed.html"
expect 0 advise "$model" --budget 4.5bits -f nvfp4,int4-g32 --tokens "$model/eval.u16" --length 64 --rows 0:2 --json
json_is 'groups.0.codec' nvfp4:amax
expect 5 advise "$model" --budget 4.499bits -f nvfp4

# What is measured beside the choice keeps the other limits, too.
"$KERF" hardware gb10 --json | sed "s/\"fits\": \[\]/\"fits\": [{\"format\": \"bf16\", \"batch\": [1, 999], \
\"fixed_us\": 0, \"bandwidth_gbps\": 1000, $said}, {\"format\": \"nvfp4\", \"batch\": [1, 999], \
\"fixed_us\": 900, \"bandwidth_gbps\": 1, $said}]/" >"$tmp/slow.json"
expect 0 advise "$model" --budget 10bits --budget 300us:likely --hardware "$tmp/slow.json" -f nvfp4,int8-g128 --tokens "$model/eval.u16" --length 64 --rows 0:2 --json
json 'measured.*.codec' >"$tmp/measured"
check "not nvfp4: $(tr '\n' ' ' <"$tmp/measured")" bash -c "grep -q int8 '$tmp/measured' && ! grep -q nvfp4 '$tmp/measured'"

# --- wrong --------------------------------------------------------------------------------------
expect 2 advise "$model"
error_says 'budget is missing'
for wrong in x 0bits -1bits 4.5furlongs 1e99GB 4.5bits5; do
    expect 2 advise "$model" --budget "$wrong"
    error_says 'expected a number above 0'
done
expect 2 advise "$model" --budget 100us
error_says 'need --hardware'
expect 2 advise "$model" --budget 0.1t2
expect 2 advise "$model" --budget 5bits --minimise bytes
for option in --bos --length=64 --rows=0:2; do # rows of nothing
    expect 2 advise "$model" --budget 5bits "$option"
    error_says "advise: ${option%=*} is for --text or --tokens"
done
expect 2 advise "$model" --budget 5bits --report "$tmp/report.pdf"
expect 2 advise "$model" --budget 5bits --hardware h2000
expect 3 advise "$model" --budget 5bits --cache "$model/config.json"
error_says 'not a file of scores'
expect 2 quantize "$model" -o "$tmp/none"
expect 4 quantize "$model" --recipe "$tmp/absent.json" -o "$tmp/none"
recipe() { # JSON of the rules
    echo "{\"schema\": \"kerf.recipe/1\", \"rules\": $1}" >"$tmp/bad.json"
}
recipe '[]'
expect 3 quantize "$model" --recipe "$tmp/bad.json" -o "$tmp/none"
error_says 'one rule at least'
recipe '[{"tensors": ["*"], "codec": "nvfp5"}]'
expect 3 quantize "$model" --recipe "$tmp/bad.json" -o "$tmp/none"
error_says 'rules\[0\]'
recipe '[{"tensors": [7], "codec": "nvfp4"}]'
expect 3 quantize "$model" --recipe "$tmp/bad.json" -o "$tmp/none"
recipe '[{"tensors": ["*nothing*"], "codec": "nvfp4"}]'
expect 2 quantize "$model" --recipe "$tmp/bad.json" -o "$tmp/none"
error_says '--recipe \*nothing\* matches no tensor'
recipe '[{"tensors": ["*q_proj*"], "codec": "nvfp4"}]'
expect 0 quantize "$model" --recipe "$tmp/bad.json" -o "$tmp/some" --json
json_is totals.quantized 4
row_is tensors model.norm.weight reason norm
row_is tensors model.layers.0.mlp.up_proj.weight reason 'not in the recipe'
# The choice was measured, and one format of its size loses less on this row: that format is chosen.
expect 0 advise "$model" --budget 4.26bits -f mxfp4,nvfp4,int4-g128,int8 --imatrix "$model/imatrix.safetensors" \
    --tokens "$model/eval.u16" --length 256 --rows 9:10 --cache "$tmp/way.json" -o "$tmp/way-recipe.json" --json
json_is measured.0.recommended false
json_is measured.1.codec mxfp4:even
json_is measured.1.recommended true
check "it measured better" awk -v choice="$(json measured.0.kl)" -v one="$(json measured.1.kl)" \
    'BEGIN { exit !(one < choice) }'
check "and says so of every group" test \
    "$(json 'groups.*.reason' | grep -c '^mxfp4:even for all groups measured a KL of ')" = 16
expect 0 quantize "$model" --recipe "$tmp/way-recipe.json" -o "$tmp/way" --json
check "and the recipe has it everywhere" test "$(json 'tensors.*.format' | grep -c '^mxfp4:even$')" = 28

# Two GPUs share a model: each has half of the heads, and they exchange sums.
expect 0 advise "$model" --budget 9bits --hardware h100 --gpus 2 -f int8 --cache "$tmp/gpus.json" --json
json_is gpus 2
two=$(json other_us)
expect 0 advise "$model" --budget 9bits --hardware h100 -f int8 --cache "$tmp/gpus.json" --json
json_is gpus 1
check "an exchange costs time" awk -v a="$two" -v b="$(json other_us)" 'BEGIN { exit !(a > b) }'
expect 0 advise "$model" --budget 9bits --hardware h100 --gpus 2 -f int8 --cache "$tmp/gpus.json"
output_says '^2 x h100, batch 1'
output_says 'of weights on each of the 2 GPUs'
expect 2 advise "$model" --budget 9bits --gpus 2
error_says -- '--gpus needs --hardware'
expect 2 advise "$model" --budget 9bits --hardware h100 --expert-parallel
error_says -- '--expert-parallel needs --gpus'
expect 2 advise "$model" --budget 9bits --hardware h100 --gpus 3
error_says 'cannot be divided by 3 GPUs'
finish
