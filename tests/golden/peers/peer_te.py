"""peer_te.py - TransformerEngine's reference quantizer, pytorch/custom_recipes/reference_nvfp4.py of
its wheel, which states the CUDA kernels' arithmetic in PyTorch. The rest of the package needs a GPU."""
from importlib.metadata import version
from unittest import mock

import numpy as np
import torch

import standalone
from compare import Claim, bits_of, run_main


class Base:
    """Stands for the classes that the reference derives from."""


ABSENT = ("transformer_engine", "transformer_engine.pytorch",
          "transformer_engine.pytorch.custom_recipes",
          "transformer_engine.pytorch.quantized_tensor")
tensors = mock.MagicMock(Quantizer=Base, QuantizedTensorStorage=Base)
with mock.patch.dict("sys.modules", {"transformer_engine.pytorch.quantized_tensor": tensors}):
    te = standalone.load("transformer-engine-cu12",
                         "pytorch/custom_recipes/reference_nvfp4.py", ABSENT[:3])


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


def nvfp4(most=448, **options):
    def run(x):
        codes, scales, second = [], [], []
        for w in x:
            amax = w.abs().max().float()
            q, s = te.NVFP4QuantizerRef._quantize_blockwise_reference(
                w, amax, 16, 1, pow_2_scales=False, eps=0.0, **options)
            codes.append(nibbles(q))
            scales.append(s.view(torch.uint8))
            second.append(amax / (6 * most))
        return {"codes": bits_of(torch.stack(codes)), "scales": bits_of(torch.stack(scales)),
                "second": bits_of(torch.stack(second))}
    return run


def known(zero_scale):
    def masks(x, ours, theirs):
        rows = x.shape[0] * x.shape[1]
        amax = x.abs().amax((1, 2)).float().repeat_interleave(x.shape[1]).numpy()[:, None]
        code = theirs["codes"].reshape(rows, -1, 16)
        mine = ours["codes"].reshape(rows, -1, 16)
        signs = ~((mine != code) & ~((mine == 8) & (code == 0))).any(-1)
        scale = np.asarray(theirs["scales"]).reshape(rows, -1)
        out = {"matrices of zeros, where kerf stores second 1": amax == 0,
               "matrices with amax below 2^-137, whose second-level scale kerf keeps above zero":
                   (amax > 0) & (amax < 2.0 ** -137),
               "blocks with -0: the reference writes code 0, the CUDA kernel and kerf 8": signs}
        if zero_scale:
            out["blocks whose scale underflows to 0: the peer keeps codes of 6, kerf writes 0"] = \
                scale == 0
        return out
    return masks


FOUR = {"nvfp4_use_4over6": True}
CLAIMS = [Claim("nvfp4:te", "NVFP4QuantizerRef", nvfp4(), known=known(False)),
          Claim("nvfp4:amax", "NVFP4QuantizerRef", nvfp4(), known=known(True))]
for most, suffix in ((256, ""), (448, "-448")):
    for mode, name in (("MSE", "4/6"), ("MAE", "4/6-mae")):
        CLAIMS.append(Claim(f"nvfp4:{name}{suffix}", f"NVFP4QuantizerRef(4over6, {mode}, {most})",
                            nvfp4(most, nvfp4_e4m3_max=most, nvfp4_4over6_err_mode=mode, **FOUR),
                            known=known(True)))

if __name__ == "__main__":
    run_main("transformer-engine", version("transformer-engine-cu12"), CLAIMS)
