/* findings.c - reads scale planes and says what a decoder would choke on: scales that are NaN,
 * infinite or negative, and layers that runtimes fuse but that were not quantized alike. */
#include "findings.h"

#include <stdlib.h>
#include <string.h>

#include "fused.h"
#include "stream.h"

kerf_status findings_open(findings *f, kerf_error *err)
{
    *f = (findings){.list = json_array()};
    return f->list ? KERF_OK : fail(err, KERF_E_NOMEM, "no memory for findings");
}

void findings_close(findings *f)
{
    json_decref(f->list);
}

static void add(findings *f, int is_error, const char *tensor, const char *text)
{
    f->errors += is_error != 0;
    json_array_append_new(f->list,
                          json_pack("{s:s, s:s, s:s}", "severity", is_error ? "error" : "note",
                                    "tensor", tensor, "text", text));
}

/* --- scales -------------------------------------------------------------------------------- */

/* How the values of a plane are read. */
typedef enum scale_type { SCALE_OTHER, SCALE_E4M3, SCALE_E8M0, SCALE_16, SCALE_F32 } scale_type;

typedef struct tally {
    scale_type type;
    uint32_t exponent; /* bits of the exponent: all set means NaN or Inf */
    uint64_t seen, bad, negative, zero, first_bad, first_negative;
} tally;

static tally tally_for(const kerf_weight *w, kerf_plane_id p)
{
    kerf_scale_kind kind = w->codec.format->scale;
    tally t = {0};
    if (p == KERF_PLANE_SECOND || (p == KERF_PLANE_SCALES && kind == KERF_SCALE_F32)) {
        t.type = SCALE_F32;
        t.exponent = 0x7f800000u;
    } else if (p != KERF_PLANE_SCALES) {
        t.type = SCALE_OTHER;
    } else if (kind == KERF_SCALE_E4M3) {
        t.type = SCALE_E4M3;
    } else if (kind == KERF_SCALE_E8M0) {
        t.type = SCALE_E8M0;
    } else if (kind == KERF_SCALE_F16 || kind == KERF_SCALE_BF16) {
        t.type = SCALE_16;
        t.exponent = kind == KERF_SCALE_F16 ? 0x7c00u : 0x7f80u;
    }
    return t;
}

static void look_at(tally *t, uint32_t bits)
{
    int bad = 0, negative = 0, zero = 0;
    switch (t->type) {
    case SCALE_OTHER: return;
    case SCALE_E4M3:
        bad = (bits & 0x7fu) == 0x7fu;
        negative = (bits & 0x80u) != 0;
        zero = bits == 0;
        break;
    case SCALE_E8M0: bad = bits == 0xffu; break;
    case SCALE_16:
    case SCALE_F32:
        bad = (bits & t->exponent) == t->exponent;
        negative = (bits & (t->type == SCALE_F32 ? 0x80000000u : 0x8000u)) != 0;
        zero = bits == 0;
        break;
    }
    if (bad && t->bad++ == 0) t->first_bad = t->seen;
    if (!bad && negative && t->negative++ == 0) t->first_negative = t->seen;
    t->zero += (uint64_t)zero;
    t->seen++;
}

/* Streams a plane through a tally. */
static kerf_status tally_plane(const checkpoint *c, const kerf_weight *w, kerf_plane_id p, tally *t,
                               kerf_error *err)
{
    const uint64_t bytes_in_all = w->geometry.plane[p].bytes;
    enum { ROOM = 1 << 18 };
    const size_t size = t->type == SCALE_F32 ? 4 : t->type == SCALE_16 ? 2 : 1;
    unsigned char *bytes = NULL;
    TRY(allocate(&bytes, ROOM, 1, err));
    kerf_status s = KERF_OK;
    for (uint64_t at = 0; at < bytes_in_all && s == KERF_OK; at += ROOM) {
        size_t n = bytes_in_all - at < ROOM ? (size_t)(bytes_in_all - at) : ROOM;
        s = kerf_weight_read(c->reader, w, p, at, bytes, n, err);
        for (size_t i = 0; i + size <= n && s == KERF_OK; i += size) {
            uint32_t bits = 0;
            memcpy(&bits, bytes + i, size);
            look_at(t, bits);
        }
    }
    free(bytes);
    return s;
}

static kerf_status find_in_plane(findings *f, const checkpoint *c, const kerf_weight *w,
                                 kerf_plane_id p, kerf_error *err)
{
    tally t = tally_for(w, p);
    char text[160];
    const char *what = p == KERF_PLANE_SECOND ? "second-level scales" : "scales";
    if (t.type == SCALE_OTHER) return KERF_OK;
    TRY(tally_plane(c, w, p, &t, err));
    if (t.bad) {
        snprintf(text, sizeof text, "%llu of %llu %s are NaN or infinite, the first at %llu",
                 (unsigned long long)t.bad, (unsigned long long)t.seen, what,
                 (unsigned long long)t.first_bad);
        add(f, 1, w->name, text);
    }
    if (t.negative) {
        snprintf(text, sizeof text, "%llu of %llu %s are negative, the first at %llu",
                 (unsigned long long)t.negative, (unsigned long long)t.seen, what,
                 (unsigned long long)t.first_negative);
        add(f, 1, w->name, text);
    }
    if (t.zero && p == KERF_PLANE_SECOND) {
        snprintf(text, sizeof text, "%llu of %llu %s are zero: all of their weights are",
                 (unsigned long long)t.zero, (unsigned long long)t.seen, what);
        add(f, 0, w->name, text);
    }
    return KERF_OK;
}

/* --- fused groups -------------------------------------------------------------------------- */

static kerf_status read_second(const checkpoint *c, const kerf_weight *w, float *out,
                               kerf_error *err)
{
    *out = 0;
    if (w->geometry.plane[KERF_PLANE_SECOND].bytes < sizeof *out) return KERF_OK;
    return kerf_weight_read(c->reader, w, KERF_PLANE_SECOND, 0, out, sizeof *out, err);
}

static kerf_status compare_pair(findings *f, const checkpoint *c, const kerf_weight *a,
                                const kerf_weight *b, kerf_error *err)
{
    char text[256], left[64], right[64];
    if (a->codec.format != b->codec.format) {
        snprintf(text, sizeof text, "%s, but %.120s of the same fused group is %s",
                 weight_format(a, left, sizeof left), b->name,
                 weight_format(b, right, sizeof right));
        add(f, 0, a->name, text);
        return KERF_OK;
    }
    int tensor_scale = a->codec.format && a->codec.format->second == KERF_SECOND_TENSOR;
    if (!tensor_scale || a->geometry.matrices != 1 || b->geometry.matrices != 1) return KERF_OK;
    float x = 0, y = 0;
    TRY(read_second(c, a, &x, err));
    TRY(read_second(c, b, &y, err));
    if (memcmp(&x, &y, sizeof x) != 0) {
        snprintf(text, sizeof text,
                 "tensor scale %.6g, but %.120s of the same fused group has %.6g", (double)x,
                 b->name, (double)y);
        add(f, 0, a->name, text);
    }
    return KERF_OK;
}

/* Compares w, when it is the first member of a group, with the others. */
static kerf_status find_in_group(findings *f, const checkpoint *c, const kerf_weight *w,
                                 kerf_error *err)
{
    const kerf_weight *member[FUSED_MOST];
    size_t n = fused_group(c, w, member);
    for (size_t k = 1; k < n && member[0] == w; k++) TRY(compare_pair(f, c, w, member[k], err));
    return KERF_OK;
}

/* --- tensors that do not fit --------------------------------------------------------------- */

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A dense weight that is none: codes or scales for which no layout has a place. */
static void find_stray(findings *f, const kerf_weight *w)
{
    static const char *const parts[] = {"_scale",      "_scale_2",   "_global_scale", "_packed",
                                        "_zero_point", "_scale_inv", "_g_idx"};
    int integers = w->dtype == KERF_U8 || w->dtype == KERF_I8 || w->dtype == KERF_I32;
    int floats = w->dtype == KERF_F8_E4M3 || w->dtype == KERF_F8_E5M2 || w->dtype == KERF_F4;
    int is_part = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char end[32];
        snprintf(end, sizeof end, ".weight%s", parts[i]);
        is_part |= ends_with(w->name, end);
    }
    if (!is_part && !((integers || floats) && ends_with(w->name, "weight"))) return;
    add(f, 1, w->name,
        "belongs to a quantized weight, but not all of its tensors are there as a layout has them: "
        "one is missing, too many, or of another type or shape");
}

/* What config.json says, against what the tensors are. */
static void find_configured(findings *f, const checkpoint *c)
{
    const kerf_layout *configured = kerf_layout_configured(c->reader);
    if (!kerf_reader_is_folder(c->reader)) return;
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        char text[200];
        if (!w->codec.format || w->layout == configured) continue;
        if (!configured && w->layout == kerf_layout_at(0)) continue;
        snprintf(text, sizeof text,
                 "is in layout %s, but config.json names %s: loaders will refuse it "
                 "or read other numbers",
                 w->layout->name, configured ? configured->name : "none");
        add(f, 1, w->name, text);
        return; /* once is enough */
    }
}

kerf_status find_all(findings *f, const checkpoint *c, kerf_error *err)
{
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        for (kerf_plane_id p = KERF_PLANE_SCALES; w->codec.format && p < KERF_PLANES; p++) {
            if (w->plane[p]) TRY(find_in_plane(f, c, w, p, err));
        }
        TRY(find_in_group(f, c, w, err));
        if (!w->codec.format && !kerf_reader_is_gguf(c->reader)) find_stray(f, w);
    }
    find_configured(f, c);
    return KERF_OK;
}
