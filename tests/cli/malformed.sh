#!/usr/bin/env bash
# malformed.sh - every bad file of the corpus ends inspect and quantize with one line of error and
# the exit code of its kind, and never leaves an output.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$TOOLS/make_malformed" "$tmp/corpus" >"$tmp/list"
bad_input=0 bad_gguf=0
while read -r status path; do
    case $status in
    KERF_E_DATA | KERF_E_NOSUP | KERF_E_RANGE) wanted=3 ;;
    KERF_E_LIMIT) wanted=5 ;; # well formed, but above a documented bound
    *) wanted=0 && note_failure "$path: unexpected kind $status" ;;
    esac
    [ "$wanted" -eq 3 ] && bad_input=$((bad_input + 1))
    [ "$wanted" -eq 3 ] && [[ $path = *.gguf ]] && bad_gguf=$((bad_gguf + 1))
    expect "$wanted" inspect "$path"
    out=$tmp/folder # every other time
    [ $((checks % 2)) -eq 0 ] || out=$tmp/o.safetensors
    expect "$wanted" quantize "$path" -f nvfp4 -o "$out"
    absent "$out"
done <"$tmp/list"
check "at least 60 cases of bad input, not $bad_input" test "$bad_input" -ge 60
check "at least 60 of them GGUF files, not $bad_gguf" test "$bad_gguf" -ge 60
# What other programs make, and kerf never opens.
mkdir "$tmp/pickle"
printf 'PK\003\004\000\000\010\010\000\000\000\000\000\000' >"$tmp/pickle/pytorch_model.bin"
printf '\200\002}q\000X\006\000\000\000weight' >"$tmp/old.pt"
for source in "$tmp/pickle" "$tmp/pickle/pytorch_model.bin" "$tmp/old.pt"; do
    expect 3 inspect "$source"
    error_says 'a pickle of PyTorch, which runs what it holds'
done
finish
