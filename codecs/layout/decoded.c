/* decoded.c - quantized weights of other programs as what they decode to: tensors of F32 that are
 * read like any other, so that all that works on dense weights works on them, a panel at a time.
 *
 * A read of some elements decodes the bands that hold them. Of tiles, whose bands are 128 rows
 * high, only the rows that are asked for are decoded: each of them is a matrix with the scales of
 * its band. Weights of F64, which no encoder takes, are read as F32 in the same way. */
#include "layout/decoded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/read/view.h"

#define MOST_ELEMENTS                                                           \
    (UINT64_C(1) << 18) /* that are decoded at a time, unless one band has more \
                         */

/* Bands, or some rows of one, and the elements that they hold. */
typedef struct piece {
    kerf_geometry geometry; /* of what is decoded */
    uint64_t u0, u1;        /* its bands          */
    uint64_t first, count;  /* elements           */
    uint64_t offset[KERF_PLANES];
    size_t bytes[KERF_PLANES];
} piece;

static uint64_t band_of(const kerf_geometry *g, uint64_t element)
{
    uint64_t low = 0, high = g->bands;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (kerf_band_elements(g, middle, middle + 1).offset <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int has_plane(const kerf_geometry *g, kerf_plane_id p)
{
    return g->plane[p].dtype != KERF_DTYPE_NONE;
}

static void take_bands(const kerf_geometry *g, uint64_t first, uint64_t end, piece *p)
{
    *p = (piece){.geometry = *g, .u0 = band_of(g, first)};
    const uint64_t last = band_of(g, end - 1);
    p->u1 = p->u0 + 1;
    while (p->u1 <= last && kerf_band_elements(g, p->u0, p->u1 + 1).count <= MOST_ELEMENTS) p->u1++;
    const kerf_extent all = kerf_band_elements(g, p->u0, p->u1);
    p->first = all.offset;
    p->count = all.count;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (!has_plane(g, k)) continue;
        const kerf_extent bytes = kerf_band_bytes(g, k, p->u0, p->u1);
        p->offset[k] = bytes.offset;
        p->bytes[k] = (size_t)bytes.count;
    }
}

static kerf_status take_rows(const kerf_geometry *g, uint64_t first, uint64_t end, piece *p,
                             kerf_error *err)
{
    const uint64_t u = band_of(g, first);
    const kerf_extent band = kerf_band_elements(g, u, u + 1);
    const uint64_t r0 = (first - band.offset) / g->cols;
    const uint64_t stop = kf_min_u64(end, band.offset + band.count) - band.offset;
    const uint64_t rows = (stop + g->cols - 1) / g->cols - r0;
    const kerf_shape shape = {2, {rows, g->cols}};
    *p = (piece){.u1 = 1, .first = band.offset + r0 * g->cols, .count = rows * g->cols};
    KF_TRY(kerf_geometry_init(&p->geometry, g->format, &shape, err));
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (!has_plane(g, k)) continue;
        p->offset[k] = kerf_band_bytes(g, k, u, u + 1).offset;
        p->bytes[k] = (size_t)p->geometry.plane[k].bytes;
    }
    p->offset[KERF_PLANE_CODES] += r0 * g->cols * g->format->bits / 8;
    return KERF_OK;
}

/* Decodes a piece into `dense`; planes: room for all of its planes. */
static kerf_status decode(const kerf_reader *r, const kerf_weight *w, const piece *p,
                          unsigned char *planes, unsigned char *dense, kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    kerf_cspan src[KERF_PLANES] = {{NULL, 0}};
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (!p->bytes[k]) continue;
        KF_TRY(kerf_weight_read(r, w, k, p->offset[k], planes, p->bytes[k], err));
        src[k] = (kerf_cspan){planes, p->bytes[k]};
        planes += (p->bytes[k] + 7) / 8 * 8;
    }
    const kerf_span out = {dense, (size_t)p->count * sizeof(float)};
    return kerf_decode(&p->geometry, p->u0, p->u1, src, out, KERF_F32, &one, err);
}

/* Elements [first, end) that begin a piece into dst; *done: how many these were. */
static kerf_status read_piece(const kerf_reader *r, const kerf_weight *w, uint64_t first,
                              uint64_t end, unsigned char *dst, uint64_t *done, kerf_error *err)
{
    piece p;
    size_t room = 0;
    unsigned char *memory = NULL;
    const kerf_geometry g = kerf_weight_geometry(w);
    if (w->codec.format->geometry == KERF_GROUP_TILE)
        KF_TRY(take_rows(&g, first, end, &p, err));
    else
        take_bands(&g, first, end, &p);
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) room += (p.bytes[k] + 7) / 8 * 8;
    const uint64_t skip = first - p.first;
    *done = kf_min_u64(end - first, p.count - skip);
    const int direct = skip == 0 && *done == p.count;
    const size_t dense = direct ? 0 : (size_t)p.count * sizeof(float);
    KF_TRY(kf_allocate(&memory, room + dense + 1, 1, err));
    kerf_status s = decode(r, w, &p, memory, direct ? dst : memory + room, err);
    if (s == KERF_OK && !direct)
        memcpy(dst, memory + room + skip * sizeof(float), (size_t)*done * sizeof(float));
    free(memory);
    return s;
}

static kerf_status decode_elements(const kerf_reader *r, const kerf_weight *w, uint64_t offset,
                                   unsigned char *dst, size_t n, kerf_error *err)
{
    const uint64_t end = (offset + n) / sizeof(float);
    for (uint64_t at = offset / sizeof(float), done; at < end; at += done) {
        KF_TRY(read_piece(r, w, at, end, dst, &done, err));
        dst += done * sizeof(float);
    }
    return KERF_OK;
}

/* --- F64 ----------------------------------------------------------------------------------- */

/* To the nearest; beyond the range of F32 to infinity, as IEEE has it. */
static kerf_status round_elements(const kerf_reader *r, const kerf_weight *w, uint64_t offset,
                                  unsigned char *dst, size_t n, kerf_error *err)
{
    const uint64_t run = kf_min_u64(n / sizeof(float), MOST_ELEMENTS / 2);
    double *from = NULL;
    KF_TRY(kf_allocate(&from, run, sizeof *from, err));
    kerf_status s = KERF_OK;
    for (uint64_t at = offset / sizeof(float), left = n / sizeof(float);
         s == KERF_OK && left > 0;) {
        const size_t count = (size_t)kf_min_u64(left, run);
        s = kerf_reader_read(r, w->plane[0], at * sizeof *from, from, count * sizeof *from, err);
        for (size_t i = 0; s == KERF_OK && i < count; i++) {
            const float to = (float)from[i];
            memcpy(dst + i * sizeof to, &to, sizeof to);
        }
        dst += count * sizeof(float);
        at += count;
        left -= count;
    }
    free(from);
    return s;
}

/* --- all ----------------------------------------------------------------------------------- */

static int is_source(const kerf_weight *w)
{
    if (kerf_weight_elements(w) == 0) return 0;
    return w->codec.format ? w->codec.encoder == NULL : w->dtype == KERF_F64;
}

#define SMOOTHING ".pre_quant_scale"

const kerf_tensor *kerf_weight_smoothing(const kerf_reader *r, const kerf_weight *w)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    uint64_t count;
    if (!w->codec.format || w->shape.rank != 2 || !kf_has_suffix(w->name, ".weight")) return NULL;
    snprintf(name, sizeof name, "%.*s" SMOOTHING, (int)(strlen(w->name) - strlen(".weight")),
             w->name);
    const kerf_tensor *t = kerf_reader_find(r, name);
    if (!t || !kerf_dtype_is_float(t->dtype) || t->block_type) return NULL;
    if (kerf_shape_count(&t->shape, &count, NULL) != KERF_OK) return NULL;
    return count == w->shape.dim[1] ? t : NULL;
}

int kerf_is_smoothing(const kerf_weights *all, const kerf_reader *r, const kerf_weight *w)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    if (w->codec.format || !kf_has_suffix(w->name, SMOOTHING)) return 0;
    snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(w->name) - strlen(SMOOTHING)), w->name);
    const kerf_weight *of = kerf_weights_find(all, name);
    return of && kerf_weight_smoothing(r, of) == w->plane[0];
}

/* n bytes of rows of `cols` numbers, from element `first`; each product is rounded to F32. */
static kerf_status smooth(const kerf_reader *r, const kerf_tensor *t, uint64_t cols, uint64_t first,
                          unsigned char *dst, size_t n, kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    const char *format = t->dtype == KERF_F32 ? "fp32" : t->dtype == KERF_F16 ? "fp16" : "bf16";
    const kerf_shape shape = {1, {cols}};
    unsigned char *raw = NULL;
    float *by = NULL;
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, kerf_format_find(format), &shape, err));
    KF_TRY(kf_allocate(&raw, t->bytes, 1, err));
    kerf_status s = kf_allocate(&by, cols, sizeof *by, err);
    if (s == KERF_OK) s = kerf_reader_read(r, t, 0, raw, (size_t)t->bytes, err);
    const kerf_cspan planes[KERF_PLANES] = {{raw, (size_t)t->bytes}};
    const kerf_span out = {by, (size_t)cols * sizeof *by};
    if (s == KERF_OK) s = kerf_decode(&g, 0, g.bands, planes, out, KERF_F32, &one, err);
    for (size_t i = 0; s == KERF_OK && i < n / sizeof *by; i++) {
        float x;
        memcpy(&x, dst + i * sizeof x, sizeof x);
        x *= by[(first + i) % cols];
        memcpy(dst + i * sizeof x, &x, sizeof x);
    }
    free(raw);
    free(by);
    return s;
}

static kerf_status read_weight(const kerf_reader *r, const kerf_weight *w, uint64_t offset,
                               unsigned char *dst, size_t n, kerf_error *err)
{
    if (!w->codec.format) return round_elements(r, w, offset, dst, n, err);
    const kerf_tensor *by = kerf_weight_smoothing(r, w);
    KF_TRY(decode_elements(r, w, offset, dst, n, err));
    return by ? smooth(r, by, w->shape.dim[1], offset / sizeof(float), dst, n, err) : KERF_OK;
}

/* The weight is found by its name: lists of weights are made anew when experts are arranged. */
static kerf_status read_named(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                              unsigned char *dst, size_t n, kerf_error *err)
{
    const kerf_weight *w = kerf_weights_find(t->view->ctx, t->name);
    if (!w || !is_source(w))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "tensor \"%.*s\": no weight that is decoded",
                       KF_NAME(t->name));
    return read_weight(r, w, offset, dst, n, err);
}

static kerf_status read_own(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                            unsigned char *dst, size_t n, kerf_error *err)
{
    return read_weight(r, t->view->ctx, offset, dst, n, err);
}

typedef struct decoded_tensor {
    kerf_tensor tensor;
    kerf_view view;
    kerf_weight weight; /* of those that stand alone */
} decoded_tensor;

/* NULL in *out: there are too many elements. */
static kerf_status make(kerf_weights *all, const kerf_weight *w, decoded_tensor **out,
                        kerf_error *err)
{
    uint64_t bytes;
    *out = NULL;
    if (!kf_mul_ok(kerf_weight_elements(w), sizeof(float), &bytes)) return KERF_OK;
    decoded_tensor *made = kf_weights_own(all, 1, sizeof *made);
    if (!made) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for weights");
    made->view = (kerf_view){.size = sizeof(float), .read = read_named, .ctx = all};
    made->tensor = (kerf_tensor){.name = w->name, .dtype = KERF_F32, .shape = w->shape};
    made->tensor.bytes = bytes;
    made->tensor.shard = w->plane[KERF_PLANE_CODES]->shard;
    made->tensor.view = &made->view;
    *out = made;
    return KERF_OK;
}

kerf_status kf_weights_decode(kerf_weights *all, kerf_error *err)
{
    for (size_t i = 0; i < all->count; i++) {
        kerf_weight *w = &all->weight[i];
        decoded_tensor *made = NULL;
        w->decoded = NULL;
        if (is_source(w)) KF_TRY(make(all, w, &made, err));
        if (made) w->decoded = &made->tensor;
    }
    return KERF_OK;
}

kerf_status kf_weight_decode_alone(kerf_weights *all, const kerf_weight *w, const kerf_tensor **out,
                                   kerf_error *err)
{
    decoded_tensor *made = NULL;
    KF_TRY(make(all, w, &made, err));
    if (!made) return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "%.*s: too large", KF_NAME(w->name));
    made->weight = *w;
    made->view.read = read_own;
    made->view.ctx = &made->weight;
    made->view.stored_bytes = kerf_weight_bytes(w);
    *out = &made->tensor;
    return KERF_OK;
}

const kerf_tensor *kerf_weight_dense(const kerf_weight *w)
{
    return w->codec.format || w->decoded ? w->decoded : w->plane[0];
}
