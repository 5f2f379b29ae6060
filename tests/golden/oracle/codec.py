"""Encode and decode of any row of formats.def, and the bytes of its planes."""
from . import floats, ieee, integers, nf4, nvfp4
from .formats import Geometry, pack_row, pack_rows

FAMILIES = {
    "CAST": (floats.encode_cast, floats.decode_cast),
    "FP8": (floats.encode_fp8, floats.decode_fp8),
    "MX": (floats.encode_mx, floats.decode_mx),
    "NVFP4": (nvfp4.encode_nvfp4, nvfp4.decode_nvfp4),
    "NF4": (nf4.encode_nf4, nf4.decode_nf4),
    "INT": (integers.encode_int, integers.decode_int),
    "AFFINE": (integers.encode_affine, integers.decode_affine),
}


def encode(fmt, encoder, shape, values):
    return FAMILIES[fmt.family][0](fmt, encoder, Geometry(fmt, shape), values)


def decode(fmt, shape, encoded):
    return FAMILIES[fmt.family][1](fmt, Geometry(fmt, shape), encoded)


def pack_nf4(codes):
    """First element in the high nibble; a missing last one counts as code 7, zero."""
    codes = codes + [7] * (len(codes) % 2)
    return bytes(a << 4 | b for a, b in zip(codes[::2], codes[1::2]))


def pack_zeros(fmt, geometry, zeros):
    if fmt.zero == "F32":
        return ieee.to_bytes("F32", zeros)
    if fmt.geometry == "TENSOR":
        return b"".join(pack_row([z], fmt.bits) for z in zeros)
    return pack_rows(zeros, geometry.groups_per_row(), fmt.bits)


def planes(fmt, shape, e):
    """Plane name -> bytes, empty planes left out."""
    geometry = Geometry(fmt, shape)
    codes = pack_nf4(e.codes) if fmt.element == "NF4" \
        else pack_rows(e.codes, geometry.cols, fmt.bits)
    scales = ieee.to_bytes(fmt.scale, e.scales) if fmt.scale in ieee.SIZE else bytes(e.scales)
    out = {"codes": codes, "scales": scales, "second": ieee.to_bytes("F32", e.second),
           "zeros": pack_zeros(fmt, geometry, e.zeros)}
    return {name: data for name, data in out.items() if data}
