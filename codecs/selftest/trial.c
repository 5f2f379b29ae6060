/* trial.c - encodes and decodes with the scalar reference; then with every backend, or with a GPU
 * instead of these, whole and cut into several calls and threads; and compares. */
#include "selftest/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "selftest/vector_text.h"

typedef struct plane_set {
    kerf_span all; /* every plane, one after the other */
    kerf_span plane[KERF_PLANES];
} plane_set;

typedef struct codec_trial {
    const kf_specimen *specimen; /* NULL: planes to decode only */
    kerf_codec codec;
    kerf_geometry geometry;
    kerf_stats *stats;
    plane_set reference;
    kerf_span decoded[3]; /* by the reference, to types[] */
    kf_verdict *verdict;
    kerf_device *device; /* NULL: the backends of the processor */
    const kerf_job *job; /* asked before each backend */
} codec_trial;

static const kerf_dtype types[] = {KERF_F32, KERF_F16, KERF_BF16};
static const kerf_exec the_reference = {.threads = 1, .backend = "ref"};

static kerf_cspan source_of(const codec_trial *t)
{
    return (kerf_cspan){t->specimen->bytes.p, t->specimen->bytes.n};
}

static void complain(const codec_trial *t, const char *backend, const char *what)
{
    const kerf_shape *shape = &t->geometry.shape;
    char text[KERF_MAX_RANK * 21 + 1];
    size_t n = 0;
    for (unsigned i = 0; i < shape->rank; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%llu", i ? "x" : "",
                              (unsigned long long)shape->dim[i]);
    }
    kf_verdict_add(t->verdict, "%s: %s, %s %s", backend, what, text,
                   t->specimen ? kerf_dtype_name(t->specimen->dtype) : "planes");
}

/* --- encode and decode --------------------------------------------------------------------- */

/* Planes begin at multiples of 8 bytes; what lies between is zero. */
static kerf_status make_planes(const kerf_geometry *g, plane_set *out, kerf_error *err)
{
    size_t begin[KERF_PLANES];
    out->all.n = 0;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        begin[k] = out->all.n;
        out->all.n += ((size_t)g->plane[k].bytes + 7) / 8 * 8;
    }
    KF_TRY(kf_allocate(&out->all.p, out->all.n, 1, err));
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        out->plane[k] =
            (kerf_span){(unsigned char *)out->all.p + begin[k], (size_t)g->plane[k].bytes};
    }
    return KERF_OK;
}

/* Encodes bands [b0, b1) into their place in out. */
static kerf_status encode_bands(const codec_trial *t, uint64_t b0, uint64_t b1,
                                const plane_set *out, const kerf_exec *exec, kerf_error *err)
{
    const kerf_geometry *g = &t->geometry;
    kerf_span plane[KERF_PLANES];
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        kerf_extent e = kerf_band_bytes(g, k, b0, b1);
        unsigned char *base = out->plane[k].p;
        plane[k] = (kerf_span){base + (g->plane[k].band_bytes ? e.offset : 0), (size_t)e.count};
    }
    kerf_extent elements = kerf_band_elements(g, b0, b1);
    size_t size = kerf_dtype_bits(t->specimen->dtype) / 8;
    kerf_cspan src = {(const unsigned char *)t->specimen->bytes.p + elements.offset * size,
                      (size_t)elements.count * size};
    return kerf_encode(g, t->codec.encoder, t->stats, b0, b1, src, t->specimen->dtype, plane, exec,
                       err);
}

/* NaNs come out as one and the same: machines differ in their payloads. */
static kerf_status decode_all(const codec_trial *t, kerf_dtype dtype, kerf_span out,
                              const kerf_exec *exec, kerf_error *err)
{
    kerf_cspan planes[KERF_PLANES];
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        planes[k] = (kerf_cspan){t->reference.plane[k].p, t->reference.plane[k].n};
    }
    KF_TRY(kerf_decode(&t->geometry, 0, t->geometry.bands, planes, out, dtype, exec, err));
    kf_vector_unify_nans(dtype, out.p, out.n);
    return KERF_OK;
}

static kerf_status encode_reference(codec_trial *t, kerf_error *err)
{
    const kerf_geometry *g = &t->geometry;
    if (kerf_needs_stats(g)) {
        KF_TRY(kerf_measure(g, 0, g->bands, source_of(t), t->specimen->dtype, t->stats,
                            &the_reference, err));
    }
    KF_TRY(encode_bands(t, 0, g->bands, &t->reference, &the_reference, err));
    if (!t->device) kf_verdict_digest(t->verdict, t->reference.all.p, t->reference.all.n);
    return KERF_OK;
}

static kerf_status decode_reference(codec_trial *t, kerf_error *err)
{
    for (size_t i = 0; i < 3; i++) {
        t->decoded[i].n = (size_t)t->geometry.elements * (kerf_dtype_bits(types[i]) / 8);
        KF_TRY(kf_allocate(&t->decoded[i].p, t->decoded[i].n, 1, err));
        KF_TRY(decode_all(t, types[i], t->decoded[i], &the_reference, err));
        if (!t->device) kf_verdict_digest(t->verdict, t->decoded[i].p, t->decoded[i].n);
    }
    return KERF_OK;
}

/* --- checks -------------------------------------------------------------------------------- */

/* The reference itself: zeros stay zeros, and weights come back as something like themselves. */
static void check_reference(const codec_trial *t)
{
    const float *v = t->decoded[0].p;
    double signal = 0, noise = 0;
    int zeros_differ = 0;
    for (uint64_t i = 0; i < t->geometry.elements; i++) {
        if (t->specimen->kind == KF_SPECIMEN_ZEROS && v[i] != 0) zeros_differ = 1;
        if (t->specimen->kind != KF_SPECIMEN_BELL || t->specimen->dtype != KERF_F32) continue;
        double w = ((const float *)t->specimen->bytes.p)[i], d = (double)v[i] - w;
        signal += w * w;
        noise += d * d;
    }
    if (zeros_differ) complain(t, "ref", "zero is not zero");
    if (!(noise <= signal)) complain(t, "ref", "decoding is worse than zeros");
}

/* In calls of `step` bands. */
static kerf_status check_encode(const codec_trial *t, const kerf_exec *exec, uint64_t step,
                                const char *what, kerf_error *err)
{
    plane_set mine = {0};
    kerf_status s = make_planes(&t->geometry, &mine, err);
    uint64_t bands = t->geometry.bands;
    for (uint64_t at = 0; s == KERF_OK && (at < bands || at == 0); at += step) {
        uint64_t end = bands - at < step ? bands : at + step;
        s = encode_bands(t, at, end, &mine, exec, err);
    }
    if (s == KERF_OK && memcmp(mine.all.p, t->reference.all.p, mine.all.n) != 0) {
        complain(t, exec->backend, what);
    }
    free(mine.all.p);
    return s;
}

static kerf_status check_decode(const codec_trial *t, const char *backend, kerf_error *err)
{
    for (size_t i = 0; i < 3; i++) {
        const int many = i == 0 && (!t->specimen || t->specimen->cut);
        const kerf_exec exec = {.threads = many ? 4 : 1, .backend = backend};
        void *out = NULL;
        KF_TRY(kf_allocate(&out, t->decoded[i].n, 1, err));
        kerf_status s = decode_all(t, types[i], (kerf_span){out, t->decoded[i].n}, &exec, err);
        if (s == KERF_OK && memcmp(out, t->decoded[i].p, t->decoded[i].n) != 0) {
            complain(t, backend, "decodes differently");
        }
        free(out);
        KF_TRY(s);
    }
    return KERF_OK;
}

/* --- on a device --------------------------------------------------------------------------- */

/* Statistics and planes in one call, which give the digest. */
static kerf_status encode_on_device(const codec_trial *t, kerf_error *err)
{
    const kerf_exec exec = {.device = t->device, .backend = "cuda"};
    const kerf_geometry *g = &t->geometry;
    kerf_stats *stats = NULL;
    plane_set mine = {0};
    KF_TRY(kf_allocate(&stats, (size_t)g->matrices, sizeof *stats, err));
    kerf_status s = make_planes(g, &mine, err);
    if (s == KERF_OK && kerf_needs_stats(g)) {
        s = kerf_measure(g, 0, g->bands, source_of(t), t->specimen->dtype, stats, &exec, err);
        if (s == KERF_OK && memcmp(stats, t->stats, (size_t)g->matrices * sizeof *stats) != 0)
            complain(t, exec.backend, "measures differently");
    }
    if (s == KERF_OK) s = encode_bands(t, 0, g->bands, &mine, &exec, err);
    if (s == KERF_OK) kf_verdict_digest(t->verdict, mine.all.p, mine.all.n);
    if (s == KERF_OK && memcmp(mine.all.p, t->reference.all.p, mine.all.n) != 0)
        complain(t, exec.backend, "encodes differently");
    free(mine.all.p);
    free(stats);
    return s;
}

static kerf_status decode_on_device(const codec_trial *t, kerf_error *err)
{
    const kerf_exec exec = {.device = t->device, .backend = "cuda"};
    for (size_t i = 0; i < 3; i++) {
        kerf_span out = {NULL, t->decoded[i].n};
        KF_TRY(kf_allocate(&out.p, out.n, 1, err));
        kerf_status s = decode_all(t, types[i], out, &exec, err);
        if (s == KERF_OK) kf_verdict_digest(t->verdict, out.p, out.n);
        if (s == KERF_OK && memcmp(out.p, t->decoded[i].p, out.n) != 0)
            complain(t, exec.backend, "decodes differently");
        free(out.p);
        KF_TRY(s);
    }
    return KERF_OK;
}

static kerf_status check_device(const codec_trial *t, kerf_error *err)
{
    const kerf_exec exec = {.device = t->device, .backend = "cuda"};
    uint64_t third = t->geometry.bands / 3 + 1;
    KF_TRY(kf_job_check(t->job, err));
    if (t->specimen) KF_TRY(encode_on_device(t, err));
    if (t->specimen && t->specimen->cut)
        KF_TRY(check_encode(t, &exec, third, "differs in 3 calls", err));
    return decode_on_device(t, err);
}

/* --- on the processor ---------------------------------------------------------------------- */

/* What the reference does in one piece is known already. Only some specimens are cut into threads
 * and calls: waking threads takes longer than all else here. */
static kerf_status check_backend(const codec_trial *t, const char *backend, kerf_error *err)
{
    const kerf_exec one = {.threads = 1, .backend = backend};
    const kerf_exec many = {.threads = 4, .backend = backend};
    const int reference = strcmp(backend, the_reference.backend) == 0;
    const int cut = !t->specimen || t->specimen->cut;
    uint64_t bands = t->geometry.bands ? t->geometry.bands : 1;
    if (t->specimen && !reference) KF_TRY(check_encode(t, &one, bands, "encodes differently", err));
    if (t->specimen && cut)
        KF_TRY(check_encode(t, &many, bands / 3 + 1, "differs with 4 threads in 3 calls", err));
    return reference && !cut ? KERF_OK : check_decode(t, backend, err);
}

static kerf_status check_backends(const codec_trial *t, kerf_error *err)
{
    if (t->device) return check_device(t, err);
    for (size_t i = 0; i < kerf_backend_count(); i++) {
        KF_TRY(kf_job_check(t->job, err));
        KF_TRY(check_backend(t, kerf_backend_at(i), err));
    }
    return KERF_OK;
}

/* --- trials -------------------------------------------------------------------------------- */

static kerf_status run_encode(codec_trial *t, kerf_error *err)
{
    KF_TRY(kerf_geometry_init(&t->geometry, t->codec.format, &t->specimen->shape, err));
    KF_TRY(kerf_codec_check(t->codec, &t->specimen->shape, t->specimen->dtype, err));
    KF_TRY(kf_allocate(&t->stats, (size_t)t->geometry.matrices, sizeof *t->stats, err));
    KF_TRY(make_planes(&t->geometry, &t->reference, err));
    KF_TRY(encode_reference(t, err));
    KF_TRY(decode_reference(t, err));
    check_reference(t);
    return check_backends(t, err);
}

static kerf_status run_decode(codec_trial *t, kerf_error *err)
{
    const kerf_shape shape = {3, {8, 32, 256}};
    KF_TRY(kerf_geometry_init(&t->geometry, t->codec.format, &shape, err));
    KF_TRY(make_planes(&t->geometry, &t->reference, err));
    kf_specimen_planes(&t->geometry, t->reference.plane);
    KF_TRY(decode_reference(t, err));
    return check_backends(t, err);
}

static void trial_free(codec_trial *t)
{
    for (size_t i = 0; i < 3; i++) free(t->decoded[i].p);
    free(t->reference.all.p);
    free(t->stats);
}

kerf_status kf_trial_encode(kerf_codec codec, const kf_specimen *s, kerf_device *device,
                            const kerf_job *job, kf_verdict *v, kerf_error *err)
{
    codec_trial t = {.specimen = s, .codec = codec, .verdict = v, .device = device, .job = job};
    kerf_status status = run_encode(&t, err);
    trial_free(&t);
    return status;
}

kerf_status kf_trial_decode(const kerf_format *f, kerf_device *device, const kerf_job *job,
                            kf_verdict *v, kerf_error *err)
{
    codec_trial t = {.codec = {f, NULL}, .verdict = v, .device = device, .job = job};
    kerf_status status = run_decode(&t, err);
    trial_free(&t);
    return status;
}
