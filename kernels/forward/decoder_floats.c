/* decoder_floats.c - a weight of any checkpoint as float32: planes through the codec that its
 * layout names, everything else as the reader gives it. */
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "forward/decoder.h"

#define PANEL_ELEMENTS (UINT64_C(1) << 20)

static const char *format_of(kerf_dtype t)
{
    switch (t) {
    case KERF_F32: return "fp32";
    case KERF_F16: return "fp16";
    case KERF_BF16: return "bf16";
    default: return NULL;
    }
}

kerf_status kf_floats_open(kf_floats *f, const kerf_decoder *d, const kerf_weight *w,
                           kerf_error *err)
{
    *f = (kf_floats){
        .reader = d->reader, .job = d->stepper->job, .weight = w, .dense = kerf_weight_dense(w)};
    if (f->dense) {
        const char *name = format_of(f->dense->dtype);
        if (!name)
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "tensor \"%.*s\": %s is no type of weights to compute with",
                           KF_NAME(w->name), kerf_dtype_name(f->dense->dtype));
        return kerf_geometry_init(&f->geometry, kerf_format_find(name), &w->shape, err);
    }
    f->geometry = kerf_weight_geometry(w);
    for (int p = 0; p < KERF_PLANES; p++) {
        const kerf_plane *plane = &f->geometry.plane[p];
        if (plane->dtype == KERF_DTYPE_NONE || !plane->per_matrix) continue;
        f->whole[p] = kf_alloc(plane->bytes ? plane->bytes : 1, 1);
        if (!f->whole[p])
            return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %.*s", KF_NAME(w->name));
        KF_TRY(kerf_weight_read(f->reader, w, (kerf_plane_id)p, 0, f->whole[p],
                                (size_t)plane->bytes, err));
    }
    return KERF_OK;
}

void kf_floats_close(kf_floats *f)
{
    for (int p = 0; p < KERF_PLANES; p++) free(f->whole[p]);
    memset(f->whole, 0, sizeof f->whole);
}

static kerf_status read_part(const kf_floats *f, int p, kerf_extent part, void *bytes,
                             kerf_error *err)
{
    if (f->dense)
        return kerf_reader_read(f->reader, f->dense, part.offset, bytes, (size_t)part.count, err);
    return kerf_weight_read(f->reader, f->weight, (kerf_plane_id)p, part.offset, bytes,
                            (size_t)part.count, err);
}

kerf_status kf_floats_bands(const kf_floats *f, uint64_t b0, uint64_t b1, float *out,
                            kerf_error *err)
{
    const kerf_exec one = {.threads = 1};
    kerf_cspan src[KERF_PLANES] = {{0}};
    void *part[KERF_PLANES] = {0};
    kerf_status s = KERF_OK;
    for (int p = 0; p < KERF_PLANES && s == KERF_OK; p++) {
        const kerf_plane *plane = &f->geometry.plane[p];
        if (plane->dtype == KERF_DTYPE_NONE) continue;
        if (plane->per_matrix) {
            src[p] = (kerf_cspan){f->whole[p], (size_t)plane->bytes};
            continue;
        }
        const kerf_extent e = kerf_band_bytes(&f->geometry, (kerf_plane_id)p, b0, b1);
        part[p] = kf_alloc(e.count ? e.count : 1, 1);
        s = part[p] ? read_part(f, p, e, part[p], err)
                    : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a panel");
        src[p] = (kerf_cspan){part[p], (size_t)e.count};
    }
    if (s == KERF_OK) {
        const kerf_extent e = kerf_band_elements(&f->geometry, b0, b1);
        s = kerf_decode(&f->geometry, b0, b1, src, (kerf_span){out, (size_t)e.count * sizeof *out},
                        KERF_F32, &one, err);
    }
    for (int p = 0; p < KERF_PLANES; p++) free(part[p]);
    return s;
}

typedef struct panels {
    const kf_floats *f;
    uint64_t first, end, step; /* bands */
    float *out;
    kerf_error *error; /* [panels] */
} panels;

static kerf_status read_panel(void *ctx, uint64_t i)
{
    const panels *p = ctx;
    const kerf_geometry *g = &p->f->geometry;
    const uint64_t b0 = p->first + i * p->step, b1 = kf_min_u64(b0 + p->step, p->end);
    float *out = p->out + kerf_band_elements(g, p->first, b0).count;
    KF_TRY(kf_job_check(p->f->job, &p->error[i]));
    return kf_floats_bands(p->f, b0, b1, out, &p->error[i]);
}

/* Every panel has an error of its own: that of the first one which failed is passed on. */
kerf_status kf_floats_panels(const kf_floats *f, int threads, uint64_t b0, uint64_t b1, float *out,
                             kerf_error *err)
{
    const kerf_geometry *g = &f->geometry;
    const uint64_t band = g->bands ? g->elements / g->bands + 1 : 1;
    panels p = {f, b0, b1, PANEL_ELEMENTS / band + 1, out, NULL};
    const uint64_t count = kf_div_up(b1 - b0, p.step);
    KF_TRY(kf_allocate(&p.error, count, sizeof *p.error, err));
    kerf_status s = kf_parallel(count, threads, read_panel, &p);
    for (uint64_t i = 0; s != KERF_OK && err && i < count; i++)
        if (p.error[i].status == s) {
            *err = p.error[i];
            break;
        }
    free(p.error);
    return s;
}

kerf_status kf_floats_read(const kerf_decoder *d, const kerf_weight *w, float *out, kerf_error *err)
{
    kf_floats f;
    kerf_status s = kf_floats_open(&f, d, w, err);
    if (s == KERF_OK) s = kf_floats_panels(&f, d->threads, 0, f.geometry.bands, out, err);
    kf_floats_close(&f);
    return s;
}
