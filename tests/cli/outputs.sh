#!/usr/bin/env bash
# outputs.sh - no output of any verb replaces what the verb reads, or another of its outputs, also
# not with -y and whatever links lead there.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$tmp" || exit 70
"$TOOLS/make_model" inputs m
cp "$model/config.json" "$model/tokenizer.json" m
cp "$model/imatrix.safetensors" i.safetensors
"$TOOLS/make_model" groups a.safetensors
expect 0 quantize m -f int8 --layout compressed-tensors -o q
expect 0 advise m --budget 9bits -f int8 -o r.json --report r.html
echo '{"schema": "kerf.alpha/1", "alpha": {"*": 1}}' >alpha.json
echo '{"schema": "kerf.limits/1", "default": {"t2": 1}}' >limits.json
weights=$(ls m | grep 'safetensors$' | head -n 1)
everything() { find . -type f ! -name out ! -name err -exec sha256sum {} + | sort; }
everything >../before.$$
trap 'rm -f "$tmp/../before.$$"; cleanup' EXIT

# refused ARGS...: a usage error that leaves every file as it was.
refused() {
    expect 2 "$@" -y
    error_says 'overwrite its own source\|two outputs have this name'
    check "kerf $*: every file is as before" cmp -s ../before.$$ <(everything)
}
ln -s m soft && ln -s "m/$weights" soft.json && ln "m/$weights" hard.html
ln "m/$weights" hard.safetensors && ln -s m/config.json soft.safetensors
everything >../before.$$

advise=(advise m --budget 9bits -f int8)
verify=(verify m q)
for file in "$weights" config.json tokenizer.json; do
    refused "${advise[@]}" -o "m/$file"
    refused "${advise[@]}" -o "soft/../m/$file"
    refused "${verify[@]}" --write-limits "soft/$file"
done
for file in q/*; do refused "${verify[@]}" --write-limits "$file"; done
refused "${advise[@]}" -o soft.json
refused "${advise[@]}" --report hard.html
refused "${advise[@]}" --report m/tokenizer.json
refused "${advise[@]}" --alpha alpha.json -o alpha.json
refused "${advise[@]}" --imatrix i.safetensors -o i.safetensors
refused "${advise[@]}" --config m/config.json -o m/../m/config.json
refused advise a.safetensors --budget 9bits -f int8 -o ./a.safetensors
refused advise "m/$weights" --budget 9bits -f int8 --report m/config.json # read beside it
refused "${verify[@]}" --limits limits.json --write-limits limits.json
refused quantize m -f int8 -o m
refused quantize soft -f int8 -o m
refused quantize m -f int8 -o hard.safetensors
refused quantize m -f int8 -o soft.safetensors
refused convert q --layout kerf -o q
refused dequantize q -o q

# Verbs that run a text.
head -c 64 /dev/zero >t.u16 && echo a >t.txt && echo '{"schema": "kerf.eval-limits/1", "kl": 1}' >e.json
ln -s t.txt t.gguf && ln -s m/config.json c.xml && ln -s e.json e.md && ln -s none p.xml && ln -s none p.md
everything >../before.$$
refused calibrate m --tokens t.u16 -o m
refused calibrate m --tokens t.u16 -o t.u16
refused calibrate m --text t.txt --imatrix-gguf t.gguf -o x
refused eval m q --tokens t.u16 --junit c.xml
refused eval m q --tokens t.u16 --limits e.json --markdown e.md
refused eval m q --tokens t.u16 --junit p.xml --markdown p.md

# The page as a file: the advice, and what the advice names.
expect 0 advise m --budget 9bits -f int8 --hardware h200 --json
cp out advice.json && ln -s advice.json page.html
everything >../before.$$
if "$KERF" serve --page probe.html --shape 64x64 >out 2>err || ! grep -q 'without libmicrohttpd' err; then
    rm -f probe.html
    refused serve --page advice.json --advice advice.json
    refused serve --page page.html --advice advice.json
    refused serve --page m/config.json --advice advice.json
    refused serve --page soft/config.json --model m
    expect 0 serve --page probe.html --advice advice.json --shape 64x64
    expect 4 serve --page probe.html --advice advice.json --shape 64x64
    rm probe.html
fi

# A folder goes with all that is in it.
mkdir keep && cp r.json alpha.json keep
everything >../before.$$
refused quantize m --recipe keep/r.json -o keep
refused advise m --budget 9bits -f int8 --alpha keep/alpha.json -o keep/alpha.json

# Two outputs on one path.
refused "${advise[@]}" -o x.json --report x.json
refused "${advise[@]}" -o x.json --report soft/../x.json
refused "${advise[@]}" -o x.json --cache x.json
ln -s x.json y.json
refused "${advise[@]}" -o x.json --report y.json
ln r.json r2.json
everything >../before.$$
refused "${advise[@]}" -o r.json --report r2.json
refused "${advise[@]}" --cache s.json --report s.json

# A pipe or a device is not replaced.
mkfifo pipe.json
expect 4 "${advise[@]}" -o pipe.json -y
error_says 'not a regular file'
check "the pipe is there" test -p pipe.json

# What kerf wrote may stand in the folder of the model, and be written again.
for _ in 1 2; do
    expect 0 "${advise[@]}" -o m/recipe.json --report m/report.html --cache m/scores.json -y
    expect 0 "${advise[@]}" --report m/report.md -y
done
# A name that is a format too is a name.
for _ in 1 2; do expect 0 quantize m -f int8 -o int8 -y; done

# A folder that is not there is said before the work, here before a source that is no good. What only shows a plan may
# be for another machine.
"$TOOLS/make_model" nan n.safetensors
homeless() {
    expect 4 "$@"
    error_says '^kerf: none: cannot write into this folder (mkdir -p makes it)'
}
homeless advise n.safetensors --budget 9bits -f int8 -o none/r.json
homeless advise n.safetensors --budget 9bits -f int8 --report none/r.html
homeless advise n.safetensors --budget 9bits -f int8 --cache none/c.json
homeless verify n.safetensors no-such.safetensors --junit none/j.xml
homeless verify n.safetensors no-such.safetensors --markdown none/m.md
homeless verify n.safetensors no-such.safetensors --write-limits none/l.json
homeless calibrate m --tokens no-such.u16 -o none/cal
homeless calibrate m --tokens no-such.u16 -o x --imatrix-gguf none/i.gguf
homeless eval m --tokens no-such.u16 --junit none/e.xml
homeless score n.safetensors -f int8 -o none/scores/
expect 0 quantize m -f int8 -o none/o --dry-run
finish
