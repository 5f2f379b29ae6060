#!/usr/bin/env bash
# said.sh - what the command says of its outputs: a failure after one is in place says that it is
# there, and no path or text of a file writes control characters on a terminal.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$tmp" || exit 70
"$TOOLS/make_model" gaussian a.safetensors
expect 0 quantize a.safetensors -f int8 -o q.safetensors

# Nothing can be printed: the outputs are there, and that is said.
full() { # OUTPUT ARGS...
    local output=$1
    shift
    code=0
    "$KERF" "$@" >/dev/full 2>err </dev/null || code=$?
    check "kerf $*: exit code 4, not $code" test "$code" -eq 4
    check "kerf $*: one line says it: $(cat err)" grep -q "^kerf: .*$output is written, and whole" err
    check "kerf $*: no more" test "$(grep -c '^kerf: ' err)" -eq 1
    check "kerf $*: it is there" test -s "$output"
}
full o.safetensors quantize a.safetensors -f nvfp4 -o o.safetensors --json
full c.safetensors convert q.safetensors --layout kerf -o c.safetensors --json
full d.safetensors dequantize q.safetensors -o d.safetensors --json
full l.json verify a.safetensors q.safetensors --write-limits l.json
full r.json advise a.safetensors --budget 9bits -f int8 -o r.json
full r.html advise a.safetensors --budget 9bits -f int8 --report r.html
run verify missing.safetensors q.safetensors --write-limits never.json
check "nothing was written, nothing is said" test -z "$(grep 'is written' "$tmp/err")"

# ESC, a new line, BEL, DEL, CSI as one character, and what turns the direction of text round.
odd=$'x\033[31m\n\a\177\302\233\342\200\256\342\201\246y'
mkdir "$odd" && cp a.safetensors "$odd/model.safetensors"
printf '{"quantization_config": {"quant_method": "\\u001b]0;a\\u0007", "ignore": ["\\u001b[2J"]}}' >"$odd/config.json"
quiet() {
    run "$@"
    checks=$((checks + 1))
    if cat "$tmp/out" "$tmp/err" | LC_ALL=C grep -q -a $'[\001-\010\013-\037\177]\|\302[\200-\237]\|\342\200[\250-\256]\|\342\201[\246-\251]'; then
        note_failure "kerf $*: $(cat -v "$tmp/out" "$tmp/err" | head -n 5)"
    fi
}
quiet quantize "$odd" -f int8 -o "$odd.1"
quiet quantize "$odd" -f int8 -o "$odd.1"
quiet quantize "$odd" -f int8 -o "$odd.2" --layout compressed-tensors --resume
quiet convert "$odd.1" --layout compressed-tensors -o "$odd.3"
quiet dequantize "$odd.1" -o "$odd.4"
quiet inspect "$odd"
quiet inspect "$odd.3"
quiet score "$odd" -f int8
quiet verify "$odd" "$odd.1"
quiet verify "$odd.1" "$odd"
quiet advise "$odd" --budget 9bits -f int8 -o "$odd.json"
quiet quantize "$odd" --recipe "$odd.json" -o "$odd.5"
quiet predict --hardware h200 --model "$odd"
quiet hardware "$odd"
quiet "$odd"
quiet quantize "$odd" -f "$odd" -o z
finish
