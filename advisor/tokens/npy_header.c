/* npy_header.c - the header of NumPy's file of one array.
 *
 * Six bytes of magic, two of version, the length of a text (two bytes in version 1, else four), and
 * that text: a dictionary as Python writes it, with descr, fortran_order and shape.
 *
 * Source: NumPy 2.3, numpy/lib/_format_impl.py. */
#include "npy_header.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 65535, FIXED_BYTES = 12 };

static const struct {
    const char *descr;
    kerf_dtype dtype;
} types[] = {
    {"|u1", KERF_U8},  {"|i1", KERF_I8},  {"<u2", KERF_U16}, {"<i2", KERF_I16},
    {"<u4", KERF_U32}, {"<i4", KERF_I32}, {"<u8", KERF_U64}, {"<i8", KERF_I64},
};

static kerf_status fail_npy(const kf_blob *b, kerf_error *err, kerf_status s, const char *why)
{
    return kf_fail(err, s, KF_NOWHERE, "%.*s: %s", KF_NAME(b->path), why);
}

/* What follows `'key':`, without the space before it; NULL: the key is not there. */
static const char *value_of(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    if (!p) return NULL;
    p += strlen(key);
    while (*p == ' ') p++;
    if (*p++ != ':') return NULL;
    while (*p == ' ') p++;
    return p;
}

static kerf_status take_type(const kf_blob *b, const char *v, kf_npy *out, kerf_error *err)
{
    if (v)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            const size_t n = strlen(types[i].descr);
            if ((*v == '\'' || *v == '"') && strncmp(v + 1, types[i].descr, n) == 0 &&
                v[n + 1] == *v) {
                out->dtype = types[i].dtype;
                return KERF_OK;
            }
        }
    return fail_npy(b, err, KERF_E_NOSUP,
                    "no array of little-endian integers; save it as "
                    "array.astype('<u4')");
}

static kerf_status take_shape(const kf_blob *b, const char *v, kf_npy *out, kerf_error *err)
{
    static const char why[] = "an array of tokens has one or two dimensions; save it as "
                              "array.reshape(-1)";
    out->rank = 0;
    if (!v || *v++ != '(') return fail_npy(b, err, KERF_E_DATA, "no shape in the header");
    for (;;) {
        while (*v == ' ' || *v == ',') v++;
        if (*v == ')') break;
        uint64_t n = 0;
        if (*v < '0' || *v > '9') return fail_npy(b, err, KERF_E_DATA, "no shape in the header");
        for (; *v >= '0' && *v <= '9'; v++)
            if (!kf_mul_ok(n, 10, &n) || !kf_add_ok(n, (uint64_t)(*v - '0'), &n))
                return fail_npy(b, err, KERF_E_DATA, "the shape does not fit 64 bits");
        if (out->rank == 2) return fail_npy(b, err, KERF_E_NOSUP, why);
        out->dim[out->rank++] = n;
    }
    return out->rank > 0 ? KERF_OK : fail_npy(b, err, KERF_E_NOSUP, why);
}

static kerf_status take_text(const kf_blob *b, const char *text, kf_npy *out, kerf_error *err)
{
    const char *order = value_of(text, "'fortran_order'");
    uint64_t n, end;
    if (*text != '{' || !order) return fail_npy(b, err, KERF_E_DATA, "the header is no dictionary");
    KF_TRY(take_type(b, value_of(text, "'descr'"), out, err));
    KF_TRY(take_shape(b, value_of(text, "'shape'"), out, err));
    if (strncmp(order, "False", 5) != 0 && out->rank == 2 && out->dim[0] > 1 && out->dim[1] > 1)
        return fail_npy(b, err, KERF_E_NOSUP,
                        "its columns are contiguous; save it as "
                        "numpy.ascontiguousarray(array)");
    if (out->rank == 1) out->dim[1] = 1;
    if (!kf_mul_ok(out->dim[0], out->dim[1], &n) ||
        !kf_mul_ok(n, kerf_dtype_bits(out->dtype) / 8, &end) || !kf_add_ok(end, out->data, &end) ||
        end != b->bytes)
        return fail_npy(b, err, KERF_E_DATA, "its size is not that of its shape: it was cut");
    return KERF_OK;
}

kerf_status kf_npy_header(const kf_blob *b, kf_npy *out, kerf_error *err)
{
    uint8_t fixed[FIXED_BYTES];
    *out = (kf_npy){0};
    if (b->bytes < FIXED_BYTES) return fail_npy(b, err, KERF_E_DATA, "too short for a .npy file");
    KF_TRY(kf_blob_read(b, 0, fixed, FIXED_BYTES, err));
    if (memcmp(fixed, "\x93NUMPY", 6) != 0)
        return fail_npy(b, err, KERF_E_DATA, "does not begin as a .npy file does");
    if (fixed[6] < 1 || fixed[6] > 3)
        return fail_npy(b, err, KERF_E_NOSUP, "a version of .npy that is not known");
    uint64_t length = (uint64_t)fixed[8] | (uint64_t)fixed[9] << 8;
    const uint64_t at = fixed[6] == 1 ? 10 : 12;
    if (fixed[6] > 1) length |= (uint64_t)fixed[10] << 16 | (uint64_t)fixed[11] << 24;
    if (length > MOST_TEXT) return fail_npy(b, err, KERF_E_LIMIT, "its header is too long");
    if (at + length > b->bytes) return fail_npy(b, err, KERF_E_DATA, "its header is cut");
    char *text = kf_alloc(length + 1, 1);
    if (!text) return fail_npy(b, err, KERF_E_NOMEM, "no memory");
    text[length] = 0;
    out->data = at + length;
    kerf_status s = kf_blob_read(b, at, text, (size_t)length, err);
    if (s == KERF_OK) s = take_text(b, text, out, err);
    free(text);
    return s;
}
