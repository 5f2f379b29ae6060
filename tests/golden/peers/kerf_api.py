"""kerf_api.py - libkerf from Python, as much as a comparison needs: encode a tensor that is given
as bytes, get the bytes of every plane; and the same planes as arrays of codes and scales."""
import ctypes as c
import pathlib

import numpy as np

PLANES = ("codes", "scales", "second", "zeros")
DTYPES = {"F16": 2, "BF16": 2, "F32": 4}


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint), ("dim", c.c_uint64 * 8)]


class Plane(c.Structure):
    _fields_ = [("dtype", c.c_int), ("shape", Shape), ("bytes", c.c_uint64), ("per_matrix", c.c_int),
                ("band_bytes", c.c_uint64)]


class Format(c.Structure):
    _fields_ = [("id", c.c_int), ("name", c.c_char_p), ("family", c.c_int), ("element", c.c_int),
                ("bits", c.c_uint), ("geometry", c.c_int), ("group", c.c_uint), ("scale", c.c_int),
                ("second", c.c_int), ("zero", c.c_int), ("encoder", c.c_char_p),
                ("note", c.c_char_p)]


class Geometry(c.Structure):
    _fields_ = [("format", c.POINTER(Format)), ("shape", Shape)] + [
        (name, c.c_uint64) for name in
        ("elements", "matrices", "rows", "cols", "bands", "bands_per_matrix", "band_rows",
         "band_cols", "band_groups")] + [("plane", Plane * 4), ("bytes", c.c_uint64)]


class Codec(c.Structure):
    _fields_ = [("format", c.POINTER(Format)), ("encoder", c.c_void_p)]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("native", c.c_int32), ("offset", c.c_uint64),
                ("text", c.c_char * 512)]


class Span(c.Structure):
    _fields_ = [("p", c.c_void_p), ("n", c.c_size_t)]


class Stats(c.Structure):
    _fields_ = [("amax", c.c_float), ("min", c.c_float), ("max", c.c_float),
                ("blocks", c.c_uint64), ("sum", c.c_uint64 * 5)]


class Exec(c.Structure):
    _fields_ = [("threads", c.c_int), ("nan", c.c_int), ("backend", c.c_char_p),
                ("device", c.c_void_p), ("importance", c.c_void_p), ("importances", c.c_uint64)]


class Kerf:
    """One loaded library."""

    def __init__(self, path):
        self.lib = c.CDLL(str(pathlib.Path(path).resolve()))
        self.lib.kerf_dtype_find.restype = c.c_int
        self.lib.kerf_format_at.restype = c.POINTER(Format)
        self.lib.kerf_format_count.restype = c.c_size_t

    def _try(self, status, err):
        if status != 0:
            raise RuntimeError(err.text.decode())

    def find(self, codec):
        found, err = Codec(), Error()
        self._try(self.lib.kerf_codec_find(codec.encode(), c.byref(found), c.byref(err)), err)
        return found

    def geometry(self, fmt, shape):
        g, err = Geometry(), Error()
        s = Shape(len(shape), (c.c_uint64 * 8)(*shape))
        self._try(self.lib.kerf_geometry_init(c.byref(g), fmt, c.byref(s), c.byref(err)), err)
        return g

    def encode(self, codec, data, dtype, shape, importance=None):
        """{plane: bytes as uint8} of row-major data of this type and shape. importance: fp32, one
        number per column."""
        how = Exec()
        if importance is not None:
            how.importance, how.importances = importance.ctypes.data, importance.size
        found, err = self.find(codec), Error()
        g = self.geometry(found.format, shape)
        data = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        src = Span(data.ctypes.data, data.size)
        kind = self.lib.kerf_dtype_find(dtype.encode())
        stats = (Stats * max(1, g.matrices))()
        bands = c.c_uint64(g.bands)
        if self.lib.kerf_needs_stats(c.byref(g)):
            self._try(self.lib.kerf_measure(c.byref(g), c.c_uint64(0), bands, src, kind, stats,
                                            None, c.byref(err)), err)
        planes = {n: np.zeros(g.plane[i].bytes, np.uint8) for i, n in enumerate(PLANES)
                  if g.plane[i].dtype}
        dst = (Span * 4)(*[Span(planes[n].ctypes.data, planes[n].size) if n in planes
                           else Span(None, 0) for n in PLANES])
        self._try(self.lib.kerf_encode(c.byref(g), c.c_void_p(found.encoder), stats, c.c_uint64(0),
                                       bands, src, kind, dst, c.byref(how), c.byref(err)), err)
        return planes

    def decode(self, codec, planes, shape):
        """float32 values of planes."""
        found, err = self.find(codec), Error()
        g = self.geometry(found.format, shape)
        out = np.zeros(g.elements, np.float32)
        kept = {n: np.ascontiguousarray(p) for n, p in planes.items()}
        src = (Span * 4)(*[Span(kept[n].ctypes.data, kept[n].size) if n in kept
                           else Span(None, 0) for n in PLANES])
        kind = self.lib.kerf_dtype_find(b"F32")
        self._try(self.lib.kerf_decode(c.byref(g), c.c_uint64(0), c.c_uint64(g.bands), src,
                                       Span(out.ctypes.data, out.nbytes), kind, None,
                                       c.byref(err)), err)
        return out.reshape(shape)


# --- planes as arrays -----------------------------------------------------------------------------

def pack_codes(codes, bits):
    """Rows of codes (uint8, last axis along a row) as bytes: a little-endian bit stream per row."""
    if bits == 8:
        return np.ascontiguousarray(codes).reshape(-1)
    rows = codes.reshape(-1, codes.shape[-1])
    stream = (rows[..., None] >> np.arange(bits, dtype=np.uint8) & 1).reshape(rows.shape[0], -1)
    return np.packbits(stream, axis=-1, bitorder="little").reshape(-1)
