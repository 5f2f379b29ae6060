#!/usr/bin/env bash
# usage.sh - help of every verb, misspellings, and the exit code of each way to be wrong.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$model/model.safetensors

# --- help ---------------------------------------------------------------------------------------
run
check "no verb is a usage error" test "$code" -eq 2
expect 0 --help
output_says '^  quantize '
verbs=$("$KERF" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
for verb in formats inspect quantize dequantize score verify selftest hardware predict advise compare help version; do
    check "the verb $verb is listed" grep -qw "$verb" <<<"$verbs"
done
for verb in $verbs; do
    expect 0 help "$verb"
    cp "$tmp/out" "$tmp/help"
    output_says "^Usage: kerf $verb"
    output_says '^Options:'
    output_says '^  kerf '
    expect 0 "$verb" --help
    same_file "$tmp/out" "$tmp/help"
    check "lines of help $verb are short" awk 'length > 100 { bad = 1 } END { exit bad }' "$tmp/help"
done

# Exit code 1 is explained where exit codes are, for every verb that ends with it.
page=$(cat "$DATA/../../cli/reference.md")
for file in $(cd "$DATA/../../cli/verbs" && grep -l EXIT_MISMATCH cmd_*.c); do
    verb=${file#cmd_} verb=${verb%.c}
    check "kerf help says when $verb ends with 1" \
        grep -Eq "Exit codes:.* 1 [^0-9]*\b$verb\b" <<<"$("$KERF" help | tr '\n' ' ')"
    check "reference.md says when $verb ends with 1" grep -Eq "^\| 1 \|.*(\b$verb\b|--recipe)" <<<"$page"
done

# Every option that help shows is accepted: it fails for its value or operand, not as unknown.
for verb in $verbs; do
    while read -r name; do
        run "$verb" "$name=x" no-such-file no-such-file
        checks=$((checks + 1))
        ! grep -q 'unknown option' "$tmp/err" || note_failure "kerf $verb does not know $name"
    done < <("$KERF" help "$verb" | grep -o '^  ....--[a-z0-9-]*' | grep -o -e '--.*' | grep -v -e --help)
done

# --- version ------------------------------------------------------------------------------------
expect 0 version
output_says '^kerf [0-9]*\.[0-9]*\.[0-9]* '
expect 0 version --json
json_is schema kerf.version/1
expect 0 --version
expect 0 -V

# --- did you mean -------------------------------------------------------------------------------
expect 2 quantise "$source"
error_says 'did you mean quantize?'
expect 2 frobnicate
error_says 'kerf help'
expect 2 quantize "$source" --formt nvfp4
error_says 'did you mean --format?'
expect 2 quantize "$source" -f nvfp5 -o "$tmp/o" # a name of its own, not a slip of the finger
error_says 'unknown format "nvfp5"; kerf formats lists them$'
expect 2 quantize "$source" -f nvpf4 -o "$tmp/o"
error_says 'nvfp4'
expect 2 quantize "$source" -f nvfp4:sweeep -o "$tmp/o"
error_says 'sweep'

# --- usage: 2 -----------------------------------------------------------------------------------
expect 2 quantize
expect 2 quantize "$source"
error_says 'FORMAT'
expect 2 quantize "$source" -f nvfp4
error_says '\-o OUT'
expect 2 quantize "$source" -f nvfp4 -o
expect 2 quantize "$source" extra -f nvfp4 -o "$tmp/o"
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" -j 0
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" -j seven
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --nan maybe
error_says 'saturate'
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --layout gguf
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --progress always
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" -z
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --json=yes
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --zstd-level 99
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --tensor nonsense
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --tensor '*=nope'
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --keep 'no.such.*'
error_says 'no.such'
expect 2 quantize "$source" -f nvfp4 -o "$tmp/o" --only '*norm*'
error_says 'no tensor is left'
expect 2 dequantize "$source"
expect 2 verify "$source"
expect 2 score "$source" -f 'zz*'
expect 2 score "$source" -f 'nvfp4,,mxfp4'
absent "$tmp/o"

# --- device: 6 ----------------------------------------------------------------------------------
if ! nvidia-smi -L >/dev/null 2>&1; then
    expect 6 quantize "$source" -f nvfp4 -o "$tmp/o" --device cuda
    error_says 'device cpu'
fi

# --- input: 3, input and output: 4 --------------------------------------------------------------
echo nothing >"$tmp/bad.safetensors"
expect 3 inspect "$tmp/bad.safetensors"
expect 3 quantize "$tmp/bad.safetensors" -f nvfp4 -o "$tmp/o"
expect 4 inspect "$tmp/no-such.safetensors"
error_says 'no-such.safetensors'
expect 4 quantize "$source" -f nvfp4 -o "$tmp/no-such-folder/deep/o.safetensors"
error_says 'no-such-folder'
expect 3 dequantize "$source" -o "$tmp/o"
error_says 'no quantized tensor'
absent "$tmp/o"

# Nowhere to print to.
if [ -c /dev/full ]; then
    for words in "help" "formats" "formats --json" "inspect $source" "inspect $source --json" \
        "version" "quantize $source -f nvfp4 --dry-run" "score $source -f mxfp4 --json"; do
        code=0
        # shellcheck disable=SC2086 # words on purpose
        "$KERF" $words >/dev/full 2>"$tmp/err" || code=$?
        check "kerf $words >/dev/full ends with 4, not $code" test "$code" -eq 4
        error_says 'standard output'
    done
fi

# A reader that leaves early ends the command, silently.
"$KERF" formats 2>"$tmp/err" | head -n 1 >/dev/null
check "a closed pipe is no error text" test ! -s "$tmp/err"
finish
