"""peer_bnb.py - bitsandbytes on the CPU: NF4, double quantization, LLM.int8 weights."""
import bitsandbytes
import numpy as np
import torch
from bitsandbytes.functional import create_dynamic_map, int8_vectorwise_quant, quantize_4bit

from compare import Claim, bits_of, run_main


def nf4(nested):
    def run(x):
        packed, state = quantize_4bit(x.reshape(-1), blocksize=64, quant_type="nf4",
                                      compress_statistics=nested)
        packed = packed.reshape(-1)
        codes = torch.stack([packed >> 4, packed & 15], -1).reshape(1, -1)[:, :x.numel()]
        out = {"codes": bits_of(codes), "scales": bits_of(state.absmax)}
        if nested:
            out["second"] = bits_of(state.state2.absmax)
            out["zeros"] = bits_of(state.offset.reshape(1))
        return out
    return run


def dynamic_map(x, ours, theirs):
    """What may follow from the offset's last bits, or from the table of 65,536 steps over -1 to 1:
    the next code, or an entry within one step: they lie that close together around zero."""
    same = ours["zeros"] == theirs["zeros"]
    near = np.abs(ours["zeros"].view(np.int32) - theirs["zeros"].view(np.int32)) <= 4
    codes = ours["scales"].astype(int), theirs["scales"].astype(int)
    entries = create_dynamic_map().numpy()
    step = np.abs(codes[0] - codes[1]) <= 1
    step |= np.abs(entries[codes[0]] - entries[codes[1]]) <= 2 ** -15
    why = ("blocks of double quantization: the offset differs in its last bits, as the peer's mean "
           "has no stated order")
    table = ("blocks of double quantization with the same offset: the peer finds the code in a "
             "table of 65,536 steps, so next to a midpoint it takes the other neighbour, and around "
             "zero another entry within a step")
    out = {table: same[0] & step, why: ~same[0] & near[0] & step}
    return {k: m for k, m in out.items() if m.any()}


def int8(x):
    codes, scb, _ = int8_vectorwise_quant(x.to(torch.float16).reshape(-1, x.shape[-1]))
    return {"codes": bits_of(codes), "scales": bits_of(scb / 127)}


def beyond_fp16(x, ours, theirs):
    a = x.to(torch.float16).abs().float().amax(-1).reshape(-1, 1).numpy()
    return {"rows that are Inf in fp16": np.isinf(a)}


CLAIMS = [
    Claim("nf4:bnb-cpu", "quantize_4bit", nf4(False)),
    Claim("nf4-dq:bnb-cpu", "quantize_4bit(compress_statistics)", nf4(True), known=dynamic_map,
          edges=False),
    Claim("int8:bnb", "int8_vectorwise_quant", int8, known=beyond_fp16),
]

if __name__ == "__main__":
    run_main("bitsandbytes", bitsandbytes.__version__, CLAIMS)
