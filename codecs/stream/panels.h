/* panels.h - a tensor of any size through a few panels of memory.
 *
 * A stream cuts [0, units) into panels and takes each through three steps: read fills it, work
 * changes it, write stores what became of it. There are two ways to do so:
 *
 *   ring   work runs in the calling thread, in order, and may use all cores; read runs up to two
 *          panels ahead and write behind it, in threads of their own
 *   crew   several workers; each takes a panel through all steps, so that no core is idle while
 *          there are panels; only writing is in order
 *
 * Units are the bands of a geometry, or bytes when a tensor is copied as it is. A step that fails
 * ends the run: no panel is begun after it. */
#ifndef KERF_STREAM_PANELS_H
#define KERF_STREAM_PANELS_H

#include "stream/panel.h"

/* Whether a tensor can be encoded, as kerf_codec_check has it, and in panels: KERF_E_LIMIT where a
 * band is larger than KF_STREAM_BAND_BYTES. Sets its geometry. To be asked before the first tensor
 * is begun. */
kerf_status kf_stream_check(kerf_codec c, const kerf_shape *shape, kerf_dtype dense_type,
                            kerf_geometry *g, kerf_error *err);

/* Panels for the bands of g. dense_type: of the elements in `dense`. Spans hold exactly the bytes
 * of their panel when a step sees them. KERF_E_LIMIT: a band is larger than KF_STREAM_BAND_BYTES.
 */
kerf_status kf_stream_open(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                           kerf_error *err);

/* The same with panels of KF_STREAM_KEPT_BYTES, one after the other: for work that takes as long
 * for few rows as for many. room: as kf_stream_open_crew. */
kerf_status kf_stream_open_large(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                 kf_room *room, kerf_error *err);

/* As kf_stream_open, for a crew of `workers` in each run: read and work are called for several
 * panels at once, in any order. slow: their work is error feedback, so that small tensors are
 * shared, too. With a room, a tensor of at most KF_STREAM_KEPT_BYTES is held there as a whole where
 * there is memory for it, and a second run needs no read step. */
kerf_status kf_stream_open_crew(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                unsigned workers, int slow, kf_room *room, kerf_error *err);
/* The panels of kf_stream_open, each cut into parts for a crew. A part has a multiple of `run`
 * bands, save for the last one of a panel (kf_stream_ends_panel), so that sums over runs and panels
 * can be taken in the same order as without a crew. run 0: panels are not cut. */
kerf_status kf_stream_open_parts(kf_stream **out, const kerf_geometry *g, kerf_dtype dense_type,
                                 unsigned workers, uint64_t run, int slow, kerf_error *err);
/* Whether the part that ends before unit u1 is the last one of its panel. */
int kf_stream_ends_panel(const kf_stream *s, uint64_t u1);
unsigned kf_stream_slots(const kf_stream *s);
/* 1 when what one run has read is still there in the next. */
int kf_stream_keeps(const kf_stream *s);
/* How many workers keep this number of threads busy (0: all cores): some more, for a few of them
 * wait for the disk at any time. */
unsigned kf_stream_crew_size(int threads);

/* Panels of plain bytes in `dense`. */
kerf_status kf_stream_open_bytes(kf_stream **out, uint64_t bytes, kerf_error *err);
void kf_stream_close(kf_stream *s); /* NULL is fine */

/* Takes every panel through the steps; may be called again. An empty tensor has no panels. Of
 * several failures the one of the first panel is reported. */
kerf_status kf_stream_run(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err);

/* The whole content of a plane with one value per matrix; {NULL, 0} for other planes. */
kerf_span kf_stream_whole(const kf_stream *s, kerf_plane_id p);

/* --- steps that several calls share --------------------------------------------------------- */

/* Reads the dense elements of a panel from a tensor. */
kerf_status kf_read_dense(const kerf_reader *r, const kerf_tensor *t, const kerf_geometry *g,
                          kf_panel *p, kerf_error *err);
/* Reads the banded planes of a panel of a quantized weight. */
kerf_status kf_read_planes(const kerf_reader *r, const kerf_weight *w, kf_panel *p,
                           kerf_error *err);
/* Reads the planes with one value per matrix, once per tensor. */
kerf_status kf_read_whole_planes(const kerf_reader *r, const kerf_weight *w, const kf_stream *s,
                                 kerf_error *err);
/* The planes of a panel as kerf_decode wants them. */
void kf_planes_of(const kf_panel *p, kerf_cspan out[KERF_PLANES]);
kerf_cspan kf_dense_of(const kf_panel *p);

#endif
