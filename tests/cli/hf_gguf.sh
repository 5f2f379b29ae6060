#!/usr/bin/env bash
# hf_gguf.sh - a Hugging Face folder straight to a GGUF file for llama.cpp: names, order of rows, keys,
# tokenizer; blocks of two levels; importance as llama.cpp writes it; what cannot be is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
llama=$DATA/tiny-llama

# --- names and keys -----------------------------------------------------------------------------
expect 0 quantize "$llama" -f q4_k -o "$tmp/q4.gguf"
run inspect "$tmp/q4.gguf" --json
row_is weights blk.0.attn_q.weight format q4_k
row_is weights blk.3.ffn_down.weight format q4_k
row_is weights token_embd.weight dtype BF16
row_is weights blk.0.attn_norm.weight dtype F32 # llama.cpp has vectors in F32
json_is totals.quantized 28
for key in llama.block_count llama.rope.freq_base tokenizer.ggml.tokens tokenizer.ggml.merges general.file_type; do
    check "$key is written" grep -qa "$key" "$tmp/q4.gguf"
done
expect 0 verify "$llama" "$tmp/q4.gguf"
output_says 'passed: 28 tensors measured, 10 equal to the source'
expect 0 quantize "$llama" -f q6_k --keep '*layers.0.*' -o "$tmp/kept.gguf" # names of either kind
run inspect "$tmp/kept.gguf" --json
json_is totals.quantized 21

# --- blocks are a source ------------------------------------------------------------------------
expect 0 quantize "$tmp/q4.gguf" -f q5_k -o "$tmp/q5.gguf"
expect 0 verify "$tmp/q4.gguf" "$tmp/q5.gguf"
expect 0 dequantize "$tmp/q4.gguf" -o "$tmp/d.gguf" --dtype bf16
expect 0 score "$tmp/q4.gguf" -f mxfp4 --only '*blk.0.attn_q*'

# --- importance ---------------------------------------------------------------------------------
imatrix=$llama/imatrix.safetensors
expect 2 quantize "$llama" -f q4_k:imatrix -o "$tmp/x.gguf"
error_says 'give --imatrix FILE, or take q4_k:ggml'
expect 0 quantize "$llama" -f q4_k:imatrix --imatrix "$imatrix" -o "$tmp/i.gguf"
check "importance changes bytes" test "$(cmp -s "$tmp/q4.gguf" "$tmp/i.gguf"; echo $?)" = 1
{ # an imatrix.dat of one entry, 256 columns: the first half counts 100 times as much
    printf '\1\0\0\0\23\0\0\0blk.0.attn_q.weight\2\0\0\0\0\1\0\0'
    for _ in {1..128}; do printf '\0\0\110\103'; done # 200
    for _ in {1..128}; do printf '\0\0\0\100'; done   # 2
} >"$tmp/imatrix.dat"
expect 0 quantize "$llama" -f q4_k:imatrix --imatrix "$tmp/imatrix.dat" --only '*layers.0.self_attn.q_proj*' -o "$tmp/dat.gguf"
expect 2 quantize "$llama" -f q4_k:imatrix --imatrix "$tmp/imatrix.dat" -o "$tmp/x.gguf"
error_says 'has no entry for blk.0.ffn_down.weight: --tensor .blk.0.ffn_down.weight=q4_k:ggml. takes'
expect 0 score "$llama" -f q4_k --imatrix "$tmp/imatrix.dat" --only '*layers.0.self_attn.q_proj*'
output_says 'weighted'

# --- refusals -----------------------------------------------------------------------------------
expect 0 convert "$llama" --layout gguf -o "$tmp/plain.gguf" # nothing is quantized, and all is as it was
expect 0 quantize "$llama" -f fp8-e4m3-128x128 --layout deepseek -o "$tmp/fp8"
LC_ALL=C sed -i '1s/"kerf":"{/"gone":"{/' "$tmp/fp8/model.safetensors" # as others write it
expect 3 convert "$tmp/fp8" --layout gguf -o "$tmp/x.gguf" # codes would become numbers
error_says "under llama.cpp's names is no place for codes as these are (fp8-e4m3-128x128): kerf quantize"
expect 0 quantize "$tmp/fp8" -f q4_k -o "$tmp/fp8.gguf"
cp -r "$llama" "$tmp/other"
sed -i 's/"model_type": "llama"/"model_type": "gpt2"/' "$tmp/other/config.json"
expect 3 quantize "$tmp/other" -f q4_k -o "$tmp/x.gguf"
error_says 'knows for model_type llama, mistral, qwen2, qwen3, qwen3_moe, and this is gpt2'
sed -i 's/"model_type": "gpt2"/"model_type": "llama", "rope_scaling": {"rope_type": "longrope"}/' "$tmp/other/config.json"
expect 3 quantize "$tmp/other" -f q4_k -o "$tmp/x.gguf"
error_says 'rope_scaling "longrope"'
sed -i 's/"longrope"/"yarn"/' "$tmp/other/config.json"
expect 3 quantize "$tmp/other" -f q4_k -o "$tmp/x.gguf"
error_says 'numbers of its rope_scaling are missing'
cp "$llama/config.json" "$tmp/other/"
rm "$tmp/other/tokenizer.json"
expect 3 quantize "$tmp/other" -f q4_k -o "$tmp/x.gguf"
error_says 'there is no tokenizer.json and no tokenizer.model'
absent "$tmp/x.gguf"
finish
