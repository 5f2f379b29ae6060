"""peer_fouroversix.py - fouroversix's PyTorch reference backend."""
from importlib.metadata import version

import numpy as np
import torch
from fouroversix.quantize.pytorch.reference import quantize_to_fp4
from fouroversix.utils import DataType, ScaleRule

from compare import Claim, bits_of, run_main


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


RANGE = {ScaleRule.static_6: 2688, ScaleRule.static_4: 1792}


def nvfp4(rule):
    def run(x):
        codes, scales, second = [], [], []
        for w in x:
            q, s, amax = quantize_to_fp4(w, scale_rule=rule, use_blackwell_scale_layout=False)
            codes.append(nibbles(q))
            scales.append(s.view(torch.uint8).reshape(w.shape[0], -1))
            second.append(amax.reshape(()) / RANGE.get(rule, 1536))
        second = torch.stack(second)
        return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales)),
                "second": bits_of(second)}
    return run


def known(sums):
    def masks(x, ours, theirs):
        amax = x.abs().amax((1, 2)).float().repeat_interleave(x.shape[1]).numpy()[:, None]
        w = x.float().reshape(x.shape[0] * x.shape[1], -1)
        out = {"matrices of zeros, where kerf stores second 1": amax == 0,
               "matrices with amax beyond 2^-115 .. 2^120, where the peer's encode scale is Inf or "
               "subnormal": (amax > 0) & ((amax < 2.0 ** -115) | (amax > 2.0 ** 120))}
        code = theirs["codes"].reshape(w.shape)
        mine = ours["codes"].reshape(w.shape)
        scale = theirs["scales"].reshape(w.shape[0], -1)
        same = scale == ours["scales"].reshape(scale.shape)
        sign = (mine == 8) & (code == 0)
        # only signs of zero differ in the block
        only = ~((mine != code) & ~sign).reshape(w.shape[0], -1, 16).any(-1) & same
        out["blocks with -0, or with numbers below the least code in a block of scale 0: the peer "
            "writes code 0, kerf 8"] = only
        factor = overflow_blocks(x, scale)
        out["blocks whose scale rounded down so far that an element exceeds 7: the peer's code "
            "overflows, kerf saturates"] = factor
        if sums:
            out["blocks where both scales have the same error to 16 ulps: the peer's sum has no "
                "stated order"] = ~same & near_tie(x, ours, theirs)
        return out
    return masks


def overflow_blocks(x, scale_bits):
    """An element above 7 in units of the stored scale."""
    w = x.float().reshape(x.shape[0] * x.shape[1], -1, 16).abs().amax(-1).numpy()
    value = torch.from_numpy(np.ascontiguousarray(scale_bits)).view(torch.float8_e4m3fn).float().numpy()
    amax = np.repeat(x.abs().amax((1, 2)).float().numpy(), x.shape[1])[:, None]
    with np.errstate(all="ignore"):
        return (w > 6.99 * value * amax / 2688) & (value < 0.02)


VALUES = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


def squared_error(x, planes):
    """Of each block, for planes of either side; absolute errors are near ties alike."""
    amax = x.abs().amax((1, 2)).double().repeat_interleave(x.shape[1]).numpy()[:, None, None]
    scales = np.ascontiguousarray(planes["scales"]).reshape(x.shape[0] * x.shape[1], -1)
    scale = torch.from_numpy(scales).view(torch.float8_e4m3fn).double().numpy()[..., None]
    codes = VALUES[planes["codes"].reshape(scales.shape + (16,))]
    d = codes * scale * amax / 1536 - x.double().numpy().reshape(codes.shape)
    return d


def near_tie(x, ours, theirs):
    a, b = squared_error(x, ours), squared_error(x, theirs)
    out = np.zeros(a.shape[:2], bool)
    for power in (1, 2):
        p, q = (np.abs(a) ** power).sum(-1), (np.abs(b) ** power).sum(-1)
        out |= np.abs(p - q) <= 4e-6 * np.maximum(p, q)
    return out


CLAIMS = [
    Claim("nvfp4:static_6", "quantize_to_fp4(static_6)", nvfp4(ScaleRule.static_6), known=known(0)),
    Claim("nvfp4:static_4", "quantize_to_fp4(static_4)", nvfp4(ScaleRule.static_4), known=known(0)),
    Claim("nvfp4:4/6", "quantize_to_fp4(mse)", nvfp4(ScaleRule.mse), known=known(1)),
    Claim("nvfp4:4/6-mae", "quantize_to_fp4(mae)", nvfp4(ScaleRule.mae), known=known(1)),
    Claim("nvfp4:4/6-absmax", "quantize_to_fp4(abs_max)", nvfp4(ScaleRule.abs_max), known=known(0)),
]

if __name__ == "__main__":
    run_main("fouroversix", version("fouroversix"), CLAIMS)
