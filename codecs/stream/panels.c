/* panels.c - cuts a tensor into panels, and chooses how they are taken through their steps. */
#include "stream/panels.h"

#include <kerf/feedback.h>
#include <stdlib.h>

#include "base/system.h"
#include "stream/crew.h"
#include "stream/ring.h"
#include "stream/slots.h"

/* See open_panels. */
#define WHOLE_PANELS UINT64_MAX
#define LARGE_PANELS (UINT64_MAX - 1)

/* Bands of a panel of about so many bytes. */
static uint64_t bands_of(const kf_stream *s, uint64_t band, uint64_t bytes)
{
    const uint64_t step = band && band < bytes ? bytes / band : 1;
    return kf_min_u64(step, s->units);
}

/* Error feedback takes so many bands at once, as lanes of a vector, and a hundred times longer than
 * encoding without: so a small tensor is shared, too, and few lanes stay empty. A crew's panels: */
static uint64_t slow_step(const kf_stream *s, uint64_t step)
{
    const uint64_t lanes = kerf_feedback_bands(s->geometry);
    const uint64_t fair = kf_div_up(s->units, UINT64_C(2) * s->workers);
    step = kf_min_u64(step / lanes, kf_div_up(fair, lanes)) * lanes;
    return kf_min_u64(step ? step : lanes, s->units);
}

/* How many runs a part has, at most `most`: as few as leave an eighth of the lanes empty or less,
 * else those that leave the least. */
static uint64_t slow_runs(const kf_stream *s, uint64_t run, uint64_t most)
{
    const uint64_t lanes = kerf_feedback_bands(s->geometry);
    uint64_t best = 1, least = UINT64_MAX;
    for (uint64_t n = 1; n <= most; n++) {
        const uint64_t taken = kf_div_up(n * run, lanes) * lanes,
                       empty = 1000 - 1000 * n * run / taken;
        if (empty < least) best = n, least = empty;
        if (empty <= 125) break;
    }
    return best;
}

static void choose_steps(kf_stream *s, uint64_t band, uint64_t run, int slow)
{
    const uint64_t own = s->workers
                             ? kf_min_u64(KF_STREAM_CREW_BYTES / s->workers, KF_STREAM_CREW_PANEL)
                             : KF_STREAM_PANEL_BYTES;
    s->step = bands_of(s, band,
                       run == WHOLE_PANELS   ? KF_STREAM_PANEL_BYTES
                       : run == LARGE_PANELS ? KF_STREAM_KEPT_BYTES
                                             : own);
    if (slow && run == 0) s->step = slow_step(s, s->step);
    s->whole_step = s->step;
    if (run == 0 || run == WHOLE_PANELS || run == LARGE_PANELS) return;
    uint64_t runs = s->step / run;
    if (slow) runs = slow_runs(s, run, runs);
    s->whole_step = bands_of(s, band, KF_STREAM_PANEL_BYTES);
    s->step = kf_min_u64(run * (runs ? runs : 1), s->whole_step);
}

static kerf_status check_band(const kerf_geometry *g, kerf_dtype dense_type, uint64_t *bytes,
                              kerf_error *err)
{
    const kf_stream s = {.geometry = g, .dense_type = dense_type};
    *bytes = g->bands ? kf_dense_bytes(&s, 0, 1) : 1;
    if (*bytes <= KF_STREAM_BAND_BYTES) return KERF_OK;
    return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                   "one band of %s is %llu MiB here, above the limit of %llu MiB; use a format "
                   "with smaller groups, or keep this tensor",
                   g->format->name, (unsigned long long)(*bytes >> 20),
                   (unsigned long long)(KF_STREAM_BAND_BYTES >> 20));
}

kerf_status kf_stream_check(kerf_codec c, const kerf_shape *shape, kerf_dtype dense_type,
                            kerf_geometry *g, kerf_error *err)
{
    uint64_t bytes;
    KF_TRY(kerf_codec_check(c, shape, dense_type, err));
    KF_TRY(kerf_geometry_init(g, c.format, shape, err));
    return check_band(g, dense_type, &bytes, err);
}

/* run: as in kf_stream_open_parts; 0: panels have no parts; WHOLE_PANELS: the panels of a crew are
 * as large as those of a ring; LARGE_PANELS: as kf_stream_open_large. */
static kerf_status open_panels(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                               unsigned workers, uint64_t run, int slow, kf_room *room,
                               kerf_error *err)
{
    *out = NULL;
    uint64_t band;
    KF_TRY(check_band(g, dense_type, &band, err));
    kf_stream *s = NULL;
    KF_TRY(kf_allocate(&s, 1, sizeof *s, err));
    s->geometry = g;
    s->dense_type = dense_type;
    s->units = g->bands;
    s->workers = workers;
    if (run == WHOLE_PANELS)
        s->workers = (unsigned)kf_min_u64(workers, KF_STREAM_CREW_BYTES / KF_STREAM_PANEL_BYTES);
    choose_steps(s, band, run, slow);
    if (room) kf_slots_keep(s, room);
    kerf_status status = kf_slots_share(s, err);
    if (status == KERF_OK) status = kf_slots_open(s, err);
    if (status != KERF_OK) {
        kf_stream_close(s);
        return status;
    }
    *out = s;
    return KERF_OK;
}

kerf_status kf_stream_open(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                           kerf_error *err)
{
    return open_panels(out, g, dense_type, 0, 0, 0, NULL, err);
}

kerf_status kf_stream_open_large(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                 kf_room *room, kerf_error *err)
{
    return open_panels(out, g, dense_type, 0, LARGE_PANELS, 0, room, err);
}

kerf_status kf_stream_open_parts(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                 unsigned workers, uint64_t run, int slow, kerf_error *err)
{
    return open_panels(out, g, dense_type, workers, run ? run : WHOLE_PANELS, slow, NULL, err);
}

int kf_stream_ends_panel(const kf_stream *s, uint64_t u1)
{
    return u1 == s->units || u1 % s->whole_step == 0;
}

unsigned kf_stream_slots(const kf_stream *s)
{
    return s->slots;
}

kerf_status kf_stream_open_crew(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                unsigned workers, int slow, kf_room *room, kerf_error *err)
{
    return open_panels(out, g, dense_type, workers, 0, slow, room, err);
}

int kf_stream_keeps(const kf_stream *s)
{
    return s->kept != NULL;
}

unsigned kf_stream_crew_size(int threads)
{
    enum { WAITING = 2 }; /* workers that may wait for the disk at any time */
    return threads > 0 ? (unsigned)threads : (unsigned)kf_processors() + WAITING;
}

kerf_status kf_stream_open_bytes(kf_stream **out, uint64_t bytes, kerf_error *err)
{
    *out = NULL;
    kf_stream *s = NULL;
    KF_TRY(kf_allocate(&s, 1, sizeof *s, err));
    s->units = bytes;
    s->step = s->whole_step = KF_STREAM_PANEL_BYTES;
    kerf_status status = kf_slots_open(s, err);
    if (status != KERF_OK) {
        kf_stream_close(s);
        return status;
    }
    *out = s;
    return KERF_OK;
}

void kf_stream_close(kf_stream *s)
{
    if (!s) return;
    kf_slots_close(s);
    free(s);
}

kerf_span kf_stream_whole(const kf_stream *s, kerf_plane_id p)
{
    return s->whole[p];
}

/* --- run ----------------------------------------------------------------------------------- */

static kerf_status run_alone(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err)
{
    for (uint64_t i = 0; i < s->panels; i++) {
        kf_panel *p = &s->slot[0]; /* an empty tensor has none */
        kf_shape_slot(s, p, i);
        if (steps->read) KF_TRY(steps->read(ctx, p, err));
        if (steps->work) KF_TRY(steps->work(ctx, p, err));
        if (steps->write) KF_TRY(steps->write(ctx, p, err));
    }
    return KERF_OK;
}

kerf_status kf_stream_run(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err)
{
    if (s->slots <= 1) return run_alone(s, steps, ctx, err);
    return s->workers ? kf_run_crew(s, steps, ctx, err) : kf_run_ring(s, steps, ctx, err);
}

/* --- shared steps -------------------------------------------------------------------------- */

kerf_status kf_read_dense(const kerf_reader *r, const kerf_tensor *t, const kerf_geometry *g,
                          kf_panel *p, kerf_error *err)
{
    uint64_t first = kerf_band_elements(g, p->u0, p->u1).offset;
    return kerf_reader_read(r, t, first * (kerf_dtype_bits(t->dtype) / 8), p->dense.p, p->dense.n,
                            err);
}

kerf_status kf_read_planes(const kerf_reader *r, const kerf_weight *w, kf_panel *p, kerf_error *err)
{
    const kerf_geometry g = kerf_weight_geometry(w);
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (g.plane[k].band_bytes == 0) continue;
        uint64_t offset = kerf_band_bytes(&g, k, p->u0, p->u1).offset;
        KF_TRY(kerf_weight_read(r, w, k, offset, p->plane[k].p, p->plane[k].n, err));
    }
    return KERF_OK;
}

kerf_status kf_read_whole_planes(const kerf_reader *r, const kerf_weight *w, const kf_stream *s,
                                 kerf_error *err)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        kerf_span whole = kf_stream_whole(s, k);
        if (whole.n) KF_TRY(kerf_weight_read(r, w, k, 0, whole.p, whole.n, err));
    }
    return KERF_OK;
}

void kf_planes_of(const kf_panel *p, kerf_cspan out[KERF_PLANES])
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        out[k] = (kerf_cspan){p->plane[k].p, p->plane[k].n};
    }
}

kerf_cspan kf_dense_of(const kf_panel *p)
{
    return (kerf_cspan){p->dense.p, p->dense.n};
}
