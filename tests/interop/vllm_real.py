"""What vLLM's own code makes of the files that kerf writes, run on a machine without a GPU. See runtimes.sh.

vLLM asks a platform object what the GPU is. Here that object is vLLM's own one for CUDA with a capability
that this file sets, so that vLLM reads the configuration, picks the scheme and the kernel of each layer, makes
the parameters and loads the tensors just as on such a GPU; no kernel is launched. Two questions for each
checkpoint:

  on which GPUs   for each capability: a layer of the shapes of Llama-3.1-8B, on no device; which scheme and
                  kernel vLLM takes, or what it says. kerf advise --runtime vllm must say the same
  which weights   its loader fills the model from the folder; the merged parameters, decoded by vLLM's own
                  functions, must be the numbers that kerf decodes
"""

import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "TQDM_DISABLE": "1"}
sys.setdlopenflags(os.RTLD_LAZY)  # an empty library stands for the driver

import numpy as np
import torch
import vllm.platforms
import vllm.platforms.cuda
from vllm.platforms.interface import DeviceCapability

import readers
import runtime_cases


class NamedGpu(vllm.platforms.cuda.NonNvmlCudaPlatform):
    sm = 90

    @classmethod
    def get_device_capability(cls, device_id=0):
        return DeviceCapability(*divmod(cls.sm, 10))

    @classmethod
    def get_device_name(cls, device_id=0):
        return f"sm_{cls.sm}"

    @classmethod
    def get_device_total_memory(cls, device_id=0):
        return 80 << 30

    @classmethod
    def is_pin_memory_available(cls):
        return False


vllm.platforms._current_platform = NamedGpu()

from vllm.config import set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.kernels.linear.scaled_mm import cutlass
from vllm.model_executor.layers.quantization.utils import quant_utils, w8a8_utils
from vllm.model_executor.layers.quantization.utils.mxfp8_utils import dequant_mxfp8_to_bf16
from vllm.model_executor.layers.quantization.utils.nvfp4_emulation_utils import break_fp4_bytes, dequantize_to_dtype
from vllm.model_executor.model_loader import get_model_loader
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.scalar_type import scalar_types
from vllm.utils.torch_utils import set_default_torch_dtype

LARGE = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 128}


def build(folder, device, shapes, dtype="bfloat16"):
    """The model as vLLM makes it, with empty parameters; shapes: keys of config.json to change. Scales become
    numbers of dtype."""
    config = EngineArgs(model=str(folder), tokenizer=str(folder), skip_tokenizer_init=True, dtype=dtype,
                        enforce_eager=True, max_model_len=256, hf_overrides=shapes).create_engine_config()
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            init_distributed_environment(1, 0, f"file://{tempfile.mktemp()}", 0, "gloo")
            initialize_model_parallel(1, 1)
        with set_default_torch_dtype(getattr(torch, dtype)), torch.device(device):
            return config, initialize_model(config)


def linear_layers(model):
    for i, block in enumerate(model.model.layers):
        stem = f"model.layers.{i}"
        yield f"{stem}.self_attn", ("q_proj", "k_proj", "v_proj"), block.self_attn.qkv_proj
        yield f"{stem}.self_attn", ("o_proj",), block.self_attn.o_proj
        yield f"{stem}.mlp", ("gate_proj", "up_proj"), block.mlp.gate_up_proj
        yield f"{stem}.mlp", ("down_proj",), block.mlp.down_proj


def chosen(layer):
    """"CompressedTensorsWNA16, Marlin": the scheme or method, and the kernel where one is chosen already."""
    parts = [x for x in (getattr(layer, "scheme", None), layer.quant_method) if x is not None]
    kernels = [type(v).__name__ for x in parts for v in vars(x).values()
               if type(v).__module__.startswith("vllm.model_executor.kernels")]
    return ", ".join([type(parts[0]).__name__.removeprefix("CompressedTensors"),
                      *(k.removesuffix("Kernel").removesuffix("Linear") for k in kernels[:1])])


def on_gpu(folder, sm):
    """What vLLM does with such a layer on a GPU: (True, what it takes) or (False, what it says)."""
    NamedGpu.sm = sm
    cutlass.CUTLASS_BLOCK_FP8_SUPPORTED = w8a8_utils.cutlass_block_fp8_supported()  # asked once, when it is imported
    try:
        _, model = build(folder, "meta", LARGE)
        return True, "; ".join(dict.fromkeys(chosen(layer) for _, _, layer in linear_layers(model)))
    except Exception as e:
        return False, runtime_cases.said(e)


def decoded(layer, widths):
    """The weight of a merged layer by vLLM's own functions, float32 [outputs, inputs]."""
    p = dict(layer.named_parameters())
    rows = torch.cat([torch.full((w,), i) for i, w in enumerate(widths)])

    def get(*names):
        return next(p[n] for n in names if n in p)

    if "weight_global_scale" in p or "weight_scale_2" in p:
        scale = 1 / p["weight_global_scale"] if "weight_global_scale" in p else p["weight_scale_2"]
        return dequantize_to_dtype(get("weight_packed", "weight"), p["weight_scale"], scale[rows][:, None],
                                   torch.float32, swizzle=False)
    if "weight_packed" in p and p["weight_packed"].dtype == torch.uint8:  # MXFP4
        codes = break_fp4_bytes(p["weight_packed"], torch.float32)
        return quant_utils.scaled_dequantize(codes, torch.exp2(p["weight_scale"].float() - 127))
    if "qweight" in p:
        bits = 32 * p["qzeros"].shape[1] // p["qweight"].shape[1]
        kind = {4: scalar_types.uint4b8, 8: scalar_types.uint8b128}[bits]
        codes = quant_utils.unpack_quantized_values_into_int32(p["qweight"], kind, 0) - kind.bias
        return quant_utils.scaled_dequantize(codes, p["scales"]).T
    if "weight_packed" in p:
        inputs = int(p["weight_shape"][-1])
        bits = 32 * p["weight_packed"].shape[1] // inputs
        kind = {4: scalar_types.uint4b8, 8: scalar_types.uint8b128}[bits]
        codes = quant_utils.unpack_quantized_values_into_int32(p["weight_packed"], kind, 1)
        zero = kind.bias
        if "weight_zero_point" in p:
            zero = quant_utils.unpack_quantized_values_into_int32(p["weight_zero_point"], kind, 0)
            zero = quant_utils.group_broadcast(zero, codes.shape)
        return quant_utils.scaled_dequantize(codes - zero, p["weight_scale"])
    scale = get("weight_scale", "weight_scale_inv")
    if p["weight"].dtype == torch.float8_e4m3fn and scale.dtype == torch.uint8:
        return dequant_mxfp8_to_bf16(p["weight"], scale).float()
    if scale.ndim == 4:
        scale = scale.flatten(2).flatten(1)
    if scale.numel() == len(widths) and scale.ndim == 1:
        scale = scale[rows]
    if scale.ndim == 1:
        scale = scale[:, None]
    return quant_utils.scaled_dequantize(p["weight"], scale)


def load(case, sm):
    """How many weights of the folder vLLM loads, and how many of them are other numbers than kerf's."""
    NamedGpu.sm = sm
    config, model = build(case.folder, "cpu", {}, "float16" if case.format.endswith("f16") else "bfloat16")
    with torch.no_grad(), set_current_vllm_config(config):
        for p in model.parameters():  # what the loader leaves alone shows
            p.view(torch.uint8 if p.ndim else p.dtype).fill_(0x55)
        get_model_loader(config.load_config).load_weights(model, config.model_config)
        weights = differ = 0
        for stem, names, layer in linear_layers(model):
            ours = [case.ours[f"{stem}.{n}.weight"] for n in names]
            theirs = decoded(layer, [x.shape[0] for x in ours]).detach().numpy()
            want = np.concatenate(ours)
            weights += len(names)
            if case.format.startswith("mxfp8"):  # which that function rounds
                want = readers.bf16(want)
            if theirs.shape != want.shape or not np.array_equal(theirs, want):
                differ += len(names)
    return weights, differ


if __name__ == "__main__":
    sys.exit(runtime_cases.run("vllm", f"vllm {vllm.__version__}", on_gpu, load))
