/* panel.h - a panel, and the steps that it is taken through. */
#ifndef KERF_STREAM_PANEL_H
#define KERF_STREAM_PANEL_H

#include <kerf/layouts.h>

#include "base/base.h"

/* The dense bytes that a panel aims at; those of a crew fit the second-level cache, or are smaller
 * where all panels of the crew would be more than KF_STREAM_CREW_BYTES. */
#define KF_STREAM_PANEL_BYTES (UINT64_C(4) << 20)
#define KF_STREAM_CREW_PANEL (UINT64_C(1) << 20)
#define KF_STREAM_CREW_BYTES (UINT64_C(64) << 20)
/* The largest band, the largest plane with one value per matrix, and the largest tensor that is
 * kept in memory as a whole. */
#define KF_STREAM_BAND_BYTES (UINT64_C(64) << 20)
#define KF_STREAM_WHOLE_BYTES (UINT64_C(64) << 20)
#define KF_STREAM_KEPT_BYTES (UINT64_C(128) << 20)

typedef struct kf_panel {
    uint64_t index;  /* 0, 1, ...: its place in the order of panels                      */
    unsigned slot;   /* below kf_stream_slots(); only one panel has it at a time         */
    uint64_t u0, u1; /* units of this panel                                              */
    kerf_span dense; /* elements of the dense tensor, or the bytes to be copied          */
    kerf_span plane[KERF_PLANES]; /* the same bands of each plane; planes with one value per
                                     matrix are whole and shared by all panels           */
} kf_panel;

typedef kerf_status (*kf_step)(void *ctx, kf_panel *p, kerf_error *err);

typedef struct kf_steps {
    kf_step read, work, write; /* NULL: nothing to do */
    /* Called by the worker of a crew whose read or work failed: other workers must not wait for
     * this panel in their work step. NULL: none waits. */
    void (*lost)(void *ctx, uint64_t index);
} kf_steps;

typedef struct kf_stream kf_stream;

/* Memory that several streams use one after the other, so that it is mapped only once. Free p at
 * the end. */
typedef struct kf_room {
    void *p;
    size_t n;
} kf_room;

#endif
