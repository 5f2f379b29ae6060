/* dequantize.c - every quantized weight becomes one dense tensor again, under its own name; dense
 * tensors are copied. */
#include <kerf/quantize.h>

#include "base/base.h"
#include "layout/block_weights.h"
#include "layout/foreign.h"
#include "model/checkpoint_view.h"
#include "model/not_a_model.h"
#include "model/write_model.h"
#include "stream/copy_tensor.h"
#include "stream/decode_tensor.h"

typedef struct dequantizing {
    const kerf_checkpoint *source;
    kerf_dtype dtype;
    kf_manifest manifest;
    kf_work work;
    uint64_t bytes_in;
    kerf_share share;
    size_t noted, nonfinite;     /* weights so far; those with NaN or Inf */
    const char *first_nonfinite; /* its name                              */
} dequantizing;

static const kerf_weight *weight_at(const dequantizing *d, size_t i)
{
    return kerf_weights_at(d->source->weights, i);
}

static int is_smoothed(const dequantizing *d, const kerf_weight *w)
{
    return w->decoded && kerf_weight_smoothing(d->source->reader, w);
}

/* A weight that is decoded while it is read, as one whose codes are its numbers; others as they
 * are. */
static kerf_status as_codes(const dequantizing *d, const kerf_weight *w, kerf_weight *out,
                            kerf_error *err)
{
    *out = *w;
    if (!kf_foreign_form(w) && !is_smoothed(d, w)) return KERF_OK;
    if (is_smoothed(d, w))
        *out = (kerf_weight){
            .name = w->name, .shape = w->shape, .dtype = w->dtype, .plane = {w->decoded}};
    out->codec.format = kerf_format_find("fp32");
    out->layout = kerf_layout_at(0);
    kerf_geometry g;
    return kerf_geometry_init(&g, out->codec.format, &w->shape, err);
}

static int is_quantized(const kerf_weight *w)
{
    return w->codec.format || kf_foreign_form(w);
}

/* What was F64 was rounded to F32 before it was quantized. */
static kerf_dtype dense_type(const dequantizing *d, const kerf_weight *w)
{
    if (w->codec.format && d->dtype == KERF_DTYPE_NONE && w->dtype == KERF_F64) return KERF_F32;
    return is_quantized(w) && d->dtype != KERF_DTYPE_NONE ? d->dtype : w->dtype;
}

/* Scales of inputs and caches mean nothing to weights that are not quantized. */
static int is_left_out(const dequantizing *d, const kerf_weight *w)
{
    if (kerf_is_smoothing(d->source->weights, d->source->reader, w)) return 1; /* it is in them */
    return !w->codec.format && kerf_is_activation_scale(w->name);
}

static kerf_status declare_output(dequantizing *d, const kerf_output *to, kerf_error *err)
{
    KF_TRY(kf_manifest_open(&d->manifest, to, err));
    for (size_t i = 0; i < kerf_weights_count(d->source->weights); i++) {
        const kerf_weight *w = weight_at(d, i);
        d->bytes_in += kerf_weight_bytes(w);
        if (kf_undecoded_type(w)) {
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "%.200s: kerf does not decode blocks of type %s: llama-quantize "
                           "--allow-requantize of llama.cpp makes F16 of them",
                           w->name, kf_undecoded_type(w));
        }
        if (is_left_out(d, w))
            KF_TRY(kf_manifest_add_nothing(&d->manifest, err));
        else
            KF_TRY(kf_manifest_add_dense(&d->manifest, w, dense_type(d, w), err));
    }
    return kf_manifest_describe(&d->manifest, d->source->reader, d->source->path, kerf_layout_at(0),
                                NULL, 0, err);
}

static kerf_status write_weight(void *ctx, kerf_writer *w, size_t i, size_t entry,
                                const kerf_exec *exec, uint64_t *note, kerf_error *err)
{
    dequantizing *d = ctx;
    const kerf_weight *weight = weight_at(d, i);
    const int is_dense = !is_quantized(weight);
    kerf_weight codes;
    kf_values_seen seen = {.dtype = dense_type(d, weight)};
    if (is_left_out(d, weight)) return KERF_OK;
    kf_work_item(&d->work, weight->name, is_dense ? "keep" : "decode");
    if (is_dense) {
        KF_TRY(kf_copy_dense(d->source->reader, weight, w, entry, &seen, &d->work, err));
        *note = (uint64_t)kf_values_are_odd(&seen, weight);
        return KERF_OK;
    }
    KF_TRY(as_codes(d, weight, &codes, err));
    const kf_decode_job decode = {
        .reader = d->source->reader,
        .weight = &codes,
        .dtype = dense_type(d, weight),
        .writer = w,
        .entry = entry,
        .exec = exec,
        .work = &d->work,
        .seen = &seen,
    };
    KF_TRY(kf_decode_tensor(&decode, err));
    *note = (uint64_t)kf_values_are_odd(&seen, weight);
    return KERF_OK;
}

/* Of the next weight: whether it has NaN or Inf. */
static void take_note(void *ctx, uint64_t note)
{
    dequantizing *d = ctx;
    const char *name = weight_at(d, d->noted++)->name;
    if (note && d->nonfinite++ == 0) d->first_nonfinite = name;
}

/* Decoded bytes: the types are in the manifest. */
static uint64_t work_bytes(const void *ctx, size_t i)
{
    const dequantizing *d = ctx;
    const kerf_weight *w = weight_at(d, i);
    return is_left_out(d, w) ? 0 : kerf_weight_elements(w) * kerf_dtype_bits(dense_type(d, w)) / 8;
}

static kerf_status dequantize(dequantizing *d, const kerf_output *to, const kerf_team *team,
                              kerf_error *err)
{
    const kf_write out = {
        .what = "dequantize",
        .to = to,
        .source = d->source->reader,
        .manifest = &d->manifest,
        .team = team,
        .work = &d->work,
        .ctx = d,
        .work_bytes = work_bytes,
        .write = write_weight,
        .noted = take_note,
        .share = &d->share,
    };
    size_t undecoded = 0;
    KF_TRY(kf_refuse_source(d->source, err));
    for (size_t i = 0; i < kerf_weights_count(d->source->weights); i++)
        undecoded += kf_undecoded_type(weight_at(d, i)) != NULL;
    if (kerf_checkpoint_quantized(d->source) == 0 && !undecoded) {
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s: holds no quantized tensor in a layout that kerf knows",
                       d->source->path);
    }
    KF_TRY(declare_output(d, to, err));
    return kf_write_model(&out, err);
}

kerf_status kerf_dequantize(const kerf_checkpoint *source, kerf_dtype dtype, const kerf_output *out,
                            const kerf_team *team, const kerf_job *job, kerf_result *result,
                            kerf_error *err)
{
    const double began_s = kf_now_s();
    if (!source || !out || (dtype != KERF_DTYPE_NONE && !kerf_dtype_is_float(dtype)))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "kerf_dequantize: an argument is missing, or the type is none of F32, F16 "
                       "and BF16");
    dequantizing d = {.source = source, .dtype = dtype};
    kf_work_open(&d.work, job);
    kerf_status s = dequantize(&d, out, team, err);
    kf_work_close(&d.work);
    if (s == KERF_OK && result) {
        const size_t changed = kerf_checkpoint_quantized(source);
        *result = (kerf_result){.changed = changed,
                                .kept = kerf_weights_count(source->weights) - changed,
                                .bytes_in = d.bytes_in,
                                .bytes_out = kf_manifest_bytes(&d.manifest),
                                .seconds = kf_now_s() - began_s,
                                .share = d.share,
                                .nonfinite = d.nonfinite,
                                .first_nonfinite = d.first_nonfinite};
    }
    kf_manifest_close(&d.manifest);
    return s;
}
