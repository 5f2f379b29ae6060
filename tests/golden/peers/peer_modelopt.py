"""peer_modelopt.py - NVIDIA Model-Optimizer's tensor classes and export functions, on the CPU."""
from types import SimpleNamespace

import modelopt
import numpy as np
import torch
from modelopt.torch.export.quant_utils import to_quantized_weight
from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor, NVFP4QTensor
from modelopt.torch.quantization.utils import reduce_amax, reduce_block_amax

from compare import Claim, bits_of, run_main


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


def nvfp4(x):
    codes, scales, second = [], [], []
    for w in x:
        q, s, s2 = NVFP4QTensor.quantize(w.clone(), 16)
        codes.append(nibbles(q._quantized_data))
        scales.append(s.view(torch.uint8))
        second.append(s2.reshape(()))
    return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales)),
            "second": bits_of(torch.stack(second))}


def nvfp4_static(x):
    """The export path of a static quantizer whose block amax came from max calibration."""
    codes, scales, second = [], [], []
    for w in x:
        amax = reduce_block_amax(w, {-1: 16})
        quantizer = SimpleNamespace(global_amax=reduce_amax(w).float(), _amax=amax.float(),
                                    block_sizes={-1: 16})
        s, s2 = NVFP4QTensor.get_weights_scaling_factor_from_quantizer(quantizer, w)
        packed = to_quantized_weight(w.clone(), s, "nvfp4", s2.reshape(()), 16)
        codes.append(nibbles(packed))
        scales.append(s.view(torch.uint8))
        second.append(s2.reshape(()))
    return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales)),
            "second": bits_of(torch.stack(second))}


def small(x, ours, theirs):
    amax = x.abs().amax((1, 2)).float().repeat_interleave(x.shape[1]).numpy()[:, None]
    return {"matrices of zeros, where the peer stores second 0": amax == 0,
            "matrices with amax below 2^-120, where scale * second underflows and the peer divides "
            "by zero": (amax > 0) & (amax < 2.0 ** -120)}


def mxfp4(x):
    q, s = MXFP4QTensor.quantize(x.reshape(-1, x.shape[-1]).contiguous(), 32)
    return {"codes": bits_of(nibbles(q._quantized_data)), "scales": bits_of(s)}


def mxfp8(x):
    w = x.reshape(-1, x.shape[-1]).contiguous()
    q, s = MXFP8QTensor.quantize(w)
    return {"codes": bits_of(q._quantized_data.view(torch.uint8)), "scales": bits_of(s)}


def fp8_tensor(x):
    """get_scaling_factor and to_quantized_weight for QUANTIZATION_FP8."""
    codes, scales = [], []
    for w in x:
        scale = reduce_amax(w).float() / 448.0
        codes.append(to_quantized_weight(w, scale.reshape(()), "fp8").view(torch.uint8))
        scales.append(scale.reshape(()))
    return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales))}


def fp8_row(x):
    w = x.reshape(-1, x.shape[-1])
    scale = w.abs().amax(-1).float() / 448.0
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = to_quantized_weight(w, scale, "fp8_pc_pt").view(torch.uint8)
    return {"codes": bits_of(codes), "scales": bits_of(scale)}


def zero_scale(x, ours, theirs):
    amax = x.abs().amax((1, 2)).float().numpy()
    zero = np.repeat(amax == 0, x.shape[1])[:, None]
    tiny = np.repeat((amax > 0) & (amax < 2.0 ** -110), x.shape[1])[:, None]
    return {"matrices of zeros, where the peer stores scale 0 and codes of NaN": zero,
            "matrices with amax below 2^-110, whose scale is 0 in the source's type": tiny}


def integers(bits, per_tensor=False):
    largest = 2 ** (bits - 1) - 1

    def run(x):
        w = x.reshape(-1, x.shape[-1])
        amax = w.abs().amax(-1).float()
        amax = torch.where(amax == 0, torch.full_like(amax, largest), amax)
        scale = amax / largest
        codes = to_quantized_weight(w, scale, "int8_wo")
        return {"codes": bits_of(codes), "scales": bits_of(scale)}
    return run


def int4(group, stored):
    """pack_int4_in_uint8 packs pairs of rows; the scale is fp32 there and stored rounded once."""
    def run(x):
        w = x.reshape(-1, x.shape[-1])
        amax = w.reshape(w.shape[0], -1, group).abs().amax(-1).float()
        amax = torch.where(amax == 0, torch.full_like(amax, 7.0), amax)
        packed = to_quantized_weight(w, amax / 7.0, "int4_awq", block_size=group)
        codes = torch.stack([packed & 15, packed >> 4], 1).reshape(w.shape)
        return {"codes": bits_of(codes), "scales": bits_of((amax / 7.0).to(stored))}
    return run


def stored_scale(x, ours, theirs):
    theirs = np.asarray(theirs["scales"]).reshape(x.shape[0] * x.shape[1], -1)
    return {"scales that round to zero in the stored type, where kerf keeps the least number":
            theirs == 0,
            "scales that overflow fp16, where kerf keeps the largest number": theirs == 0x7c00}


CLAIMS = [
    Claim("nvfp4:modelopt", "NVFP4QTensor.quantize", nvfp4, known=small),
    Claim("nvfp4:modelopt-static", "get_weights_scaling_factor_from_quantizer", nvfp4_static,
          known=small),
    Claim("mxfp4:modelopt", "MXFP4QTensor.quantize", mxfp4),
    Claim("mxfp8-e4m3:modelopt", "MXFP8QTensor.quantize", mxfp8),
    Claim("fp8-e4m3:modelopt", "to_quantized_weight(FP8)", fp8_tensor, known=zero_scale),
    Claim("fp8-e4m3-row:amax", "to_quantized_weight(FP8_PC_PT)", fp8_row),
    Claim("int8:amax", "to_quantized_weight(INT8)", integers(8)),
]
for group in (32, 64, 128):
    CLAIMS.append(Claim(f"int4-g{group}:modelopt", "to_quantized_weight(INT4_AWQ)",
                        int4(group, torch.bfloat16), known=stored_scale))
for group in (32, 128):
    CLAIMS.append(Claim(f"int4-g{group}-f16:modelopt", "to_quantized_weight(INT4_AWQ)",
                        int4(group, torch.float16), known=stored_scale))

if __name__ == "__main__":
    run_main("modelopt", modelopt.__version__, CLAIMS)
