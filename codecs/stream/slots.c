/* slots.c - memory for panels: a few slots that they use in turn. Bands above the panel size get
 * one slot, so that memory stays bounded. */
#include "stream/slots.h"

#include <stdlib.h>

uint64_t kf_dense_bytes(const kf_stream *s, uint64_t u0, uint64_t u1)
{
    if (!s->geometry) return u1 - u0;
    return kerf_band_elements(s->geometry, u0, u1).count * (kerf_dtype_bits(s->dense_type) / 8);
}

void kf_shape_slot(const kf_stream *s, kf_panel *p, uint64_t i)
{
    const uint64_t parts = kf_div_up(s->whole_step, s->step), whole = i / parts * s->whole_step;
    p->index = i;
    p->u0 = whole + i % parts * s->step;
    p->u1 = kf_min_u64(kf_min_u64(p->u0 + s->step, whole + s->whole_step), s->units);
    p->dense.n = (size_t)kf_dense_bytes(s, p->u0, p->u1);
    if (s->kept) p->dense.p = s->kept + kf_dense_bytes(s, 0, p->u0);
    if (!s->geometry) return;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (s->geometry->plane[k].band_bytes == 0) continue;
        p->plane[k].n = (size_t)kerf_band_bytes(s->geometry, k, p->u0, p->u1).count;
    }
}

/* Bands of equal size fill a panel best when it is the first: later ones are never larger. */
static kerf_status allocate_slot(const kf_stream *s, kf_panel *p, kerf_error *err)
{
    kf_shape_slot(s, p, 0);
    if (!s->kept) KF_TRY(kf_allocate(&p->dense.p, p->dense.n, 1, err));
    for (kerf_plane_id k = 0; s->geometry && k < KERF_PLANES; k++) {
        if (s->geometry->plane[k].band_bytes == 0) {
            p->plane[k] = s->whole[k];
        } else {
            KF_TRY(kf_allocate(&p->plane[k].p, p->plane[k].n, 1, err));
        }
    }
    return KERF_OK;
}

kerf_status kf_slots_share(kf_stream *s, kerf_error *err)
{
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        const kerf_plane *plane = &s->geometry->plane[k];
        if (plane->dtype == KERF_DTYPE_NONE || plane->band_bytes != 0) continue;
        if (plane->bytes > KF_STREAM_WHOLE_BYTES) {
            return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                           "%llu matrices in one tensor are too many",
                           (unsigned long long)s->geometry->matrices);
        }
        s->whole[k].n = (size_t)plane->bytes;
        KF_TRY(kf_allocate(&s->whole[k].p, s->whole[k].n, 1, err));
    }
    return KERF_OK;
}

kerf_status kf_slots_open(kf_stream *s, kerf_error *err)
{
    if (s->step == 0 || s->units == 0) return KERF_OK;
    const uint64_t whole = s->units / s->whole_step, rest = s->units % s->whole_step;
    s->panels = whole * kf_div_up(s->whole_step, s->step) + kf_div_up(rest, s->step);
    int big = kf_dense_bytes(s, 0, s->step < s->units ? s->step : s->units) > KF_STREAM_PANEL_BYTES;
    const unsigned most = s->workers && !big ? s->workers : big ? 1 : KF_RING;
    s->slots = s->panels < most ? (unsigned)s->panels : most;
    KF_TRY(kf_allocate(&s->slot, s->slots, sizeof *s->slot, err));
    for (unsigned i = 0; i < s->slots; i++) {
        s->slot[i].slot = i;
        KF_TRY(allocate_slot(s, &s->slot[i], err));
    }
    return KERF_OK;
}

void kf_slots_keep(kf_stream *s, kf_room *room)
{
    const uint64_t bytes = kf_dense_bytes(s, 0, s->units);
    if (bytes == 0 || bytes > KF_STREAM_KEPT_BYTES) return;
    if (room->n < bytes) {
        free(room->p);
        *room = (kf_room){kf_alloc(bytes, 1), (size_t)bytes};
        if (!room->p) room->n = 0; /* the tensor is read twice then */
    }
    s->kept = room->p;
}

void kf_slots_close(kf_stream *s)
{
    for (unsigned i = 0; s->slot && i < s->slots; i++) {
        if (!s->kept) free(s->slot[i].dense.p);
        for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
            if (s->slot[i].plane[k].p != s->whole[k].p) free(s->slot[i].plane[k].p);
        }
    }
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) free(s->whole[k].p);
    free(s->slot);
}
