#!/usr/bin/env bash
# command.sh - the command with --device cuda: the files of the processor, bit for bit, and what it
# says when a GPU is not there or full.
#
#   command.sh KERF [GPU_EQUAL]
#
# GPU_EQUAL can fill a real GPU before it starts a command; without it KERF is kerf_pretend, whose
# GPUs are as full as one likes. Exit code 77: no GPU.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export KERF=${1:?path of the command} TOOLS=$here DATA=$here/../data
filler=${2:-}
. "$here/../cli/lib.sh"
run quantize "$model" -f mxfp4 -o "$tmp/probe" --device cuda
[ "$code" -ne 6 ] || { echo "skipped: $(cat "$tmp/err")" && exit 77; }

devices=(cuda cuda:0,0 cuda:all)
one_file() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$2"; }

# same_model NAME A B: all files of two folders have the same names and sha256.
same_model() {
    one_file "$2" "$tmp/a.sum" && one_file "$3" "$tmp/b.sum"
    check "$1: the same sha256 as on the processor" cmp -s "$tmp/a.sum" "$tmp/b.sum"
}

# --- the same files -----------------------------------------------------------------------------
i=0
for codec in fp8-e4m3 fp8-e4m3-row fp8-e4m3-128x128 mxfp8-e4m3 mxfp6-e2m3 mxfp4 nvfp4:amax nvfp4:4/6 \
    nvfp4:sweep nvfp4:torchao nf4 nf4-dq int8 int8-asym int4-g128 int4-g32-asym int4-g128:search bf16; do
    device=${devices[i++ % 3]}
    rm -rf "$tmp/cpu" "$tmp/gpu" "$tmp/cpu-back" "$tmp/gpu-back"
    expect 0 quantize "$model" -f "$codec" -o "$tmp/cpu"
    expect 0 quantize "$model" -f "$codec" -o "$tmp/gpu" --device "$device"
    same_model "quantize -f $codec --device $device" "$tmp/cpu" "$tmp/gpu"
    expect 0 dequantize "$tmp/cpu" -o "$tmp/cpu-back" --dtype fp32
    expect 0 dequantize "$tmp/gpu" -o "$tmp/gpu-back" --dtype fp32 --device "$device"
    same_model "dequantize from $codec --device $device" "$tmp/cpu-back" "$tmp/gpu-back"
    echo "$codec --device $device: $(sha256sum <"$tmp/gpu/model.safetensors" | cut -c 1-16)"
done
for layout in modelopt compressed-tensors; do # layers that share a scale
    rm -rf "$tmp/cpu" "$tmp/gpu"
    expect 0 quantize "$model" -f nvfp4 --layout $layout -o "$tmp/cpu"
    expect 0 quantize "$model" -f nvfp4 --layout $layout -o "$tmp/gpu" --device cuda:all
    same_model "quantize --layout $layout" "$tmp/cpu" "$tmp/gpu"
done

# --- error feedback -----------------------------------------------------------------------------
expect 0 calibrate "$DATA/tiny-llama" --tokens "$DATA/tiny-llama/eval.u16" --rows 0:4 --gram \
    --alpha-by none -o "$tmp/moments"
i=0
for codec in nvfp4:4/6 nvfp4:sweep mxfp4 int4-g128 int4-g32-asym:search int8 fp8-e4m3-128x128 q4_k; do
    device=${devices[i++ % 3]}
    rm -rf "$tmp/fed-cpu" "$tmp/fed-gpu"
    feedback=(-f "$codec" --calibration "$tmp/moments" --feedback)
    expect 0 quantize "$DATA/tiny-llama" "${feedback[@]}" -o "$tmp/fed-cpu"
    expect 0 quantize "$DATA/tiny-llama" "${feedback[@]}" -o "$tmp/fed-gpu" --device "$device"
    same_model "quantize -f $codec --feedback --device $device" "$tmp/fed-cpu" "$tmp/fed-gpu"
done
expect 0 verify "$DATA/tiny-llama" "$tmp/fed-gpu" --exact --calibration "$tmp/moments" --device cuda

# --- the same figures ---------------------------------------------------------------------------
expect 0 score "$model" -f nvfp4:4/6,mxfp4,int4-g128 --json
cp "$tmp/out" "$tmp/cpu.json"
expect 0 score "$model" -f nvfp4:4/6,mxfp4,int4-g128 --json --device cuda:all
check "score: the same document" cmp -s "$tmp/cpu.json" "$tmp/out"
expect 0 verify "$model" "$tmp/gpu" --json
cp "$tmp/out" "$tmp/cpu.json"
expect 0 verify "$model" "$tmp/gpu" --json --device cuda:all
check "verify: the same document" cmp -s "$tmp/cpu.json" "$tmp/out"
cp "$tmp/gpu/model.safetensors" "$tmp/whole.safetensors"

# --- the digests of every machine ---------------------------------------------------------------
digests() { grep -oE '"(format|digest)": *"[^"]*"' "$1"; }
expect 0 selftest --json
digests "$tmp/out" >"$tmp/cpu.digests"
expect 0 selftest --json --device cuda
digests "$tmp/out" >"$tmp/gpu.digests"
check "selftest has digests" test "$(wc -l <"$tmp/cpu.digests")" -gt 400
check "selftest: the digests of the processor" cmp -s "$tmp/cpu.digests" "$tmp/gpu.digests"
echo "selftest --device cuda: $(grep -c digest "$tmp/gpu.digests") digests"

# --- what is not there --------------------------------------------------------------------------
expect 6 quantize "$model" -f nvfp4 -o "$tmp/none" --device cuda:99
error_says 'no GPU number 99'
expect 2 quantize "$model" -f nvfp4 -o "$tmp/none" --device cuda:x
expect 2 quantize "$model" -f nvfp4 -o "$tmp/none" --device cuda:all:1
expect 2 quantize "$model" -f nvfp4 -o "$tmp/none" --device cuda:0,
expect 6 quantize "$model" -f nvfp4 -o "$tmp/none" --device cuda:0,99
error_says 'no GPU number 99'
check "nothing was written" test ! -e "$tmp/none"

# A GPU twice beside others is refused, where there are two.
run quantize "$model" -f mxfp4 -o "$tmp/probe-1" --device cuda:1
if [ "$code" -eq 0 ]; then
    expect 2 calibrate "$DATA/tiny-llama" --tokens "$DATA/tiny-llama/eval.u16" --rows 0:100 --alpha-by none \
        -o "$tmp/none" --device cuda:1,0,1
    check "a list of GPUs: nothing was written" test ! -e "$tmp/none"
fi

# --- a forward pass ----------------------------------------------------------------------------
# By cuBLASLt, where it is; the numbers are gpu_forward's matter. A GPU that only pretends has no steps.
text=(--tokens "$DATA/tiny-llama/eval.u16" --rows 0:4)
run eval "$DATA/tiny-llama" "${text[@]}" --device cuda
if [ "$code" -eq 0 ]; then
    cp "$tmp/out" "$tmp/gpu.txt"
    expect 0 eval "$DATA/tiny-llama" "${text[@]}"
    check "eval: the perplexity of the processor" test "$(grep -oE ' 16.000 +[0-9.]+' "$tmp/out")" = \
        "$(grep -oE ' 16.000 +[0-9.]+' "$tmp/gpu.txt")"
    for i in 1 2; do
        expect 0 calibrate "$DATA/tiny-llama" "${text[@]}" --gram -o "$tmp/cal-$i" --device cuda
    done
    same_files() { cmp -s <(cd "$1" && sha256sum ./*.safetensors) <(cd "$2" && sha256sum ./*.safetensors); }
    check "calibrate --device cuda: the same bytes again" same_files "$tmp/cal-1" "$tmp/cal-2"
else
    check "eval: no forward pass, exit code 3" test "$code" -eq 3
    error_says 'built without CUDA\|cuBLASLt'
    expect 3 calibrate "$DATA/tiny-llama" "${text[@]}" -o "$tmp/none" --device cuda
    check "calibrate: nothing was written" test ! -e "$tmp/none"
fi

# --- a GPU that is full -------------------------------------------------------------------------
# full_gpu MIB: kerf with so much memory left must write the right file, or say that memory is short
# and leave nothing.
nothing_left() { [ ! -e "$tmp/full" ] && [ -z "$(find "$tmp" -maxdepth 1 -name '*full*' -print -quit)" ]; }
refused=0
full_gpu() {
    local left=$1
    shift
    code=0
    "$@" "$KERF" quantize "$model" -f nvfp4 --layout compressed-tensors -o "$tmp/full" --device cuda \
        >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
    checks=$((checks + 1))
    case $code in
    0)
        check "with $left MiB: the right file" cmp -s "$tmp/full/model.safetensors" "$tmp/whole.safetensors"
        rm -rf "$tmp/full"
        ;;
    5)
        refused=$((refused + 1))
        check "with $left MiB: one line" test "$(grep -c . "$tmp/err")" -eq 1
        check "with $left MiB: the line says why" grep -q 'too little free memory' "$tmp/err"
        check "with $left MiB: nothing is left" nothing_left
        ;;
    *) note_failure "with $left MiB: exit code $code: $(head -n 3 "$tmp/err")" ;;
    esac
    echo "GPU with $left MiB left: exit code $code$([ $code -eq 0 ] || echo ": $(head -n 1 "$tmp/err")")"
}
if [ -n "$filler" ]; then
    for left in 0 64 256 400 500 520 540 560 600 700 1000 2000; do
        full_gpu "$left" "$filler" beside "$left"
    done
else
    for left in 0 1 2 64; do full_gpu "$left" env KERF_PRETEND_MEMORY=$((left << 20)); done
fi
check "a full GPU was refused at least once" test "$refused" -gt 0
expect 0 quantize "$model" -f nvfp4 --layout compressed-tensors -o "$tmp/again" --device cuda
check "and works when there is room again" cmp -s "$tmp/again/model.safetensors" "$tmp/whole.safetensors"
finish
