"""A GGUF file of a family: the same tensors under the names that llama.cpp has for their roles."""
import struct

NAMES = {
    ("attention", "q"): "attn_q", ("attention", "k"): "attn_k", ("attention", "v"): "attn_v", ("attention", "o"): "attn_output",
    ("attention", "qkv"): "attn_qkv", ("attention", "q_a"): "attn_q_a", ("attention", "q_b"): "attn_q_b",
    ("attention", "kv_a"): "attn_kv_a_mqa", ("attention", "kv_b"): "attn_kv_b", ("MLP", "gate"): "ffn_gate", ("MLP", "up"): "ffn_up",
    ("MLP", "down"): "ffn_down", ("MLP", "gate_up"): "ffn_up", ("expert", "gate"): "ffn_gate_exps", ("expert", "up"): "ffn_up_exps",
    ("expert", "down"): "ffn_down_exps", ("expert", "gate_up"): "ffn_gate_up_exps", ("shared expert", "gate"): "ffn_gate_shexp",
    ("shared expert", "up"): "ffn_up_shexp", ("shared expert", "down"): "ffn_down_shexp", ("state space", "in"): "ssm_in",
    ("state space", "out"): "ssm_out", ("router", "null"): "ffn_gate_inp", ("norm", "null"): "attn_norm",
    ("convolution", "null"): "ssm_conv1d", ("state space", "parameter"): "ssm_x"}
WIDE = {"router", "norm", "convolution"}


def shape_of(role, piece):
    """As row-major shapes have it."""
    if role == "norm":
        return (128,)
    if role == "convolution":
        return (256, 4)
    return (4, 64, 128) if role == "expert" else (64, 128)


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write(path, architecture, rows):
    """Returns which names must be quantized."""
    tensors = {"token_embd.weight": ((640, 128), False), "output.weight": ((640, 128), False)}
    for _, role, piece, _ in rows:
        name = NAMES.get((role, piece))
        if name:
            tensors[f"blk.0.{name}.weight"] = (shape_of(role, piece), role not in WIDE and piece != "parameter")
    head, at = b"", 0
    for name, (shape, _) in tensors.items():
        n = 2
        for d in shape:
            n *= d
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape)) + struct.pack("<IQ", 1, at)
        at += (n + 31) // 32 * 32
    keys = text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1) + keys + head
    element = b"".join(struct.pack("<e", ((i * 37) % 101 - 50) / 1000) for i in range(101))
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + (element * (at // len(element) + 1))[:at])
    return {name: quantized for name, (_, quantized) in tensors.items()}
