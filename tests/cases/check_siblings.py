#!/usr/bin/env python3
"""check_siblings.py KERF [CASE...]: checkpoints of the kinds that check.py has, in the forms that others give
them: files beside a model, files that are none, outliers in rows and columns, scales under other names."""
import os
import shutil
import struct
import zipfile

from files import f32, model, need, numbers, read, run_cases, write

L = "model.layers.0."
UP = L + "mlp.up_proj.weight"
LLAMA = {"model_type": "llama", "tie_word_embeddings": True}


def up(i):
    return (f"model.layers.{i}.mlp.up_proj.weight", "BF16", (64, 64))


def indexed(folder, names, **more):
    """Shards of a layer each, an index of them, and other files."""
    for i, name in enumerate(names):
        write(f"{folder}/{name}", [up(i)])
    for name, tensors in more.items():
        write(f"{folder}/{name}.safetensors", tensors)
    with open(f"{folder}/config.json", "w") as f:
        f.write('{"model_type": "llama", "tie_word_embeddings": true}')
    with open(f"{folder}/model.safetensors.index.json", "w") as f:
        f.write('{"weight_map": {%s}}' % ", ".join(f'"{up(i)[0]}": "{n}"' for i, n in enumerate(names)))
    return folder


def case_beside(kerf, tmp):
    """A file that goes on where the model ends is refused, whatever it is called; a command that is given works."""
    two = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    lost = {"model-00003-of-00003": [up(2)], "mtp": [up(61)], "rest": [up(2), up(3)]}
    for name, tensors in lost.items():
        folder = indexed(f"{tmp}/{name}", two, **{name: tensors})
        path = f"{folder}/{name}.safetensors"
        kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/x", code=3, says=f"the index does not name it: if it is no part of the model, move it away: mv {path} {path}.old")
        kerf("inspect", folder, code=3, says=f"holds {len(tensors)} tensors that go on")
        os.rename(path, path + ".old")
        kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/{name}-out/")
    alone = model(f"{tmp}/alone", [up(0)], **LLAMA)
    write(f"{alone}/model-extra.safetensors", [up(1)])
    kerf("inspect", alone, code=3, says="no index names it")
    # other weights are said; the same weights in another type, and those of Mistral's names, are none
    folder = indexed(f"{tmp}/visual", two, visual=[("visual.patch.weight", "BF16", (64, 64))])
    kerf("quantize", folder, "-f", "int8", "-n", says="visual.safetensors lies beside the model with other tensors")
    folder = indexed(f"{tmp}/copies", two, copy=[up(1)], consolidated=[("layers.0.feed_forward.w3.weight", "BF16", (64, 64))],
                     ema=[up(0), (up(0)[0] + "_scale", "F32", (1,))])
    need(kerf.json("quantize", folder, "-f", "int8", "-n")["notes"] == [], "copies of the weights are called others")


def case_no_weights(kerf, tmp):
    """Files in the place of weights, by their first bytes."""
    onnx = b"\x08\x07\x12\x07pytorch\x1a\x052.1.0:" + bytes(99)
    kinds = {"graph.onnx": (onnx, "a graph of ONNX"), "graph.safetensors": (onnx, "a graph of ONNX"), "bare.onnx": (b"\x08\x03\x3a\xff\x01" + bytes(99), "a graph of ONNX"),
             "lite.safetensors": (b"\x1c\0\0\0TFL3" + bytes(99), "TensorFlow Lite"), "moved.safetensors": (b"Found. Redirecting to https://", 'begins with the text "Found. Redirecting to ht"'),
             "http.safetensors": (b"HTTP/1.1 404 Not Found\r\n\r\n", 'begins with the text "HTTP/1.1 404 Not Found  "')}
    for name, (raw, says) in kinds.items():
        with open(f"{tmp}/{name}", "wb") as f:
            f.write(raw)
        kerf("inspect", f"{tmp}/{name}", code=3, says=says)
    for inside, says in (("model/model.safetensors", "an archive of zip: unzip it first"), ("archive/data.pkl", "a pickle of PyTorch")):
        with zipfile.ZipFile(f"{tmp}/zip.safetensors", "w") as z:
            z.writestr(inside, bytes(200))
        kerf("inspect", f"{tmp}/zip.safetensors", code=3, says=says)


def case_outliers(kerf, tmp):
    """What a row, a column, some numbers far above the rest take from the others is said, and where one scale lets
    them take it from all, it is an error of verify; half of the rows in a scale of their own, or rows of several sizes, are none."""
    rows, cols = 64, 128
    plain = [f32(x) for x in numbers(rows * cols)]

    def spoiled(change):
        return [f32(change(i // cols, i % cols, x)) for i, x in enumerate(plain)]

    kinds = {"row": (lambda r, c, x: x * 1e6 if r == 5 else x, ("nvfp4", "int8-tensor", "fp8-e4m3", "fp8-e4m3-128x128")),
             "column": (lambda r, c, x: x * 1e6 if c == 7 else x, ("nvfp4", "int8-tensor", "fp8-e4m3")),
             "some": (lambda r, c, x: 1e4 if c == 5 and r % 8 == 0 else x, ("int8-tensor", "int8")),
             "one": (lambda r, c, x: 3e4 if r == c == 0 else x, ("nvfp4", "int8-tensor", "fp8-e4m3-128x128", "int8")),
             "half": (lambda r, c, x: x * 1e5 if r < 32 else x, ("int8-tensor",))}
    for kind, (change, formats) in kinds.items():
        source = model(f"{tmp}/{kind}", [(UP, "F32", (rows, cols), spoiled(change))], **LLAMA)
        for to in formats:
            out = f"{tmp}/{kind}-{to}"
            kerf("quantize", source, "-f", to, "-o", out)
            kerf("verify", source, out, code=1, says="lost_share")
    for to in ("int8", "int4-g128", "int4-row", "nf4", "fp8-e4m3-128x128"):  # the model is like that; but it is said, as is how much becomes zero
        kerf("quantize", f"{tmp}/column", "-f", to, "-o", f"{tmp}/column-{to}")
        kerf("verify", f"{tmp}/column", f"{tmp}/column-{to}", says="weights become zero: a column")
        need(kerf.json("score", f"{tmp}/column", "-f", to)["tensors"][0]["zero_share"] > 0.5, f"{to}: the zeros are not counted")
    sound = {"plain": (lambda r, c, x: x, ("nvfp4", "int8-tensor", "fp8-e4m3", "int4-g128", "nf4")), "half": (kinds["half"][0], ("nvfp4", "int8", "int4-g128", "nf4", "fp8-e4m3")),
             "sizes": (lambda r, c, x: x * 1.1 ** r, ("nvfp4", "int8", "fp8-e4m3", "int4-g128"))}
    for kind, (change, formats) in sound.items():
        source = model(f"{tmp}/{kind}-sound", [(UP, "F32", (rows, cols), spoiled(change))], **LLAMA)
        for to in formats:
            kerf("quantize", source, "-f", to, "-o", f"{tmp}/x", "-y")
            kerf("verify", source, f"{tmp}/x")


def tiled(rows, cols, high, wide):
    """Integers, their scales, and what they stand for."""
    codes = [(i * 37 + i // cols * 11) % 255 - 127 for i in range(rows * cols)]
    down, across = -(-rows // high), -(-cols // wide)
    scales = [2.0 ** -(7 + i % 4) for i in range(down * across)]
    values = [q * scales[i // cols // high * across + i % cols // wide] for i, q in enumerate(codes)]
    return [q & 255 for q in codes], (down, across), scales, values


def case_int8_tiles(kerf, tmp):
    """INT8 in tiles, as SGLang's blockwise_int8 has it; the same bytes are FP8 where config.json says so."""
    for rows, cols, size in ((128, 192, 64), (100, 150, 64), (32, 150, 64)):
        codes, shape, scales, values = tiled(rows, cols, size, size)
        parts = [(UP, "I8", (rows, cols), codes), (UP + "_scale_inv", "F32", shape, scales)]
        q = {"quant_method": "blockwise_int8", "weight_block_size": [size, size]}
        source = model(f"{tmp}/{rows}x{cols}", parts, model_type="llama", quantization_config=q)
        kerf("dequantize", source, "-o", f"{tmp}/{rows}x{cols}-out", "--dtype", "fp32")
        raw = read(f"{tmp}/{rows}x{cols}-out/model.safetensors")[UP][2]
        need(list(struct.unpack(f"<{rows * cols}f", raw)) == values, f"{rows} x {cols}: other numbers")
        fp8 = model(f"{tmp}/{rows}x{cols}.fp8", parts, model_type="llama", quantization_config={**q, "quant_method": "fp8"})
        kerf("dequantize", fp8, "-o", f"{tmp}/x", code=3, says="no layout has them so")


def case_scales(kerf, tmp):
    """Scales that no layout names are named; those of a matrix that was turned are no tiles of another size."""
    codes = [0x30 + i % 16 for i in range(256 * 512)]
    q = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    for name in ("weight_scales", "weight_block_scale", "scales"):
        folder = model(f"{tmp}/{name}", [(UP, "F8_E4M3", (256, 512), codes), (UP[:-6] + name, "F32", (2, 4), [1.0] * 8)], model_type="llama", quantization_config=q)
        kerf("quantize", folder, "-f", "int8", "-o", f"{tmp}/x", code=3, says=f"what stands there is called {name}")
    folder = model(f"{tmp}/turned", [(UP, "F8_E4M3", (256, 512), codes), (UP + "_scale_inv", "F32", (4, 2), [1.0] * 8)], model_type="llama", quantization_config=q)
    for args in (("dequantize", folder), ("quantize", folder, "-f", "int8")):
        kerf(*args, "-o", f"{tmp}/x", code=3, says="is F32 [4,2], not F32 [2,4]")
    need(not os.path.exists(f"{tmp}/x"), "something was written")
    shutil.rmtree(folder)


def case_roles(kerf, tmp):
    """Layers beside a language model, embedders of images, experts below each other whose number nothing tells."""
    def decided(kind, quantized, kept, **config):
        folder = f"{tmp}/{kind}"
        write(f"{folder}/model.safetensors", [(n, "BF16", (128, 128)) for n in quantized + kept])
        if config:
            with open(f"{folder}/config.json", "w") as f:
                f.write(str(config).replace("'", '"'))
        for name, (to, why) in kerf.decisions(folder, "-f", "mxfp4").items():
            need((to is not None) == (name in quantized), f"{kind}: {name} is {to or 'kept'}: {why}")

    decided("speech", ["language_model.model.layers.0.self_attn.q_proj.weight"],
            ["encoder.layers.0.attn.to_q.weight", "encoder.layers.0.ff1.up_proj.weight", "encoder.input_linear.weight"])
    decided("robot", ["backbone.eagle_model.language_model.model.layers.0.self_attn.q_proj.weight"],
            ["action_head.model.transformer_blocks.0.attn1.to_q.weight", "backbone.eagle_model.vision_model.encoder.layers.0.mlp.fc1.weight"], model_type="gr00t_n1_5")
    decided("video", ["double_blocks.0.img_attn_qkv.weight", "double_blocks.0.img_attn_proj.weight", "double_blocks.0.img_attn_q.weight"],
            ["txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight", "byt5_in.fc1.weight", "vision_in.proj.1.weight"])
    decided("vace", ["vace_blocks.0.attn1.to_q.weight"], ["vace_blocks.0.proj_out.weight"], _class_name="WanVACETransformer3DModel")
    decided("pooled", ["vision_model.encoder.layers.0.self_attn.q_proj.weight"],
            ["vision_model.head.mlp.fc1.weight", "vision_model.head.attention.in_proj_weight"], model_type="siglip2")
    decided("music", ["decoder.model.decoder.layers.0.self_attn.q_proj.weight"],
            ["text_encoder.encoder.block.0.layer.0.SelfAttention.q.weight", "lyric_encoder.encoders.0.self_attn.linear_q.weight"], model_type="parler_tts")
    decided("rows", ["transformer.blocks.0.ffn.experts.mlp.w1"], ["transformer.blocks.0.ffn.experts.mlp.w2"])
    kerf("quantize", f"{tmp}/rows", "-f", "mxfp4", "-n", says="which of its axes is the input is not known")


if __name__ == "__main__":
    raise SystemExit(run_cases(globals()))
