"""peer_transcribed.py - peers that are no package: their published formulas, written down a second
time in PyTorch. A test against them finds slips, but it is no run of the peer itself.

microxcaling (Microsoft, 7bc41952): mx/mx_ops.py and mx/elemwise_ops.py on fp32 tensors, rounding
"nearest", 8 scale bits, block 32. DeepSeek-V3 (9b4e9788): inference/kernel.py's act_quant formula,
amax no less than 1e-4, with 128x128 tiles as its weights have them."""
import numpy as np
import torch

from compare import Claim, bits_of, run_main

# element: exponent bits, mantissa bits after the point, largest exponent, largest number
ELEMENTS = {"mxfp4": (2, 1, 2, 6.0), "mxfp6-e2m3": (2, 3, 2, 7.5), "mxfp6-e3m2": (3, 2, 4, 28.0),
            "mxfp8-e4m3": (4, 3, 8, 448.0), "mxfp8-e5m2": (5, 2, 15, 57344.0),
            "mxint8": (0, 6, 0, 127 / 64)}


def code_of(name, values):
    """The code of a number that the element type holds exactly."""
    exp_bits, man_bits, _, _ = ELEMENTS[name]
    if exp_bits == 0:
        return (values * 64).to(torch.int16).to(torch.uint8)
    a, bias = values.abs(), 2 ** (exp_bits - 1) - 1
    e = torch.floor(torch.log2(a.clamp(min=2.0 ** (1 - bias))))
    mantissa = a / torch.exp2(e) * 2 ** man_bits
    code = torch.where(mantissa < 2 ** man_bits, mantissa, (e + bias) * 2 ** man_bits +
                       mantissa - 2 ** man_bits)
    return (code + torch.signbit(values) * 2 ** (exp_bits + man_bits)).to(torch.uint8)


def microxcaling(name):
    exp_bits, man_bits, emax, largest = ELEMENTS[name]

    def run(x):
        w = x.float().reshape(-1, 32)
        a = w.abs().amax(-1, keepdim=True)
        shared = torch.floor(torch.log2(torch.where(a == 0, torch.tensor(2.0 ** -126), a))) - emax
        shared = shared.clamp(min=-127)
        y = w / torch.exp2(shared)
        e = torch.zeros_like(y)
        if exp_bits:
            e = torch.floor(torch.log2(torch.where(y == 0, torch.ones(()), y.abs())))
            e = e.clamp(min=2 - 2 ** (exp_bits - 1))
        m = y / torch.exp2(e) * 2 ** man_bits
        m = torch.sign(m) * torch.floor(m.abs() + 0.5)
        y = (m / 2 ** man_bits * torch.exp2(e)).clamp(-largest, largest)
        return {"codes": bits_of(code_of(name, y)).reshape(-1, x.shape[-1]),
                "scales": bits_of((shared + 127).to(torch.uint8))}
    return run


def beyond_e8m0(name):
    def known(x, ours, theirs):
        a = x.float().reshape(-1, 32).abs().amax(-1)
        mask = torch.floor(torch.log2(a)) - ELEMENTS[name][2] > 127
        why = "blocks whose amax has 2^128 as its rounded logarithm: the peer's scale is NaN"
        return {why: mask.numpy()} if mask.any() else {}
    return known


def deepseek(x):
    codes, scales = [], []
    for w in x.float():
        p = torch.nn.functional.pad(w, (0, -w.shape[1] % 128, 0, -w.shape[0] % 128))
        t = p.reshape(p.shape[0] // 128, 128, p.shape[1] // 128, 128)
        s = t.abs().amax((1, 3), keepdim=True).clamp(min=1e-4) / 448.0
        q = (t / s).to(torch.float8_e4m3fn).view(torch.uint8).reshape(p.shape)
        codes.append(q[:w.shape[0], :w.shape[1]])
        scales.append(s.reshape(-1))
    return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.cat(scales))}


NOTE = "transcribed from source, not run"
CLAIMS = [Claim(f"{name}:microxcaling", "_quantize_mx", microxcaling(name), note=NOTE,
                known=beyond_e8m0(name),
                peer="microxcaling 7bc41952 (transcribed)") for name in ELEMENTS]
CLAIMS.append(Claim("fp8-e4m3-128x128:deepseek", "act_quant", deepseek, note=NOTE,
                    peer="DeepSeek-V3 9b4e9788 (transcribed)"))

if __name__ == "__main__":
    run_main("", "", CLAIMS)
