"""The small model as a GGUF file, with the names, the order of rows and the keys that llama.cpp's
convert_hf_to_gguf.py gives a Llama model, written by the gguf package.

    gguf_model.py MODEL OUT.gguf
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
import safetensors


def read_bf16(path):
    for name, t in safetensors.deserialize(path.read_bytes()):
        assert t["dtype"] == "BF16"
        bits = np.frombuffer(t["data"], np.uint16).reshape(t["shape"]).astype(np.uint32) << 16
        yield name, bits.view(np.float32)


def interleave(w, heads):
    """Rotary positions: halves of a head in Hugging Face's order, pairs in llama.cpp's."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def write_keys(out, config, tokenizer):
    out.add_name("tiny-llama")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_rope_dimension_count(config["head_dim"])
    out.add_rope_freq_base(config["rope_theta"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_vocab_size(config["vocab_size"])
    out.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    vocab = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {t["content"] for t in tokenizer["added_tokens"] if t["special"]}
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(vocab)
    out.add_token_types([gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in vocab])
    out.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
    out.add_bos_token_id(config["bos_token_id"])
    out.add_eos_token_id(config["eos_token_id"])
    out.add_add_bos_token(False)


def write_model(model, path):
    config = json.loads((model / "config.json").read_text())
    out = gguf.GGUFWriter(path, "llama")
    write_keys(out, config, json.loads((model / "tokenizer.json").read_text()))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name, w in read_bf16(model / "model.safetensors"):
        part = name.split(".")[-2]
        w = interleave(w, heads[part]) if part in heads else w
        kind = gguf.GGMLQuantizationType.BF16 if w.ndim > 1 else gguf.GGMLQuantizationType.F32
        out.add_tensor(names.get_name(name, (".weight",)),
                       gguf.quantize(np.ascontiguousarray(w), kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), sys.argv[2])
