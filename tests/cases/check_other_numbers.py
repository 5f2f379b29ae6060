#!/usr/bin/env python3
"""check_other_numbers.py KERF [CASE...]: quantized sources whose numbers are others than their names say, and the
spellings of others that mean the same."""
import json
import struct
import sys

from files import bf16, model, need, numbers, read, run_cases, write

UP = "model.layers.0.mlp.up_proj"
VERBS = (("quantize", "-f", "int8", "-o"), ("dequantize", "-o"), ("convert", "--layout", "kerf", "-o"))
DENSE = ("model.layers.0.self_attn.o_proj.weight", "BF16", (128, 128))


def refused(kerf, folder, says):
    for verb in VERBS:
        kerf(verb[0], folder, *verb[1:], folder + "-out", code=3, says=says)
    kerf("score", folder, "-f", "int8", code=3, says=says)
    kerf("inspect", folder, code=1, says=says)


def packed(shape_type="I64"):
    codes = [(i * 7 + i // 5) % 16 for i in range(128 * 128)]
    words = [sum(c << 4 * k for k, c in enumerate(codes[i:i + 8])) for i in range(0, len(codes), 8)]
    scales = [2.0 ** -(6 + i % 3) for i in range(128 * 4)]
    return [(UP + ".weight_packed", "I32", (128, 16), [w - (w >> 31 << 32) for w in words]), (UP + ".weight_scale", "BF16", (128, 4), scales),
            (UP + ".weight_shape", shape_type, (2,), [128, 128])], [(c - 8) * scales[i // 32] for i, c in enumerate(codes)]


def case_shape_of_32_bits(kerf, tmp):
    """weight_shape as I32: loaders of compressed-tensors take a shape of any integers."""
    tensors, want = packed("I32")
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["model.layers.0.self_attn.o_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
        "num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True, "dynamic": False}}}}
    folder = model(f"{tmp}/m", tensors + [DENSE], model_type="llama", quantization_config=config)
    kerf("inspect", folder)
    kerf("dequantize", folder, "--dtype", "fp32", "-o", f"{tmp}/dense")
    raw = read(f"{tmp}/dense/model.safetensors")[UP + ".weight"][2]
    need(list(struct.unpack("<16384f", raw)) == want, "other numbers")
    for codec, says in (("int4-g32", "1 of 2 tensors quantized"), ("int4-g128", "1 tensor is decoded on the way in")):
        kerf("quantize", folder, "-f", codec, "--layout", "compressed-tensors", "-o", f"{tmp}/{codec}", says=says)
        kerf("inspect", f"{tmp}/{codec}")
        kerf("verify", folder, f"{tmp}/{codec}")
    for wrong in ([127, 128], [-128, 128]):
        bad = model(f"{tmp}/bad", [*tensors[:2], (UP + ".weight_shape", "I32", (2,), wrong), DENSE], model_type="llama", quantization_config=config)
        kerf("dequantize", bad, "-o", f"{tmp}/x", code=3, says="holds codes, but no layout has them so")


def case_rotated(kerf, tmp):
    """compressed-tensors' transforms of inputs, which a loader repeats; those of weights alone cancel each other."""
    def folder(name, *locations):
        apply = [{"targets": ["re:.*up_proj$"], "location": at} for at in locations]
        config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "transform_config": {"config_groups": {"u": {"type": "hadamard", "apply": apply}} if apply else {}}}
        return model(f"{tmp}/{name}", packed()[0], model_type="llama", quantization_config=config)

    refused(kerf, folder("online", "weight_input", "input"), "inputs are rotated while it runs (transform_config of config.json)")
    refused(kerf, folder("outputs", "output"), "transform_config")
    for name, at in (("none", ()), ("fused", ("weight_input", "weight_output"))):
        kerf("dequantize", folder(name, *at), "-o", f"{tmp}/{name}-out")


def case_scales_that_divide(kerf, tmp):
    fp8 = [(UP + ".weight", "F8_E4M3", (128, 128)), (UP + ".weight_scale_inv", "F32", (128,), [1000.0] * 128)]
    config = {"quant_method": "fp8", "format": "float8_e4m3fn", "weight_scale_method": "row", "weight_scale_semantics": "inverse"}
    refused(kerf, model(f"{tmp}/m", fp8, model_type="llama", quantization_config=config), "scales that divide")


def nvfp4():
    return [(UP + ".weight", "U8", (128, 64), [0x21] * 8192), (UP + ".weight_scale", "F8_E4M3", (128, 8)), (UP + ".weight_scale_2", "F32", (), [0.01])]


def int8():
    return [(UP + ".weight", "I8", (128, 128), [i % 100 for i in range(16384)]), (UP + ".weight_scale", "F32", (128, 1), [0.01] * 128)]


def case_comfy(kerf, tmp):
    """ComfyUI's names are those of Model-Optimizer; its NVFP4 and MXFP8 have scales in tiles of a kernel, and convrot
    has rotated weights. It says so beside each weight, or in the metadata."""
    fp8 = [(UP + ".weight", "F8_E4M3", (128, 128)), (UP + ".weight_scale", "F32", (), [0.01])]
    mxfp8 = [(UP + ".weight", "F8_E4M3", (128, 128)), (UP + ".weight_scale", "U8", (128, 4), [120] * 512)]
    bad = {"nvfp4": (nvfp4(), {"format": "nvfp4"}, "ComfyUI's \"nvfp4\""), "mxfp8": (mxfp8, {"format": "mxfp8"}, "ComfyUI's \"mxfp8\""),
           "convrot": (int8(), {"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": 256}, "with convrot, whose weights are rotated"),
           "new": (int8(), {"format": "another"}, "ComfyUI's \"another\"")}
    good = {"fp8": (fp8, {"format": "float8_e4m3fn"}), "int8": (int8(), {"format": "int8_tensorwise"})}
    for where in ("beside", "metadata"):
        def folder(name, tensors, mark):
            text = list(json.dumps(mark).encode())
            path = f"{tmp}/{where}-{name}"
            model(path, tensors + ([(UP + ".comfy_quant", "U8", (len(text),), text)] if where == "beside" else []), _class_name="FluxTransformer2DModel")
            if where == "metadata":
                write(f"{path}/model.safetensors", tensors, {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": {UP: mark}})})
            return path

        for name, (tensors, mark, says) in bad.items():
            refused(kerf, folder(name, tensors, mark), says)
        for name, (tensors, mark) in good.items():
            m = folder(name, tensors, mark)
            kerf("dequantize", m, "-o", m + "-out")
            kerf("quantize", m, "-f", "nvfp4", "-o", m + "-nvfp4")
            kerf("verify", m, m + "-nvfp4")
            for out in ("-out", "-nvfp4"):  # no loader shall take what it says for the output's
                with open(f"{m}{out}/model.safetensors", "rb") as f:
                    need(b"quantization_metadata" not in f.read(), f"{where} {name}{out}: the output says that it is ComfyUI's")


def case_packed_by_training(kerf, tmp):
    """bitsandbytes with bnb_4bit_quant_storage: codes in BF16 are no weights."""
    state = list(json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [128, 128]}).encode())
    for kind in ("nf4", "fp4"):
        tensors = [(UP + ".weight", "BF16", (4096, 1), [bf16(x) for x in numbers(4096)]), (UP + ".weight.absmax", "F32", (256,)), (UP + ".weight.quant_map", "F32", (16,)),
                   (f"{UP}.weight.quant_state.bitsandbytes__{kind}", "U8", (len(state),), state), DENSE]
        folder = model(f"{tmp}/{kind}", tensors, model_type="llama", quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_storage": "bfloat16"})
        refused(kerf, folder, "codes of bitsandbytes in words of BF16 (bnb_4bit_quant_storage)")


def case_rounded_while_it_runs(kerf, tmp):
    """BitNet's master weights, of which the model makes ternary ones: they are no model without that."""
    config = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}
    folder = model(f"{tmp}/m", [DENSE], model_type="bitnet", quantization_config=config)
    says = "makes its weights ternary while it runs"
    kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/x", code=3, says=says)
    kerf("score", folder, "-f", "int8", code=3, says=says)
    kerf("advise", folder, "--budget", "9bits", "-f", "int8", code=3, says=says)
    kerf("quantize", model(f"{tmp}/n", [DENSE], model_type="llama", quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True}), "-f", "int8", "-o", f"{tmp}/y")


if __name__ == "__main__":
    sys.exit(run_cases(globals()))
