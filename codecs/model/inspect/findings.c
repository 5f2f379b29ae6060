/* findings.c - reads scale planes and reports what would make decoded weights wrong: scales that
 * are NaN, infinite or negative, or divisors where factors are read; layers that runtimes merge but
 * that were not quantized alike; and tensors that belong to no weight. What config.json says of
 * them: config_check.c; what only the numbers show: findings_misread.c. */
#include "model/inspect/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/plain_numbers.h"
#include "layout/config_check.h"
#include "model/not_a_model.h"
#include "model/stray.h"
#include "stream/scale_tally.h"

void kf_found(const kf_inspection *x, kerf_severity severity, const char *tensor, const char *text)
{
    x->found(x->ctx, &(kerf_finding){severity, tensor, text});
}

/* --- scales -------------------------------------------------------------------------------- */

/* Whether the i-th byte of codes says more than zero. A nibble, a byte or one of four codes in
 * three bytes may be a negative zero; of NF4, 7 is zero, and some writers have 0 in a block of
 * zeros. */
static int says_more(const kerf_format *f, size_t i, unsigned char code)
{
    static const unsigned char magnitudes_of_6[3] = {0xdf, 0xf7, 0x7d};
    float book[256];
    if (kerf_codebook(f, KERF_PLANE_CODES, book) == 0)
        return (code & (f->bits == 6 ? magnitudes_of_6[i % 3] : f->bits == 4 ? 0x77 : 0x7f)) != 0;
    const unsigned low = code & 15, high = code >> 4;
    return (low && book[low] != 0) || (high && book[high] != 0);
}

/* Scales that are all zero make zeros of whatever the codes say; of codes that are zero themselves
 * nothing is lost. */
static kerf_status find_zeros(const kf_inspection *x, const kerf_weight *w, const char *what,
                              uint64_t count, kerf_error *err)
{
    enum { ROOM = 1 << 12 };
    unsigned char codes[ROOM];
    char text[160];
    const uint64_t all = kerf_weight_geometry(w).plane[KERF_PLANE_CODES].bytes;
    const size_t n = all < ROOM ? (size_t)all : ROOM;
    int is_lost = 0;
    KF_TRY(kerf_weight_read(x->source->reader, w, KERF_PLANE_CODES, 0, codes, n, err));
    for (size_t i = 0; i < n && !is_lost; i++) is_lost = says_more(w->codec.format, i, codes[i]);
    snprintf(text, sizeof text, "all %llu %s are zero: so are all of its weights%s",
             (unsigned long long)count, what, is_lost ? ", though its codes are not" : "");
    kf_found(x, is_lost ? KERF_ERROR : KERF_NOTE, w->name, text);
    return KERF_OK;
}

static kerf_status find_in_plane(kf_inspection *x, const kerf_weight *w, kerf_plane_id p,
                                 kerf_error *err)
{
    kf_scale_tally t;
    char text[200];
    const char *what = p == KERF_PLANE_SECOND ? "second-level scales" : "scales";
    KF_TRY(kf_tally_scales(x->source->reader, w, p, &x->work, &t, err));
    if (t.type == KF_SCALE_OTHER) return KERF_OK;
    if (t.bad) {
        snprintf(text, sizeof text, "%llu of %llu %s are NaN or infinite, the first at %llu",
                 (unsigned long long)t.bad, (unsigned long long)t.seen, what,
                 (unsigned long long)t.first_bad);
        kf_found(x, KERF_ERROR, w->name, text);
    }
    if (t.negative) {
        snprintf(text, sizeof text, "%llu of %llu %s are negative, the first at %llu",
                 (unsigned long long)t.negative, (unsigned long long)t.seen, what,
                 (unsigned long long)t.first_negative);
        kf_found(x, KERF_ERROR, w->name, text);
    }
    const int is_nested = w->codec.format->second == KERF_SECOND_NESTED;
    if (is_nested && p == KERF_PLANE_SECOND) KF_TRY(kf_find_nested(x, w, err));
    if (!is_nested && t.seen && t.zero == t.seen) return find_zeros(x, w, what, t.seen, err);
    if (t.zero && p == KERF_PLANE_SECOND && !is_nested) {
        snprintf(text, sizeof text, "%llu of %llu %s are zero: all of their weights are",
                 (unsigned long long)t.zero, (unsigned long long)t.seen, what);
        kf_found(x, KERF_NOTE, w->name, text);
    }
    const int is_number = t.type != KF_SCALE_E8M0; /* which has no zero */
    if (p == KERF_PLANE_SCALES && is_number && 2 * t.zero >= t.seen && t.zero < t.seen) {
        snprintf(
            text, sizeof text,
            "%llu of %llu %s are zero, and so are their weights: an outlier in the source, or a "
            "wrong tensor scale, has taken all of the range",
            (unsigned long long)t.zero, (unsigned long long)t.seen, what);
        kf_found(x, KERF_NOTE, w->name, text);
    }
    if (t.large * 2 > t.seen) {
        snprintf(text, sizeof text,
                 "%llu of %llu %s are above 16: they seem to be divisors, stored where a factor is "
                 "read, or the other way round",
                 (unsigned long long)t.large, (unsigned long long)t.seen, what);
        kf_found(x, KERF_ERROR, w->name, text);
    }
    return KERF_OK;
}

/* --- fused groups -------------------------------------------------------------------------- */

/* The plane with one scale per matrix; KERF_PLANES: the format has none. */
static kerf_plane_id tensor_scale_of(const kerf_weight *w)
{
    const kerf_geometry g = kerf_weight_geometry(w);
    const kerf_plane *plane = g.plane;
    if (!w->codec.format || g.matrices != 1) return KERF_PLANES;
    if (w->codec.format->second == KERF_SECOND_TENSOR) return KERF_PLANE_SECOND;
    return plane[KERF_PLANE_SCALES].per_matrix && plane[KERF_PLANE_SCALES].dtype == KERF_F32
               ? KERF_PLANE_SCALES
               : KERF_PLANES;
}

static kerf_status compare_pair(const kf_inspection *x, const kerf_weight *a, const kerf_weight *b,
                                kerf_error *err)
{
    char text[256], left[64], right[64];
    if (a->codec.format != b->codec.format) {
        snprintf(text, sizeof text, "%s, but %.120s of the same fused group is %s",
                 kerf_weight_format(a, left, sizeof left), b->name,
                 kerf_weight_format(b, right, sizeof right));
        const kerf_layout *loaded = a->layout ? a->layout : b->layout; /* which has one scheme */
        const int is_error = loaded && loaded != kerf_layout_at(0);
        kf_found(x, is_error ? KERF_ERROR : KERF_NOTE, a->name, text);
        return KERF_OK;
    }
    const kerf_plane_id p = tensor_scale_of(a);
    float of_a = 0, of_b = 0;
    if (p == KERF_PLANES || tensor_scale_of(b) != p) return KERF_OK;
    KF_TRY(kerf_weight_read(x->source->reader, a, p, 0, &of_a, sizeof of_a, err));
    KF_TRY(kerf_weight_read(x->source->reader, b, p, 0, &of_b, sizeof of_b, err));
    if (memcmp(&of_a, &of_b, sizeof of_a) != 0) {
        kf_print(text, sizeof text,
                 "tensor scale %.6g, but %.120s of the same fused group has %.6g: loaders that "
                 "merge them take the larger one for both",
                 (double)of_a, b->name, (double)of_b);
        kf_found(x, KERF_NOTE, a->name, text);
    }
    return KERF_OK;
}

/* Compares w, when it is the first member of a group, with the others. */
static kerf_status find_in_group(const kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    const kerf_weight *member[KERF_FUSED_MOST];
    size_t n = kerf_fused_group(x->source->weights, w, member);
    for (size_t k = 1; k < n && member[0] == w; k++) KF_TRY(compare_pair(x, w, member[k], err));
    return KERF_OK;
}

/* --- tensors that do not fit --------------------------------------------------------------- */

static void find_stray(const kf_inspection *x, const kerf_weight *w)
{
    char text[320];
    if (kf_is_stray(x->source, w))
        kf_found(x, KERF_ERROR, w->name, kf_stray_reason(x->source, w, text, sizeof text));
}

/* A scale of inputs or of the cache: loaders multiply and divide by it. */
static kerf_status find_in_activations(const kf_inspection *x, const kerf_weight *w,
                                       kerf_error *err)
{
    enum { ROOM = 1 << 14 };
    unsigned char bytes[ROOM];
    char text[160];
    kf_scale_tally t = {.type = w->dtype == KERF_F32    ? KF_SCALE_F32
                                : w->dtype == KERF_F16  ? KF_SCALE_F16
                                : w->dtype == KERF_BF16 ? KF_SCALE_BF16
                                                        : KF_SCALE_OTHER};
    if (w->codec.format || t.type == KF_SCALE_OTHER || !kerf_is_activation_scale(w->name))
        return KERF_OK;
    for (uint64_t at = 0; at < w->plane[0]->bytes; at += ROOM) {
        const size_t n = (size_t)kf_min_u64(w->plane[0]->bytes - at, ROOM);
        KF_TRY(kerf_reader_read(x->source->reader, w->plane[0], at, bytes, n, err));
        kf_tally_add(&t, bytes, n);
    }
    if (!t.bad && !t.negative && !t.zero) return KERF_OK;
    snprintf(text, sizeof text, "is %s%s: what loaders multiply or divide by it is lost",
             t.bad        ? "NaN or infinite"
             : t.negative ? "negative"
                          : "zero",
             t.seen > 1 ? " in part" : "");
    kf_found(x, KERF_ERROR, w->name, text);
    return KERF_OK;
}

/* Weights of AWQ and SmoothQuant are for inputs that were multiplied first. */
static void find_smoothed(const kf_inspection *x, const kerf_weight *w)
{
    if (!kf_has_suffix(w->name, ".pre_quant_scale")) return;
    kf_found(
        x, KERF_NOTE, w->name,
        "the inputs of this layer are multiplied by it: kerf multiplies it into weights that it "
        "decodes, but their codes in a layout that does not know it are those of another model");
}

/* Scales of a weight are read once. */
static uint64_t scale_bytes(const kerf_weight *w)
{
    uint64_t bytes = kf_struct_bytes_of(w);
    const kerf_geometry g = kerf_weight_geometry(w);
    for (kerf_plane_id p = KERF_PLANE_SCALES; w->codec.format && p < KERF_PLANES; p++) {
        if (w->plane[p] && kf_scale_type_of(w, p) != KF_SCALE_OTHER) bytes += g.plane[p].bytes;
    }
    return bytes;
}

/* Codes of a matrix that the model has as [in, out], made as if it were [out, in]. */
static void find_turned(const kf_inspection *x, const kerf_weight *w)
{
    if (!w->codec.format || w->stored.rank || w->layout != kerf_layout_at(0)) return;
    if (w->place.orientation != KERF_IN_OUT || w->codec.format->geometry == KERF_GROUP_TENSOR)
        return;
    kf_found(
        x, KERF_ERROR, w->name,
        "its model has it as [in, out], and its blocks run along the outputs: kernels want them "
        "along the inputs; quantize the source again");
}

static kerf_status inspect_weight(kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    KF_TRY(kf_work_check(&x->work, err));
    if (w->codec.format) kf_work_item(&x->work, w->name, "inspect");
    for (kerf_plane_id p = KERF_PLANE_SCALES; w->codec.format && p < KERF_PLANES; p++) {
        if (w->plane[p]) KF_TRY(find_in_plane(x, w, p, err));
    }
    KF_TRY(kf_find_in_structs(x, w, err));
    KF_TRY(find_in_group(x, w, err));
    find_stray(x, w);
    find_smoothed(x, w);
    find_turned(x, w);
    KF_TRY(find_in_activations(x, w, err));
    return kf_find_misread(x, w, err);
}

/* Exit code 0: it is what it is. */
static void find_no_model(const kf_inspection *x)
{
    char text[320];
    const char *what = kf_not_a_model(x->source);
    if (!what) return;
    snprintf(text, sizeof text, "its file is %s", what);
    kf_found(x, KERF_NOTE, kerf_weights_at(x->source->weights, 0)->name, text);
}

static void add_configured(void *ctx, const char *where, const char *text)
{
    kf_found(ctx, KERF_ERROR, where, text);
}

static kerf_status inspect(kf_inspection *x, kerf_error *err)
{
    const kerf_weights *all = x->source->weights;
    uint64_t bytes = 0;
    for (size_t i = 0; i < kerf_weights_count(all); i++)
        bytes += scale_bytes(kerf_weights_at(all, i));
    kf_work_phase(&x->work, "reading scales", bytes);
    for (size_t i = 0; i < kerf_weights_count(all); i++)
        KF_TRY(inspect_weight(x, kerf_weights_at(all, i), err));
    find_no_model(x);
    KF_TRY(kf_find_foreign(x, err));
    KF_TRY(kf_find_shapes(x, err));
    KF_TRY(kf_config_check(x->source->reader, all, add_configured, x, err));
    return kerf_reader_check(x->source->reader, err);
}

kerf_status kerf_inspect(const kerf_checkpoint *source, kerf_found found, void *ctx,
                         const kerf_job *job, kerf_error *err)
{
    if (!source || !found)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_inspect: an argument is missing");
    kf_inspection x = {.source = source, .found = found, .ctx = ctx};
    kerf_error why = {0}; /* also of what is a finding, no failure */
    kf_work_open(&x.work, job);
    kerf_status s = inspect(&x, &why);
    kf_work_close(&x.work);
    if (s != KERF_OK && err) *err = why;
    return s;
}

/* --- scales alone -------------------------------------------------------------------------- */

typedef struct first_ruined {
    char *text;
    size_t size, count;
} first_ruined;

static void take_ruined(void *ctx, const kerf_finding *f)
{
    first_ruined *r = ctx;
    if (f->severity != KERF_ERROR) return;
    if (r->count++ == 0) snprintf(r->text, r->size, "%.200s: %s", f->tensor, f->text);
}

kerf_status kerf_find_ruined(const kerf_checkpoint *source, char *text, size_t size, size_t *count,
                             const kerf_job *job, kerf_error *err)
{
    first_ruined r = {.text = text, .size = size};
    if (!source || !text || !size || !count)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_find_ruined: an argument is missing");
    kf_inspection x = {.source = source, .found = take_ruined, .ctx = &r};
    text[0] = 0;
    kf_work_open(&x.work, job);
    kerf_status s = KERF_OK;
    for (size_t i = 0; s == KERF_OK && i < kerf_weights_count(source->weights); i++) {
        const kerf_weight *w = kerf_weights_at(source->weights, i);
        s = kf_work_check(&x.work, err);
        for (kerf_plane_id p = KERF_PLANE_SCALES; w->codec.format && p < KERF_PLANES; p++)
            if (s == KERF_OK && w->plane[p]) s = find_in_plane(&x, w, p, err);
    }
    kf_work_close(&x.work);
    *count = r.count;
    return s;
}
