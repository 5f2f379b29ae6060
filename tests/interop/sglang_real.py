"""What SGLang's own code makes of the files that kerf writes, run on a machine without a GPU. See runtimes.sh,
and vllm_real.py, whose questions these are.

torch is told to answer with a capability that this file sets. SGLang reads the configuration, picks the scheme
of each linear layer and makes its parameters, and the loader of its Llama fills them; no kernel is launched.
Its model itself asks for a server that runs, so that the four layers of each block are made one by one here.
"""

import json
import os
import sys
import warnings
from types import SimpleNamespace

warnings.simplefilter("ignore")
sys.setdlopenflags(os.RTLD_LAZY)  # an empty library stands for the driver

import numpy as np
import torch

SM = [90]
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 1
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_capability = lambda device=None: divmod(SM[0], 10)
torch.cuda.get_device_properties = lambda device=None: SimpleNamespace(
    major=SM[0] // 10, minor=SM[0] % 10, name="", total_memory=80 << 30, multi_processor_count=132)
torch.cuda.get_device_name = lambda device=None: f"sm_{SM[0]}"

import sglang
from safetensors.torch import load_file
from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.layers.linear import MergedColumnParallelLinear, QKVParallelLinear, RowParallelLinear
from sglang.srt.model_loader.weight_utils import get_quant_config
from sglang.srt.models.llama import LlamaForCausalLM

import readers
import runtime_cases

LARGE = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 128, "num_hidden_layers": 1}
ALONE = {"bias": False, "params_dtype": torch.bfloat16, "parallel_group": "replicated"}


def quant_config(folder):
    """As its model loader has it, with the check against the GPU that stands there."""
    model = ModelConfig(model_path=str(folder), dtype="bfloat16")
    config = get_quant_config(model, LoadConfig(), getattr(LlamaForCausalLM, "packed_modules_mapping", {}))
    if SM[0] < config.get_min_capability():
        raise ValueError(f"{model.quantization} from sm_{config.get_min_capability()} on")
    return config


def block(config, c, i):
    """The linear layers of block i: (stem, names of what is merged, layer)."""
    stem = f"model.layers.{i}"
    hidden, heads, size = c["hidden_size"], c["num_attention_heads"], c["head_dim"]
    attention, mlp = f"{stem}.self_attn", f"{stem}.mlp"
    yield attention, ("q_proj", "k_proj", "v_proj"), QKVParallelLinear(
        hidden, size, heads, c["num_key_value_heads"], quant_config=config, prefix=f"{attention}.qkv_proj", **ALONE)
    yield attention, ("o_proj",), RowParallelLinear(
        heads * size, hidden, quant_config=config, prefix=f"{attention}.o_proj", **ALONE)
    yield mlp, ("gate_proj", "up_proj"), MergedColumnParallelLinear(
        hidden, [c["intermediate_size"]] * 2, quant_config=config, prefix=f"{mlp}.gate_up_proj", **ALONE)
    yield mlp, ("down_proj",), RowParallelLinear(
        c["intermediate_size"], hidden, quant_config=config, prefix=f"{mlp}.down_proj", **ALONE)


def chosen(layer):
    part = getattr(layer, "scheme", None) or layer.quant_method
    return type(part).__name__.removeprefix("CompressedTensors")


def on_gpu(folder, sm):
    SM[0] = sm
    try:
        config = quant_config(folder)
        with torch.device("meta"):
            return True, "; ".join(dict.fromkeys(chosen(layer) for _, _, layer in block(config, LARGE, 0)))
    except Exception as e:
        return False, runtime_cases.said(e)


class Blocks(torch.nn.Module):
    """As much of its Llama as the loader of that model looks at."""

    def __init__(self, config, c):
        super().__init__()
        self.config = SimpleNamespace(**c)
        self.model = torch.nn.Module()
        self.model.layers = torch.nn.ModuleList()
        self.merged = []
        for i in range(c["num_hidden_layers"]):
            part = {"self_attn": torch.nn.Module(), "mlp": torch.nn.Module()}
            for stem, names, layer in block(config, c, i):
                self.merged.append((stem, names, layer))
                name = {3: "qkv_proj", 2: "gate_up_proj"}.get(len(names), names[0])
                part[stem.rsplit(".", 1)[1]].add_module(name, layer)
            self.model.layers.append(torch.nn.ModuleDict(part))


def load(case, sm):
    """How many weights its Llama loads of the folder, and how many of them are other numbers than kerf's: tensors
    that it has no parameter for it skips without a word."""
    SM[0] = sm
    ALONE["params_dtype"] = torch.float16 if case.format.endswith("f16") else torch.bfloat16  # of scales, too
    c = json.loads((case.folder / "config.json").read_text())
    with torch.device("cpu"):
        model = Blocks(quant_config(case.folder), c)
    with torch.no_grad():
        for p in model.parameters():  # what the loader leaves alone shows
            p.view(torch.uint8 if p.ndim else p.dtype).fill_(0x55)
        tensors = load_file(case.folder / "model.safetensors").items()
        LlamaForCausalLM._legacy_load_weights(model, ((n, t) for n, t in tensors if "_proj." in n))
    stored = readers.raw_tensors(case.folder / "model.safetensors")
    wrong = sum(compare(case, stem, names, layer, stored) for stem, names, layer in model.merged)
    return sum(len(names) for _, names, _ in model.merged), wrong


def compare(case, stem, names, layer, stored):
    """Takes each merged parameter apart again; what it holds must decode to kerf's numbers. Of a tensor of the
    folder that has no such parameter nothing is known."""
    parts, wrong = {}, 0
    known = {key for key, _ in layer.named_parameters()}
    lost = [n for n in names if any(key.startswith(f"{stem}.{n}.") and key.rsplit(".", 1)[1] not in known
                                    for key in stored)]
    if lost:
        return len(names)
    for key, p in layer.named_parameters():
        x = p.detach()
        x = x.view(torch.uint8) if x.dtype == torch.float8_e4m3fn else x
        x = (x.float() if x.dtype == torch.bfloat16 else x).numpy()
        at = 0
        for i, name in enumerate(names):
            have = stored.get(f"{stem}.{name}.{key}")
            if have is None:
                continue
            axis = 1 if key in ("qweight", "qzeros", "scales") and len(names) > 1 else 0
            if have.ndim == 0 or (have.size == 1 and x.size == len(names)):
                got = x.reshape(-1)[i:i + 1].reshape(have.shape)
            elif key in ("weight_shape", "g_idx"):
                got = x.reshape(have.shape)
            else:
                got = x.take(range(at, at + have.shape[axis]), axis).reshape(have.shape)
                at += have.shape[axis]
            parts[f"{stem}.{name}.{key}"] = got
    for name in names:
        whole = f"{stem}.{name}.weight"
        theirs = readers.decode(stored | parts, whole, case.format, case.layout)
        wrong += not np.array_equal(theirs, case.ours[whole])
    return wrong


if __name__ == "__main__":
    sys.exit(runtime_cases.run("sglang", f"sglang {sglang.__version__}", on_gpu, load))
