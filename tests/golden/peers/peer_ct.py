"""peer_ct.py - compressed-tensors: observers' arithmetic (calculate_qparams, generate_gparam) and its
compressors, on the CPU."""
import compressed_tensors
import numpy as np
import torch
from compressed_tensors.compressors.mx_utils import compress_mx_scale
from compressed_tensors.compressors.nvfp4.helpers import quantize_and_pack_fp4
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import quantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from compressed_tensors.quantization.utils.mxfp_utils import generate_mx_scales

from compare import Claim, bits_of, range_overflows, run_main


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


NVFP4 = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16,
                         scale_dtype=torch.float8_e4m3fn, zp_dtype=torch.float8_e4m3fn)


def nvfp4(widen=False):
    def run(x):
        codes, scales, second = [], [], []
        for w in x.float() if widen else x:
            g = w.unflatten(-1, (-1, 16))
            lo, hi = g.amin(-1), g.amax(-1)
            top = torch.max(hi.max(), -lo.min())
            gs = generate_gparam(-top.reshape(1), top.reshape(1))
            scale, _ = calculate_qparams(lo, hi, NVFP4, gs)
            scale = scale.to(w.dtype)  # the parameter weight_scale has the type of the weight
            codes.append(nibbles(quantize_and_pack_fp4(w, scale, global_scale=gs, group_size=16)))
            scales.append(scale.to(torch.float8_e4m3fn).view(torch.uint8))
            second.append((1 / gs).reshape(()))
        return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales)),
                "second": bits_of(torch.stack(second))}
    return run


def mx(bits):
    args = QuantizationArgs(num_bits=bits, type="float", strategy="group", group_size=32,
                            scale_dtype=torch.uint8, zp_dtype=torch.uint8)

    def run(x):
        w = x.reshape(-1, x.shape[-1])
        g = w.unflatten(-1, (-1, 32))
        scale, zp = calculate_qparams(g.amin(-1), g.amax(-1), args)
        scale = scale.to(w.dtype)
        if bits == 4:
            codes = nibbles(quantize_and_pack_fp4(w, scale, group_size=32))
        elif bits == 8:
            codes = quantize(w, scale, None, args, dtype=torch.float8_e4m3fn).view(torch.uint8)
        else:
            codes = e2m3(quantize(w, scale, None, args))
        return {"codes": bits_of(codes),
                "scales": bits_of(compress_mx_scale(scale, torch.uint8))}
    return run


def e2m3(values):
    """Codes of numbers that are E2M3 already."""
    v = values.float()
    a = v.abs()
    e = torch.floor(torch.log2(a.clamp(min=1.0)))
    code = torch.where(a < 1, a * 8, (e + 1) * 8 + (a / torch.exp2(e) - 1) * 8)
    return (code + 32 * torch.signbit(v)).to(torch.uint8)


def float8(strategy):
    def run(x):
        codes, scales = [], []
        for w in x:
            if strategy == "tensor":
                args = QuantizationArgs(num_bits=8, type="float", strategy="tensor")
                lo, hi = w.amin(), w.amax()
            elif strategy == "channel":
                args = QuantizationArgs(num_bits=8, type="float", strategy="channel")
                lo, hi = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
            else:
                args = QuantizationArgs(num_bits=8, type="float", strategy="block",
                                        block_structure=[128, 128])
                h, c = -w.shape[0] % 128, -w.shape[1] % 128
                p = torch.nn.functional.pad(w, (0, c, 0, h))
                t = p.reshape(p.shape[0] // 128, 128, p.shape[1] // 128, 128)
                lo, hi = t.amin((1, 3)), t.amax((1, 3))
            scale, _ = calculate_qparams(lo, hi, args)
            scale = scale.to(w.dtype)
            q = quantize(w, scale, None, args, dtype=torch.float8_e4m3fn)
            codes.append(q.view(torch.uint8))
            scales.append(scale.float().reshape(-1))
        return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.cat(scales))}
    return run


def integers(bits, strategy, group, symmetric, wide):
    """wide: the format stores fp32 scales."""
    offset = 1 << (bits - 1)

    def one(w):
        args = QuantizationArgs(num_bits=bits, type="int", strategy=strategy, symmetric=symmetric,
                                group_size=group or None)
        if strategy == "tensor":
            lo, hi = w.amin(), w.amax()
        else:
            g = w.unflatten(-1, (-1, group or w.shape[-1]))
            lo, hi = g.amin(-1), g.amax(-1)
        scale, zp = calculate_qparams(lo, hi, args)
        scale = scale.to(w.dtype)
        q = quantize(w, scale, None if symmetric else zp, args)
        return q, scale, zp

    def run(x):
        parts = [one(w) for w in (x if strategy == "tensor" else
                                  x.reshape(1, -1, x.shape[-1]))]
        q = torch.cat([p[0] for p in parts]).to(torch.int16)
        scale = torch.cat([p[1].reshape(-1) for p in parts])
        zp = torch.cat([p[2].reshape(-1) for p in parts]).to(torch.int16)
        out = {"scales": bits_of(scale.float() if wide else scale)}
        shift = 0 if symmetric or bits == 8 else offset
        mask = 255 if bits == 8 else 2 * offset - 1
        out["codes"] = bits_of((q + shift & mask).to(torch.uint8))
        if not symmetric:
            out["zeros"] = bits_of((zp + shift & mask).to(torch.uint8))
        return out
    return run


def rounds_to_infinity(bits):
    def known(x, ours, theirs):
        w = x.reshape(-1, x.shape[-1]).unflatten(-1, (-1, 32))
        mask = torch.isinf(generate_mx_scales(w.abs().amax(-1), bits)) & (w != 0).any(-1)
        why = "blocks whose amax rounds up to Inf in the source's type: the peer's codes are 0"
        return {why: mask.numpy()} if mask.any() else {}
    return known


def overflow(group, per_matrix=False):
    def known(x, ours, theirs):
        w = x.reshape(x.shape[0], 1, -1) if per_matrix else x
        mask = range_overflows(w, group)
        mask = np.repeat(mask, x.shape[1], 0) if per_matrix else mask
        return {"groups whose range overflows the source's type: the peer stores Inf": mask}
    return known


CLAIMS = [
    Claim("nvfp4:ct", "calculate_qparams, quantize_and_pack_fp4", nvfp4()),
    Claim("nvfp4:ct-fp32", "the same on widened weights", nvfp4(True)),
    Claim("mxfp4:ct", "generate_mx_scales, quantize_and_pack_fp4", mx(4),
          known=rounds_to_infinity(4)),
    Claim("mxfp6-e2m3:ct", "generate_mx_scales, quantize", mx(6),
          known=rounds_to_infinity(6)),
    Claim("mxfp8-e4m3:ct", "generate_mx_scales, quantize", mx(8),
          known=rounds_to_infinity(8)),
    Claim("fp8-e4m3:ct", "calculate_qparams, quantize (tensor)", float8("tensor")),
    Claim("fp8-e4m3-row:ct", "calculate_qparams, quantize (channel)", float8("channel")),
    Claim("fp8-e4m3-128x128:ct", "calculate_qparams, quantize (block)", float8("block")),
    Claim("int8:ct", "calculate_qparams, quantize (channel)", integers(8, "channel", 0, True, True)),
    Claim("int8-tensor:ct", "calculate_qparams, quantize (tensor)",
          integers(8, "tensor", 0, True, True)),
    Claim("int8-asym:ct", "calculate_qparams, quantize (channel)",
          integers(8, "channel", 0, False, True), known=overflow(0)),
    Claim("int8-tensor-asym:ct", "calculate_qparams, quantize (tensor)",
          integers(8, "tensor", 0, False, True), known=overflow(0, True)),
    Claim("int8-g128:ct", "calculate_qparams, quantize (group)",
          integers(8, "group", 128, True, False), ("BF16",)),
    Claim("int8-g128-asym:ct", "calculate_qparams, quantize (group)",
          integers(8, "group", 128, False, False), ("BF16",), overflow(128)),
    Claim("int4-row:ct", "calculate_qparams, quantize (channel)",
          integers(4, "channel", 0, True, False), ("BF16",)),
    Claim("int4-row-asym:ct", "calculate_qparams, quantize (channel)",
          integers(4, "channel", 0, False, False), ("BF16",), overflow(0)),
]
for dtype, suffix in (("BF16", ""), ("F16", "-f16")):
    for bits, groups in ((4, (32, 64, 128)), (2, (16, 32, 64, 128))):
        for group in groups:
            if suffix and (bits == 2 or group == 64):
                continue
            CLAIMS.append(Claim(f"int{bits}-g{group}{suffix}:ct",
                                "calculate_qparams, quantize (group)",
                                integers(bits, "group", group, True, False), (dtype,)))
            CLAIMS.append(Claim(f"int{bits}-g{group}-asym{suffix}:ct",
                                "calculate_qparams, quantize (group)",
                                integers(bits, "group", group, False, False), (dtype,),
                                overflow(group)))

if __name__ == "__main__":
    run_main("compressed-tensors", compressed_tensors.__version__, CLAIMS)
