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
