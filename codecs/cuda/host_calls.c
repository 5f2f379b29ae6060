/* host_calls.c - the codecs over host memory, on the GPU. A range is cut into pieces; two lanes
 * take turns, so that while one copies a piece in or out, the other's is being worked on. Host
 * memory goes through page-locked buffers, because only those are copied while the processor goes
 * on; what the caller has locked itself (cudaHostRegister, cudaMallocHost) goes as it is. */
#include "block/stats.h"
#include "cuda/handle.h"

#include <stdlib.h>

/* Elements of a piece, as bytes of the dense side. With error feedback a piece is what one lane
 * takes of the range, so that many rows are rounded side by side, and at most so many elements;
 * some threads copy it then, for nothing is done meanwhile. */
#define PIECE_BYTES (UINT64_C(16) << 20)
#define FEEDBACK_ELEMENTS (UINT64_C(1) << 25)
enum { COPIERS = 4 };

typedef enum call_kind { MEASURE, ENCODE, DECODE, CLIP } call_kind;

typedef struct host_call {
    kf_gpu *gpu; /* without feedback */
    const kf_host_range *range;
    call_kind kind;
    int encoder;
    kerf_stats *merged;      /* measure */
    const kerf_stats *stats; /* encode  */
    uint64_t bad;
    uint64_t clipped;
    int dense_is_locked, plane_is_locked[KERF_PLANES]; /* of the caller's memory */
} host_call;

/* Bands [s0, s1) and where they are. */
typedef struct piece {
    uint64_t s0, s1;
    uint64_t first_matrix, matrices; /* of the range */
    uint64_t dense_at, dense_bytes;
    uint64_t at[KERF_PLANES], bytes[KERF_PLANES];
    int used;
} piece;

/* Bands that are whole rows, or whole runs of them. */
static uint64_t feedback_end(const kf_host_range *r, uint64_t s)
{
    const uint64_t each = kerf_band_elements(r->g, s, s + 1).count;
    const uint64_t most = each && each < FEEDBACK_ELEMENTS ? FEEDBACK_ELEMENTS / each : 1;
    const uint64_t share = kf_div_up(r->b1 - r->b0, r->there->count * KF_LANES);
    return kf_min_u64(r->b1, s + kf_min_u64(most, share));
}

static uint64_t piece_end(const kf_host_range *r, uint64_t s)
{
    if (r->there) return feedback_end(r, s);
    uint64_t band = kerf_band_elements(r->g, s, s + 1).count * (kerf_dtype_bits(r->dtype) / 8);
    uint64_t n = band && band < PIECE_BYTES ? PIECE_BYTES / band : 1;
    return kf_min_u64(r->b1, s + n);
}

static piece piece_at(const kf_host_range *r, uint64_t s)
{
    const kerf_geometry *g = r->g;
    uint64_t size = kerf_dtype_bits(r->dtype) / 8, bpm = g->bands_per_matrix;
    piece c = {.s0 = s, .s1 = piece_end(r, s), .used = 1};
    c.first_matrix = s / bpm - r->b0 / bpm;
    c.matrices = (c.s1 - 1) / bpm - s / bpm + 1;
    c.dense_at = kerf_band_elements(g, r->b0, s).count * size;
    c.dense_bytes = kerf_band_elements(g, s, c.s1).count * size;
    for (int p = 0; p < KERF_PLANES; p++) {
        if (!r->plane[p] && !r->out[p]) continue;
        if (g->plane[p].per_matrix) {
            uint64_t one = g->plane[p].bytes / g->matrices;
            c.at[p] = c.first_matrix * one;
            c.bytes[p] = c.matrices * one;
        } else {
            c.at[p] = kerf_band_bytes(g, (kerf_plane_id)p, r->b0, s).count;
            c.bytes[p] = kerf_band_bytes(g, (kerf_plane_id)p, s, c.s1).count;
        }
    }
    return c;
}

/* A turn is a lane of a GPU; with feedback the GPUs take turns before their lanes do. */
static unsigned turns_of(const host_call *c)
{
    return c->range->there ? (unsigned)c->range->there->count * KF_LANES : KF_LANES;
}

static kf_gpu *gpu_at(const host_call *c, unsigned turn)
{
    const struct kf_there *t = c->range->there;
    return t ? t->at[turn % t->count].gpu : c->gpu;
}

static kf_lane *lane_at(const host_call *c, unsigned turn)
{
    const struct kf_there *t = c->range->there;
    return &gpu_at(c, turn)->lane[t ? turn / t->count : turn];
}

/* --- one way and back ------------------------------------------------------------------------- */

/* Memory of one allocation that is locked is locked as a whole: its ends tell. */
static int is_locked(const void *p, uint64_t n)
{
    const void *end[] = {p, (const uint8_t *)p + n - 1};
    for (int i = 0; i < 2; i++) {
        struct cudaPointerAttributes a;
        if (!p || n == 0) return 0;
        if (cudaPointerGetAttributes(&a, end[i]) != cudaSuccess) {
            (void)cudaGetLastError();
            return 0;
        }
        if (a.type != cudaMemoryTypeHost) return 0;
    }
    return 1;
}

static void find_locked(host_call *c)
{
    const kf_host_range *r = c->range;
    const kerf_geometry *g = r->g;
    const uint64_t n = kerf_band_elements(g, r->b0, r->b1).count * (kerf_dtype_bits(r->dtype) / 8);
    c->dense_is_locked = is_locked(c->kind == DECODE ? r->target : r->source, n);
    for (int p = 0; p < KERF_PLANES; p++) {
        if (g->plane[p].per_matrix) continue;
        c->plane_is_locked[p] = is_locked(c->kind == ENCODE ? r->out[p] : r->plane[p],
                                          kerf_band_bytes(g, (kerf_plane_id)p, r->b0, r->b1).count);
    }
}

static void copy_here(const host_call *c, void *to, const void *from, uint64_t n)
{
    kf_copy_bytes(c->range->there ? COPIERS : 1, to, from, n);
}

/* pinned NULL: the caller's memory is locked. */
static kerf_status copy_in(const host_call *c, kf_lane *l, kf_buffer *device, kf_buffer *pinned,
                           const void *from, uint64_t n, kerf_error *err)
{
    if (pinned) copy_here(c, pinned->p, from, n);
    KF_CUDA(
        cudaMemcpyAsync(device->p, pinned ? pinned->p : from, n, cudaMemcpyHostToDevice, l->stream),
        "copying to the GPU");
    return KERF_OK;
}

static kerf_status copy_out(kf_lane *l, void *to, const kf_buffer *device, uint64_t n,
                            kerf_error *err)
{
    KF_CUDA(cudaMemcpyAsync(to, device->p, n, cudaMemcpyDeviceToHost, l->stream),
            "copying from the GPU");
    return KERF_OK;
}

static int reads_dense(const host_call *c)
{
    return c->kind != DECODE;
}
static int uses_planes(const host_call *c)
{
    return c->kind != MEASURE;
}

/* Planes with one value per matrix are read by decode, but written by the dispatcher. */
static int has_plane(const host_call *c, const piece *at, int p)
{
    if (!uses_planes(c) || at->bytes[p] == 0) return 0;
    return c->kind != ENCODE || !c->range->g->plane[p].per_matrix;
}

static kerf_status grow_lane(const host_call *c, kf_lane *l, const piece *at, kerf_error *err)
{
    KF_TRY(kf_grow_device(l, &l->dense, at->dense_bytes, err));
    if (!c->dense_is_locked) KF_TRY(kf_grow_pinned(l, &l->pinned, at->dense_bytes, err));
    for (int p = 0; p < KERF_PLANES; p++) {
        if (!has_plane(c, at, p)) continue;
        KF_TRY(kf_grow_device(l, &l->plane[p], at->bytes[p], err));
        if (!c->plane_is_locked[p])
            KF_TRY(kf_grow_pinned(l, &l->pinned_plane[p], at->bytes[p], err));
    }
    return KERF_OK;
}

static kerf_status send_piece(const host_call *c, kf_lane *l, const piece *at, kerf_error *err)
{
    const kf_host_range *r = c->range;
    if (reads_dense(c))
        KF_TRY(copy_in(c, l, &l->dense, c->dense_is_locked ? NULL : &l->pinned,
                       r->source + at->dense_at, at->dense_bytes, err));
    for (int p = 0; p < KERF_PLANES && c->kind != ENCODE; p++)
        if (has_plane(c, at, p))
            KF_TRY(copy_in(c, l, &l->plane[p], c->plane_is_locked[p] ? NULL : &l->pinned_plane[p],
                           r->plane[p] + at->at[p], at->bytes[p], err));
    return KERF_OK;
}

static kerf_status send_stats(const host_call *c, kf_lane *l, const piece *at, kerf_error *err)
{
    uint64_t n = at->matrices * sizeof(kerf_stats);
    if (c->kind == DECODE || c->kind == CLIP || (c->kind == ENCODE && !c->stats)) return KERF_OK;
    KF_TRY(kf_grow_device(l, &l->stats, n, err));
    KF_TRY(kf_grow_pinned(l, &l->pinned_stats, n, err));
    if (c->kind == MEASURE)
        KF_CUDA(cudaMemsetAsync(l->stats.p, 0, n, l->stream), "clearing statistics");
    else
        return copy_in(c, l, &l->stats, &l->pinned_stats, c->stats + at->first_matrix, n, err);
    return KERF_OK;
}

static kerf_status compute_piece(const host_call *c, kf_lane *l, const piece *at,
                                 const kf_factors *factors, kerf_error *err)
{
    kf_range r = {.g = c->range->g,
                  .b0 = at->s0,
                  .b1 = at->s1,
                  .dense = l->dense.p,
                  .dtype = c->range->dtype,
                  .nan = c->range->nan,
                  .matrices = at->matrices};
    for (int p = 0; p < KERF_PLANES; p++) r.plane[p] = has_plane(c, at, p) ? l->plane[p].p : NULL;
    switch (c->kind) {
    case MEASURE: return kf_enqueue_measure(l, &r, l->stats.p, err);
    case ENCODE:
        if (factors)
            return kf_enqueue_feedback(l, &r, c->encoder, c->stats ? l->stats.p : NULL, factors,
                                       err);
        return kf_enqueue_encode(l, &r, c->encoder, c->stats ? l->stats.p : NULL, err);
    case DECODE: return kf_enqueue_decode(l, &r, err);
    case CLIP: return kf_enqueue_clip(l, &r, err);
    }
    return KERF_OK;
}

static kerf_status fetch_piece(const host_call *c, kf_lane *l, const piece *at, kerf_error *err)
{
    const kf_host_range *r = c->range;
    if (c->kind == DECODE)
        KF_TRY(copy_out(l, c->dense_is_locked ? r->target + at->dense_at : l->pinned.p, &l->dense,
                        at->dense_bytes, err));
    for (int p = 0; p < KERF_PLANES && c->kind == ENCODE; p++)
        if (has_plane(c, at, p))
            KF_TRY(copy_out(l, c->plane_is_locked[p] ? r->out[p] + at->at[p] : l->pinned_plane[p].p,
                            &l->plane[p], at->bytes[p], err));
    if (c->kind == MEASURE)
        KF_TRY(copy_out(l, l->pinned_stats.p, &l->stats, at->matrices * sizeof(kerf_stats), err));
    KF_CUDA(cudaMemcpyAsync(l->answer, l->word, sizeof *l->word, cudaMemcpyDeviceToHost, l->stream),
            "copying from the GPU");
    return KERF_OK;
}

static kerf_status start_piece(const host_call *c, unsigned turn, const piece *at, kerf_error *err)
{
    const struct kf_there *t = c->range->there;
    kf_lane *l = lane_at(c, turn);
    KF_CUDA(cudaSetDevice(gpu_at(c, turn)->ordinal), "choosing a GPU");
    KF_TRY(grow_lane(c, l, at, err));
    KF_CUDA(cudaMemsetAsync(l->word, c->kind == CLIP ? 0 : 0xff, sizeof *l->word, l->stream),
            "clearing a word");
    KF_TRY(send_piece(c, l, at, err));
    KF_TRY(send_stats(c, l, at, err));
    KF_TRY(compute_piece(c, l, at, t ? &t->at[turn % t->count] : NULL, err));
    return fetch_piece(c, l, at, err);
}

/* Waits for a piece and takes what it made to host memory. */
static kerf_status finish_piece(host_call *c, unsigned turn, const piece *at, kerf_error *err)
{
    const kf_host_range *r = c->range;
    kf_lane *l = lane_at(c, turn);
    KF_CUDA(cudaSetDevice(gpu_at(c, turn)->ordinal), "choosing a GPU");
    KF_CUDA(cudaStreamSynchronize(l->stream), "waiting for the GPU");
    if (c->kind == CLIP) {
        c->clipped += *l->answer;
        return KERF_OK;
    }
    if (*l->answer != UINT64_MAX)
        c->bad = kf_min_u64(c->bad, at->dense_at / (kerf_dtype_bits(r->dtype) / 8) + *l->answer);
    for (uint64_t m = 0; c->kind == MEASURE && m < at->matrices; m++)
        kerf_stats_merge(&c->merged[at->first_matrix + m], (kerf_stats *)l->pinned_stats.p + m);
    if (c->kind == DECODE && !c->dense_is_locked)
        memcpy(r->target + at->dense_at, l->pinned.p, at->dense_bytes);
    for (int p = 0; p < KERF_PLANES && c->kind == ENCODE; p++)
        if (has_plane(c, at, p) && !c->plane_is_locked[p])
            copy_here(c, r->out[p] + at->at[p], l->pinned_plane[p].p, at->bytes[p]);
    return KERF_OK;
}

/* --- all pieces ------------------------------------------------------------------------------- */

/* at: of each turn. */
static kerf_status take_turns(host_call *c, piece *at, kerf_error *err)
{
    const kf_host_range *r = c->range;
    const unsigned turns = turns_of(c);
    unsigned turn = 0;
    kerf_status s = KERF_OK;
    for (uint64_t b = r->b0; b < r->b1 && s == KERF_OK; turn = (turn + 1) % turns) {
        if (at[turn].used) s = finish_piece(c, turn, &at[turn], err);
        if (s != KERF_OK) break;
        at[turn] = piece_at(r, b);
        s = start_piece(c, turn, &at[turn], err);
        b = at[turn].s1;
    }
    for (unsigned i = 0; i < turns; i++, turn = (turn + 1) % turns) {
        if (!at[turn].used) continue;
        if (s == KERF_OK)
            s = finish_piece(c, turn, &at[turn], err);
        else /* the lanes must be idle when the caller frees its memory */
            (void)cudaStreamSynchronize(lane_at(c, turn)->stream);
    }
    return s;
}

static kerf_status run_pieces(host_call *c, kerf_error *err)
{
    const unsigned turns = turns_of(c);
    piece *at;
    c->bad = UINT64_MAX;
    KF_TRY(kf_allocate(&at, turns, sizeof *at, err));
    (void)cudaSetDevice(gpu_at(c, 0)->ordinal);
    find_locked(c);
    /* What device calls have found is kerf_device_wait's. */
    for (unsigned i = 0; i < turns; i++) lane_at(c, i)->word = lane_at(c, i)->words + 1;
    kerf_status s = take_turns(c, at, err);
    for (unsigned i = 0; i < turns; i++) lane_at(c, i)->word = lane_at(c, i)->words;
    free(at);
    return s;
}

static kerf_status measure(kerf_device *d, const kf_host_range *r, kerf_stats *stats, uint64_t *bad,
                           kerf_error *err)
{
    host_call c = {.gpu = kf_gpu_of(d), .range = r, .kind = MEASURE, .merged = stats};
    kerf_status s = run_pieces(&c, err);
    *bad = c.bad;
    return s;
}

static kerf_status encode(kerf_device *d, const kf_host_range *r, int encoder,
                          const kerf_stats *stats, uint64_t *bad, kerf_error *err)
{
    host_call c = {
        .gpu = kf_gpu_of(d), .range = r, .kind = ENCODE, .encoder = encoder, .stats = stats};
    kerf_status s = run_pieces(&c, err);
    *bad = c.bad;
    return s;
}

static kerf_status decode(kerf_device *d, const kf_host_range *r, kerf_error *err)
{
    host_call c = {.gpu = kf_gpu_of(d), .range = r, .kind = DECODE};
    return run_pieces(&c, err);
}

static kerf_status count_clipped(kerf_device *d, const kf_host_range *r, uint64_t *clipped,
                                 kerf_error *err)
{
    host_call c = {.gpu = kf_gpu_of(d), .range = r, .kind = CLIP};
    kerf_status s = run_pieces(&c, err);
    *clipped = c.clipped;
    return s;
}

const struct kerf_device kf_host_calls = {measure,       encode,          decode,
                                          count_clipped, kf_make_factors, kf_free_factors};
