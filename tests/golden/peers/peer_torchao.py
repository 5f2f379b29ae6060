"""peer_torchao.py - torchao's eager CPU paths."""
import torch
import torchao
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
from torchao.prototype.mx_formats.mx_tensor import to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
from torchao.quantization import PerRow, PerTensor
from torchao.quantization.quant_primitives import MappingType
from torchao.quantization.quantize_.workflows import Float8Tensor, Int8Tensor
from torchao.quantization.quantize_.workflows import IntxUnpackedToInt8Tensor

import numpy as np
from compare import Claim, bits_of, range_overflows, run_main

WIDE = ("BF16", "F32")  # nvfp4_quantize and to_mx refuse fp16


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


def nvfp4(x):
    codes, scales, second = [], [], []
    for matrix in x:
        pts = per_tensor_amax_to_scale(matrix.abs().max())
        s, q = nvfp4_quantize(matrix.contiguous(), 16, pts)
        codes.append(nibbles(q))
        scales.append(s.view(torch.uint8))
        second.append(pts)
    return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales)),
            "second": bits_of(torch.stack(second))}


def zero_matrices(x, ours, theirs):
    amax = x.abs().amax((1, 2)).float().repeat_interleave(x.shape[1]).numpy()[:, None]
    return {"matrices of zeros, where the peer stores second 0 and scales of NaN": amax == 0,
            "matrices with second below 2^-128, where the peer's 1/second is Inf and zeros become "
            "NaN": (amax > 0) & (amax < 2.0 ** -116)}


def overflow(group, per_matrix=False):
    def known(x, ours, theirs):
        w = x.reshape(x.shape[0], 1, -1) if per_matrix else x
        mask = range_overflows(w, group)
        mask = np.repeat(mask, x.shape[1], 0) if per_matrix else mask
        return {"groups whose range overflows the source's type: the peer stores Inf": mask}
    return known


def mx(element, mode):
    def run(x):
        s, q = to_mx(x.reshape(-1, x.shape[-1]).contiguous(), element, 32, mode)
        packed = element == torch.float4_e2m1fn_x2
        codes = nibbles(q) if packed else q.view(torch.uint8)
        return {"codes": bits_of(codes), "scales": bits_of(s.view(torch.uint8))}
    return run


def byte_zero(x, ours, theirs):
    return {"blocks with scale byte 0, where the peer divides by 2^-126 and kerf by 2^-127":
            ours["scales"].reshape(x.shape[0] * x.shape[1], -1) == 0}


def float8(element, granularity):
    def run(x):
        codes, scales = [], []
        for matrix in x:
            t = Float8Tensor.from_hp(matrix, element, granularity)
            codes.append(t.qdata.view(torch.uint8))
            scales.append(t.scale.reshape(-1))
        return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.cat(scales))}
    return run


def float8_zero(x, ours, theirs):
    # bf16 and fp16 sources can also underflow: scale 0, quotient Inf or NaN
    s = theirs["scales"].reshape(-1) == 0
    if s.size == x.shape[0]:
        s = np.repeat(s, x.shape[1])
    return {"groups whose scale is 0 in the source's type: the peer stores 0 and NaN codes, kerf scale 1":
            s[:, None]}


def int8(granularity, mapping):
    def run(x):
        codes, scales, zeros = [], [], []
        for matrix in x:
            t = Int8Tensor.from_hp(matrix, granularity, mapping)
            codes.append(t.qdata)
            scales.append(t.scale.float().reshape(-1))
            if t.zero_point is not None:
                zeros.append(t.zero_point.reshape(-1))
        out = {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.cat(scales))}
        if mapping == MappingType.ASYMMETRIC:
            out["zeros"] = bits_of(torch.cat(zeros))
        return out
    return run


def intx(dtype, bits, group, mapping):
    def run(x):
        w = x.reshape(-1, x.shape[-1])
        size = group or w.shape[1]
        t = IntxUnpackedToInt8Tensor.from_hp(w, (1, size), dtype, mapping_type=mapping)
        offset = 1 << (bits - 1)
        codes = t.qdata.to(torch.int16)
        out = {"scales": bits_of(t.scale)}
        if mapping == MappingType.ASYMMETRIC:
            out["zeros"] = bits_of((t.zero_point.to(torch.int16) + offset).to(torch.uint8))
            out["codes"] = bits_of((codes + offset).to(torch.uint8))
        else:
            out["codes"] = bits_of((codes & (2 * offset - 1)).to(torch.uint8))
        return out
    return run


ELEMENTS = {"mxfp8-e4m3": torch.float8_e4m3fn, "mxfp8-e5m2": torch.float8_e5m2,
            "mxfp6-e2m3": DTYPE_FP6_E2M3, "mxfp6-e3m2": DTYPE_FP6_E3M2,
            "mxfp4": torch.float4_e2m1fn_x2}
MODES = {"torchao": ScaleCalculationMode.RCEIL, "floor": ScaleCalculationMode.FLOOR,
         "even": ScaleCalculationMode.EVEN, "ceil": ScaleCalculationMode.CEIL}
SYM, ASYM = MappingType.SYMMETRIC, MappingType.ASYMMETRIC

CLAIMS = [Claim("nvfp4:torchao", "nvfp4_quantize", nvfp4, WIDE, zero_matrices)]
for name, element in ELEMENTS.items():
    for encoder, mode in MODES.items():
        CLAIMS.append(Claim(f"{name}:{encoder}", f"to_mx({mode.name})", mx(element, mode), WIDE,
                            None if encoder == "torchao" else byte_zero))
for name, element in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
    CLAIMS.append(Claim(f"fp8-{name}:torchao", "Float8Tensor(PerTensor)",
                        float8(element, PerTensor()), known=float8_zero))
    CLAIMS.append(Claim(f"fp8-{name}-row:torchao", "Float8Tensor(PerRow)",
                        float8(element, PerRow()), known=float8_zero))
CLAIMS += [
    Claim("int8:torchao", "Int8Tensor(PerRow)", int8(PerRow(), SYM)),
    Claim("int8-tensor:torchao", "Int8Tensor(PerTensor)", int8(PerTensor(), SYM)),
    Claim("int8-asym:torchao", "Int8Tensor(PerRow, asymmetric)", int8(PerRow(), ASYM), known=overflow(0)),
    Claim("int8-tensor-asym:torchao", "Int8Tensor(PerTensor, asymmetric)", int8(PerTensor(), ASYM),
          known=overflow(0, True)),
]
for dtype, suffix in (("BF16", ""), ("F16", "-f16")):
    for group in (32, 64, 128):
        if suffix and group == 64:
            continue
        CLAIMS.append(Claim(f"int4-g{group}{suffix}:torchao", "IntxUnpackedToInt8Tensor",
                            intx(torch.int4, 4, group, SYM), (dtype,)))
        CLAIMS.append(Claim(f"int4-g{group}-asym{suffix}:torchao",
                            "IntxUnpackedToInt8Tensor(asymmetric)",
                            intx(torch.int4, 4, group, ASYM), (dtype,), overflow(group)))
CLAIMS += [
    Claim("int4-row:torchao", "IntxUnpackedToInt8Tensor", intx(torch.int4, 4, 0, SYM), ("BF16",)),
    Claim("int4-row-asym:torchao", "IntxUnpackedToInt8Tensor(asymmetric)",
          intx(torch.int4, 4, 0, ASYM), ("BF16",), overflow(0)),
]
for group in (16, 32, 64, 128):
    CLAIMS.append(Claim(f"int2-g{group}:torchao", "IntxUnpackedToInt8Tensor",
                        intx(torch.int2, 2, group, SYM), ("BF16",)))
    CLAIMS.append(Claim(f"int2-g{group}-asym:torchao", "IntxUnpackedToInt8Tensor(asymmetric)",
                        intx(torch.int2, 2, group, ASYM), ("BF16",), overflow(group)))

if __name__ == "__main__":
    run_main("torchao", torchao.__version__, CLAIMS)
