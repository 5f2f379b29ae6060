#!/usr/bin/env bash
# hardware.sh - the registry on screen, as JSON, and as a file that is read back.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 hardware --wide
output_says '^h200  *NVIDIA H200'
output_says 'unverified'
expect 0 hardware gb10
output_says '^fp4_tflops  *500 '
output_says 'unverified: '
expect 0 hardware --json
json_is schema kerf.hardware-list/1
names=$(json 'hardware.*.name')
check "at least 14 machines" test "$(wc -l <<<"$names")" -ge 14

# What is printed can be read, and says the same.
for name in $names; do
    expect 0 hardware "$name" --json
    cp "$tmp/out" "$tmp/$name.json"
    expect 0 hardware "$tmp/$name.json" --json
    same_file "$tmp/out" "$tmp/$name.json"
done
json_is schema kerf.hardware/1

# So can what was fitted.
fit='{"format": "nvfp4", "batch": [1, 1], "fixed_us": 2, "bandwidth_gbps": 4000, "input_us": 0.5,
 "round_us": [1.5, 0, 2.5], "stage_us": [0.25, 0.5, 1], "source": "test", "date": "2026-11"}'
"$KERF" hardware h200 --json | awk -v fit="${fit//$'\n'/}" '{ sub(/"fits": \[\]/, "\"fits\": [" fit "]"); print }' >"$tmp/fit.json"
expect 0 hardware "$tmp/fit.json" --json
json_is fits.0.input_us 0.5
json_is fits.0.round_us.2 2.5
json_is fits.0.stage_us.1 0.5
cp "$tmp/out" "$tmp/again.json"
expect 0 hardware "$tmp/again.json" --json
same_file "$tmp/out" "$tmp/again.json"

# And a tuning, which is of a GPU and has factors of its own alone.
tuning='"tuning": {"factors": {"blocks_plain": 0.5, "wide": 1024}, "rules": 3, "source": "a test", "date": "2026-11"},'
"$KERF" hardware h200 --json | sed "s/^  \"facts\"/  $tuning\n&/" >"$tmp/tuned.json"
expect 0 hardware "$tmp/tuned.json" --json
json_is tuning.factors.blocks_plain 0.5
json_is tuning.factors.wide 1024.0
json_is tuning.source 'a test'
json_is tuning.rules 3
cp "$tmp/out" "$tmp/again.json"
expect 0 hardware "$tmp/again.json" --json
same_file "$tmp/out" "$tmp/again.json"
expect 0 hardware "$tmp/tuned.json"
output_says 'a test, 2026-11'
output_says '^blocks_plain  *0.5'
sed 's/"blocks_plain": 0.5, "wide": 1024/"few_light": 1/' "$tmp/tuned.json" >"$tmp/rules.json"
expect 0 hardware "$tmp/rules.json"
output_says 'rules stay as they are'
sed 's/"rules": 3/"rules": 999/' "$tmp/tuned.json" >"$tmp/old.json"
expect 0 hardware "$tmp/old.json"
output_says 'measure again'
expect 0 predict --hardware "$tmp/tuned.json" -f nvfp4 --shape 4096x4096
while IFS='|' read -r change said; do
    sed "$change" "$tmp/tuned.json" >"$tmp/bad.json"
    expect 3 hardware "$tmp/bad.json"
    error_says "$said"
done <<'END'
s/blocks_plain/blocks_planes/|unknown factor blocks_planes
s/"wide": 1024/"wide": 1025/|wide must be a number from
s/"wide": 1024/"wide": 0/|wide must be a number from
s/"wide": 1024/"wide": "1"/|wide must be a number from
s/"factors": {[^}]*}/"factors": []/|factors must be an object
s/"rules": 3/"rules": 0/|rules must be a number from
s/"rules": 3, //|rules must be a number from
s/"source": "a test", "date"/"date"/|source must be a text
s/"kind": "gpu"/"kind": "cpu"/|only a GPU has one
END

expect 2 hardware b20 # which is another machine than B200
error_says 'kerf hardware lists them'
expect 2 hardware rxt4090
error_says 'did you mean rtx4090'
expect 2 hardware zx81-with-tape
error_says 'kerf hardware lists them'
expect 4 hardware "$tmp/absent.json"
sed 's/"value": 500.0/"value": 2000.0/' "$tmp/gb10.json" >"$tmp/sparse.json"
expect 3 hardware "$tmp/sparse.json"
error_says 'fp4_tflops is 16.0 times bf16_tflops'
head -c 1000 "$tmp/gb10.json" >"$tmp/cut.json"
expect 3 hardware "$tmp/cut.json"
finish
