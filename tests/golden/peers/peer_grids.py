"""peer_grids.py - the round-to-nearest grids of AutoGPTQ, GPTQModel's ancestor, AutoAWQ and HQQ, and
auto-round's NVFP4."""
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import torch
from hqq.core.quantize import Quantizer as Hqq

import standalone
from compare import Claim, bits_of, run_main

gptq = standalone.load("auto-gptq", "auto_gptq/quantization/quantizer.py")
awq = standalone.load("autoawq", "awq/quantize/quantizer.py", (
    "tqdm", "transformers", "transformers.models", "transformers.models.bloom",
    "transformers.models.bloom.modeling_bloom", "awq", "awq.utils", "awq.utils.calib_data",
    "awq.quantize", "awq.quantize.scale", "awq.utils.module", "awq.utils.utils",
    "awq.modules", "awq.modules.linear", "awq.modules.act"))
nvfp = standalone.load("auto-round", "auto_round/data_type/nvfp.py", (
    "auto_round", "auto_round.data_type", "auto_round.data_type.fp8",
    "auto_round.data_type.gguf", "auto_round.data_type.register", "auto_round.data_type.utils",
    "auto_round.logger"))
# the two straight-through helpers are a rounding and a cast
nvfp.round_ste = torch.round
nvfp.float8_e4m3fn_ste = lambda x: x.to(torch.float8_e4m3fn)

STORED = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}


def groups_of(x, group):
    return x.reshape(-1, group or x.shape[-1])


def gptq_grid(bits, group, sym, stored):
    offset = 1 << (bits - 1)

    def run(x):
        w = groups_of(x, group).float()
        q = gptq.Quantizer()
        q.configure(bits, perchannel=True, sym=sym)
        q.find_params(w, weight=True)
        codes = torch.clamp(torch.round(w / q.scale) + q.zero, 0, q.maxq).to(torch.int16)
        codes = codes - offset if sym or bits == 8 else codes
        mask = 255 if bits == 8 else 2 * offset - 1
        out = {"codes": bits_of((codes & mask).to(torch.uint8)).reshape(-1, x.shape[-1]),
               "scales": bits_of(q.scale.reshape(-1).to(STORED[stored]))}
        if not sym:
            zero = q.zero.reshape(-1).clamp(0, 2 * offset - 1).to(torch.int16)
            zero = zero - offset if bits == 8 else zero
            out["zeros"] = bits_of((zero & mask).to(torch.uint8))
        return out
    return run


def awq_grid(group):
    def run(x):
        w = groups_of(x, group)
        me = SimpleNamespace(group_size=group, zero_point=True, w_bit=4)
        _, scales, zeros = awq.AwqQuantizer.pseudo_quantize_tensor(me, x.reshape(-1, x.shape[-1]))
        s, z = scales.reshape(-1, 1), zeros.reshape(-1, 1)
        codes = torch.clamp(torch.round(w / s) + z, 0, 15)
        return {"codes": bits_of(codes.to(torch.uint8)).reshape(-1, x.shape[-1]),
                "scales": bits_of(scales), "zeros": bits_of(zeros.to(torch.uint8))}
    return run


def outside(zero):
    """Zero points that are no code become 255, so that they cannot be overlooked."""
    return torch.where((zero < 0) | (zero > 15), torch.full_like(zero, 255), zero)


def hqq_grid(group, stored):
    def run(x):
        q, meta = Hqq.quantize(x.reshape(-1, x.shape[-1]), nbits=4, group_size=group, axis=1,
                               optimize=False, round_zero=True, bitpack=False, device="cpu")
        return {"codes": bits_of(q.to(torch.uint8)).reshape(-1, x.shape[-1]),
                "scales": bits_of(meta["scale"].reshape(-1).to(STORED[stored])),
                "zeros": bits_of(outside(meta["zero"].reshape(-1)).to(torch.uint8))}
    return run


def stored_zero(group):
    def known(x, ours, theirs):
        rows = x.shape[0] * x.shape[1]
        s = np.asarray(theirs["scales"]).reshape(rows, -1)
        out = {"scales that round to zero in the stored type, where kerf keeps the least number":
               s == 0}
        w = x.float().reshape(rows, -1, group or x.shape[-1])
        tiny = (w.abs().amax(-1) < 2.0 ** -120) & (w.abs().amax(-1) > 0)
        out["groups with amax below 2^-120, whose fp32 scale is 0 or subnormal"] = tiny.numpy()
        big = w.abs().amax(-1) > 2.0 ** 126
        out["groups with amax above 2^126, whose range overflows fp32"] = big.numpy()
        top = w.abs().amax(-1) > 65504 * 7 if s.itemsize == 2 else torch.zeros(1, dtype=torch.bool)
        out["groups whose scale overflows fp16, where kerf keeps the largest number"] = top.numpy()
        return out
    return known


def hqq_known(group):
    def known(x, ours, theirs):
        zero = np.asarray(theirs["zeros"]).reshape(x.shape[0] * x.shape[1], -1) == 255
        return {"groups without zero in their range, whose zero point is no code: kerf stores the "
                "nearest code": zero, **stored_zero(group)(x, ours, theirs)}
    return known


def awq_known(group):
    def known(x, ours, theirs):
        w = x.reshape(x.shape[0] * x.shape[1], -1, group)
        over = torch.isinf(w.amax(-1) - w.amin(-1)).numpy()
        return {"groups whose range overflows the source's type: the peer fails on NaN": over}
    return known


def autoround(x):
    codes, scales, second = [], [], []
    for w in x:
        blocks = w.reshape(-1, 16)
        gs = nvfp.calculate_gparam(w)
        values, scale = nvfp.ref_nvfp4_quant(blocks, gs)
        # the function returns code * (scale / gs): the nearest code gives it back
        step = nvfp.get_reciprocal(nvfp.get_reciprocal(scale * nvfp.get_reciprocal(gs)))
        y = torch.where(step == 0, torch.zeros_like(values), values / step)
        magnitude = torch.bucketize(y.abs(), torch.tensor([.25, .75, 1.25, 1.75, 2.5, 3.5, 5.]))
        codes.append((magnitude + 8 * torch.signbit(values)).to(torch.uint8).reshape(w.shape))
        scales.append(scale.reshape(-1).to(torch.float8_e4m3fn).view(torch.uint8))
        second.append((1 / gs).reshape(()))
    return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales)),
            "second": bits_of(torch.stack(second))}


def autoround_known(x, ours, theirs):
    amax = x.abs().amax((1, 2)).float().repeat_interleave(x.shape[1]).numpy()[:, None]
    return {"matrices of zeros, where kerf stores second 1": amax == 0,
            "matrices with amax beyond 2^-115 .. 2^120, where 2688 / amax or its inverse leaves "
            "fp32": (amax > 0) & ((amax < 2.0 ** -115) | (amax > 2.0 ** 120))}


def grids():
    for stored, suffix in (("BF16", ""), ("F16", "-f16")):
        for bits, groups in ((4, (32, 64, 128)), (2, (16, 32, 64, 128))):
            for group in groups:
                if suffix and (bits == 2 or group == 64):
                    continue
                known = stored_zero(group)
                yield "gptq", Claim(f"int{bits}-g{group}{suffix}:gptq", "Quantizer.find_params(sym)",
                                    gptq_grid(bits, group, True, stored), known=known)
                yield "gptq", Claim(f"int{bits}-g{group}-asym{suffix}:gptq",
                                    "Quantizer.find_params",
                                    gptq_grid(bits, group, False, stored), known=known)
                if bits == 4:
                    yield "awq", Claim(f"int4-g{group}-asym{suffix}:awq", "pseudo_quantize_tensor",
                                       awq_grid(group), (stored,), awq_known(group), edges=False)
                    yield "hqq", Claim(f"int4-g{group}-asym{suffix}:hqq",
                                       "Quantizer.quantize(optimize=False, round_zero=True)",
                                       hqq_grid(group, stored), known=hqq_known(group))
    for name, bits, group, stored in (("int8", 8, 0, "F32"), ("int4-row", 4, 0, "BF16"),
                                      ("int8-g128", 8, 128, "BF16")):
        yield "gptq", Claim(f"{name}:gptq", "Quantizer.find_params(sym)",
                            gptq_grid(bits, group, True, stored), known=stored_zero(group))
        yield "gptq", Claim(f"{name}-asym:gptq", "Quantizer.find_params",
                            gptq_grid(bits, group, False, stored), known=stored_zero(group))
    yield "autoround", Claim("nvfp4:autoround", "ref_nvfp4_quant", autoround,
                             known=autoround_known)


PACKAGES = {"gptq": "auto-gptq", "awq": "autoawq", "hqq": "hqq", "autoround": "auto-round"}
CLAIMS = []
for package, claim in grids():
    claim.peer = f"{PACKAGES[package]} {version(PACKAGES[package])}"
    CLAIMS.append(claim)

if __name__ == "__main__":
    run_main("", "", CLAIMS)
