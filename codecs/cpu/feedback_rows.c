/* feedback_rows.c - rows with error feedback, as kerf/feedback.h defines it, for every format
 * alike: of a row of formats.def it takes how a scale is chosen and how one number is rounded under
 * it.
 *
 * Sums over the columns ahead run in rising order, so that neither lanes nor the blocks in which
 * they are taken show in the bytes. */
#include "cpu/feedback_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/vector_copies.h"
#include "cpu/widen.h"
#include "format/format.h"

enum { OUTPUTS = 8 };

#define ONCE __attribute__((noinline))

static const float stretches[] = {1,    0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.65f,
                                  0.5f, 1.1f,  1.2f, 1.3f,  1.4f, 1.5f,  2};
#define KERF_FEEDBACK_STRETCHES (sizeof stretches / sizeof *stretches)

typedef float row_lanes __attribute__((vector_size(LANES * sizeof(float))));

/* --- rooms --------------------------------------------------------------------------------- */

static size_t columns_of(const kerf_geometry *g)
{
    return (size_t)kf_last_dim(&g->shape);
}

/* Columns of a row that round alike. */
static size_t group_of(const kf_feedback_room *r)
{
    if (r->spec.group) return r->spec.group;
    return r->spec.geometry == KERF_GROUP_SUPER ? kf_inline_elements(r->spec) : r->cols;
}

static kf_rounder *rounder_at(const kf_feedback_room *r, size_t row, size_t k)
{
    return &r->round[k / group_of(r) * r->rows + row];
}

int kerf_feedback_fits(const kerf_geometry *g)
{
    const size_t cols = columns_of(g);
    if (g->format->bits > 8 || g->elements == 0) return 0;
    if (g->format->geometry != KERF_GROUP_FLAT) return 1;
    return cols % g->format->group == 0 && g->band_cols % cols == 0;
}

uint64_t kerf_feedback_bands(const kerf_geometry *g)
{
    const int wide = g->format->geometry == KERF_GROUP_FLAT || g->band_rows > 1;
    return wide ? 1 : KF_FEEDBACK_ROWS;
}

kf_feedback_room *kf_feedback_room_open(const kerf_geometry *g, const kerf_feedback *f)
{
    kf_feedback_room *r = kf_alloc_zero(1, sizeof *r);
    if (!r) return NULL;
    r->g = g;
    r->f = f;
    r->spec = kf_spec_of(g->format);
    r->bands = (size_t)kerf_feedback_bands(g);
    r->cols = columns_of(g);
    const int flat = g->format->geometry == KERF_GROUP_FLAT;
    r->rows = flat ? (size_t)g->band_cols / r->cols : r->bands * (size_t)g->band_rows;
    r->blocks = (r->rows + LANES - 1) / LANES;
    r->scratch = kf_scratch_floats(g);
    const uint64_t lanes = (uint64_t)r->blocks * LANES;
    r->x = kf_alloc_zero(lanes * r->cols, sizeof *r->x);
    r->t = kf_alloc_zero(lanes * r->cols, sizeof *r->t);
    r->sum = kf_alloc_zero(lanes * r->cols, sizeof *r->sum);
    r->fault = kf_alloc_zero(lanes * r->cols, sizeof *r->fault);
    r->more = kf_alloc_zero(r->bands, r->scratch * sizeof *r->more);
    r->stretched = kf_alloc_zero(g->band_rows, r->cols * sizeof *r->stretched);
    r->round = kf_alloc_zero(kf_div_up(r->cols, group_of(r)), r->rows * sizeof *r->round);
    r->code = kf_alloc_zero(r->rows, r->cols);
    if (r->x && r->t && r->sum && r->fault && r->more && r->stretched && r->round && r->code)
        return r;
    kf_feedback_room_close(r);
    return NULL;
}

void kf_feedback_room_close(kf_feedback_room *r)
{
    if (!r) return;
    free(r->x);
    free(r->t);
    free(r->sum);
    free(r->fault);
    free(r->more);
    free(r->stretched);
    free(r->round);
    free(r->code);
    free(r);
}

/* --- sums over the columns ahead ------------------------------------------------------------ */

/* sum[OUTPUTS][LANES] += above[k][j] fault[j] over n columns j, for OUTPUTS rows k. */
KF_WIDE(add_outputs,
        (float *sum, const float *above, uint64_t columns, const float *fault, uint64_t n),
        (sum, above, columns, fault, n), {
            row_lanes s[OUTPUTS];
            memcpy(s, sum, sizeof s);
            for (uint64_t j = 0; j < n; j++) {
                row_lanes e;
                memcpy(&e, fault + j * LANES, sizeof e);
                for (size_t k = 0; k < OUTPUTS; k++) s[k] += above[k * columns + j] * e;
            }
            memcpy(sum, s, sizeof s);
        })

KF_WIDE(add_output, (float *sum, const float *above, const float *fault, uint64_t n),
        (sum, above, fault, n), {
            row_lanes s;
            memcpy(&s, sum, sizeof s);
            for (uint64_t j = 0; j < n; j++) {
                row_lanes e;
                memcpy(&e, fault + j * LANES, sizeof e);
                s += above[j] * e;
            }
            memcpy(sum, &s, sizeof s);
        })

void kf_feedback_sum(kf_feedback_room *r, const float *matrix, size_t block, kf_columns of,
                     kf_columns over)
{
    const size_t cols = r->cols, at = block * cols, n = over.end - over.first;
    const float *m = matrix + over.first, *fault = r->fault + (at + over.first) * LANES;
    if (over.end <= over.first) return;
    size_t k = of.first;
    for (; k + OUTPUTS <= of.end; k += OUTPUTS)
        add_outputs(r->sum + (at + k) * LANES, m + k * cols, cols, fault, n);
    for (; k < of.end; k++) add_output(r->sum + (at + k) * LANES, m + k * cols, fault, n);
}

/* --- scales -------------------------------------------------------------------------------- */

static float nearest_value(const kf_rounder *q, unsigned bits, float x, uint32_t *code)
{
    uint32_t best = 0;
    float least = kf_abs(q->value[0] - x);
    for (uint32_t i = 1; i < 1u << bits; i++) {
        const float d = kf_abs(q->value[i] - x);
        if (!(d < least)) continue;
        least = d;
        best = i;
    }
    *code = best;
    return q->value[best];
}

static ONCE float round_one(const kf_feedback_room *r, const kf_rounder *q, float x, uint32_t *code)
{
    if (r->nearest) return nearest_value(q, r->spec.bits, x, code);
    *code = kf_code(r->spec, q->quant, x);
    return kf_value(r->spec, q->dequant, *code);
}

static void list_values(kf_spec s, kf_rounder *q)
{
    for (uint32_t i = 0; i < 1u << s.bits; i++) q->value[i] = kf_value(s, q->dequant, i);
}

/* Here and below, once for all who ask: the block headers hold the rules of every format and
 * encoder, and each place that they are inlined into takes a compiler seconds. */
static ONCE kf_scale scale_of(const kf_feedback_room *r, const kf_band *b, int encoder, kf_group g)
{
    return kf_choose(r->spec, encoder, b->tensor, g);
}

static ONCE kf_rounder rounder_of(const kf_feedback_room *r, const kf_band *b, kf_scale scale,
                                  kf_group g)
{
    kf_rounder q;
    q.quant = kf_quant_init(r->spec, b->encoder, b->tensor, scale, g);
    q.dequant = kf_dequant_init(r->spec, scale, b->tensor->second, b->tensor->offset);
    return q;
}

/* The sum of D_k (t_k rounded - t_k)^2 under a scale. */
static double weigh_scale(const kf_feedback_room *r, const kf_band *b, kf_scale scale, kf_group g,
                          kf_group chosen_from, size_t first)
{
    const kf_rounder q = rounder_of(r, b, scale, chosen_from);
    double sum = 0;
    for (size_t i = 0; i < g.rows; i++)
        for (size_t k = 0; k < g.cols; k++) {
            uint32_t code;
            const float x = g.x[i * g.ld + k], d = round_one(r, &q, x, &code) - x;
            sum += (double)r->f->d[first + k] * ((double)d * (double)d);
        }
    return sum;
}

static kf_scale choose_scale(kf_feedback_room *r, const kf_band *b, kf_group g, size_t first)
{
    kf_scale tried[KERF_FEEDBACK_STRETCHES + 1]; /* and the encoder's own */
    kf_scale best = scale_of(r, b, b->encoder, g);
    if (!r->tries) return best;
    const int plain = (int)kerf_encoder_at(r->g->format, 0)->id;
    double least = weigh_scale(r, b, best, g, g, first);
    size_t n = 0;
    tried[n++] = best;
    for (size_t i = 0; i < KERF_FEEDBACK_STRETCHES; i++) {
        kf_group h = {r->stretched, g.rows, g.cols, g.cols, g.whole};
        for (size_t y = 0; y < g.rows; y++)
            for (size_t k = 0; k < g.cols; k++)
                r->stretched[y * g.cols + k] = g.x[y * g.ld + k] * stretches[i];
        const kf_scale scale = scale_of(r, b, plain, h);
        size_t known = 0;
        while (known < n && (tried[known].bits != scale.bits || tried[known].zero != scale.zero))
            known++;
        if (known < n) continue;
        tried[n++] = scale;
        const double sum = weigh_scale(r, b, scale, g, h, first);
        if (!(sum < least)) continue;
        least = sum;
        best = scale;
    }
    return best;
}

/* --- one span of columns whose scales are chosen together ------------------------------------ */

/* Columns of a span: a block of llama.cpp, a group, or a row that has no groups. */
static size_t span_of(const kf_feedback_room *r)
{
    if (r->spec.geometry == KERF_GROUP_SUPER) return kf_inline_elements(r->spec);
    return r->spec.group ? r->spec.group : r->cols;
}

/* Where the columns of row y of a band begin in the planes of that band. */
static size_t first_element(const kf_feedback_room *r, size_t y)
{
    return r->spec.geometry == KERF_GROUP_FLAT ? y * r->cols : 0;
}

static uint8_t *codes_of(const kf_feedback_room *r, const kf_band *b, size_t y)
{
    const int flat = r->spec.geometry == KERF_GROUP_FLAT;
    return b->out[KERF_PLANE_CODES] + (flat ? 0 : y * kf_row_bytes(r->spec, b));
}

static uint8_t *block_out(const kf_feedback_room *r, const kf_band *b, size_t first)
{
    return b->out[KERF_PLANE_CODES] +
           first / kf_inline_elements(r->spec) * kf_inline_bytes(r->spec);
}

static void choose_block(const kf_feedback_room *r, const kf_band *b, const float *t,
                         const float *x, size_t first)
{
    const int weighted = kf_takes_importance(r->spec.family, b->encoder);
    float same[MOST_ELEMENTS];
    for (size_t i = 0; i < MOST_ELEMENTS; i++) same[i] = 1;
    const float *importance = b->importance ? b->importance + first : same;
    kf_super_encode(r->spec, t, weighted ? importance : NULL,
                    weighted ? kf_mean_square(r->cols, x) : 0, block_out(r, b, first));
}

/* Stores the scales of columns [first, first + n) of a band, and readies its rows. row: of the
 * room. */
static void choose_scales(kf_feedback_room *r, const kf_band *b, size_t row, size_t first, size_t n)
{
    const kf_spec s = r->spec;
    const size_t high = s.geometry == KERF_GROUP_TILE ? b->rows : 1;
    for (size_t y = 0; y < r->band_rows; y += high) {
        const size_t at = (row + y) * r->cols + first,
                     i = (first_element(r, y) + first) / span_of(r);
        const kf_group g = {r->t + at, high, n, r->cols, n == span_of(r)};
        if (s.geometry == KERF_GROUP_SUPER) {
            choose_block(r, b, r->t + at, r->x + at - first, first);
            continue;
        }
        kf_scale scale = {b->tensor->bits, b->tensor->zero};
        kf_rounder *q = rounder_at(r, row + y, first);
        if (s.second == KERF_SECOND_NESTED) {
            scale.bits = kf_get_code(kf_scale_out(s, b, i), 8 * kf_scale_bytes(s.scale), 0);
            const float second = kf_float(kf_get_code(b->out[KERF_PLANE_SECOND], 32, 0));
            q->dequant = kf_dequant_init(s, scale, second, b->tensor->offset);
            list_values(s, q);
            continue;
        }
        if (kf_scale_per_group(s)) {
            scale = choose_scale(r, b, g, first);
            kf_put_scale(s, b, i, scale);
        }
        *q = rounder_of(r, b, scale, g);
        for (size_t k = 1; k < high; k++) q[k] = *q;
    }
}

/* Blocks of llama.cpp hold several groups. */
static void ready_group(kf_feedback_room *r, const kf_band *b, size_t row, size_t first)
{
    const kf_super k = kf_super_of(r->spec);
    const unsigned group = (unsigned)group_of(r);
    if (first % group) return;
    kf_rounder *q = rounder_at(r, row, first);
    q->dequant = kf_super_group(k, block_out(r, b, first), (unsigned)(first % k.elements / group));
    list_values(r->spec, q);
}

static void put_super(kf_super k, uint8_t *block, unsigned i, uint32_t code)
{
    const uint32_t low = (1u << k.low.bits) - 1, high = (1u << k.high.bits) - 1;
    uint8_t *a = block + kf_place_byte(k.low, i);
    *a = (uint8_t)(*a & ~(low << kf_place_shift(k.low, i)));
    if (k.high.bits) {
        a = block + kf_place_byte(k.high, i);
        *a = (uint8_t)(*a & ~(high << kf_place_shift(k.high, i)));
    }
    kf_super_put(k, block, i, code);
}

static void put_codes(const kf_feedback_room *r, const kf_band *b, size_t y, size_t row)
{
    const uint8_t *code = r->code + row * r->cols;
    const unsigned elements = kf_inline_elements(r->spec);
    for (size_t k = 0; k < r->cols; k++)
        if (r->spec.geometry == KERF_GROUP_SUPER)
            put_super(kf_super_of(r->spec), block_out(r, b, k), (unsigned)(k % elements), code[k]);
        else
            kf_put_code(codes_of(r, b, y), r->spec.bits,
                        kf_code_place(r->spec, first_element(r, y) + k), code[k]);
}

float kf_feedback_round(const kf_feedback_room *r, size_t row, size_t k, float x, uint32_t *code)
{
    return round_one(r, rounder_at(r, row, k), x, code);
}

/* Rounds column k of one row. */
static void round_column(kf_feedback_room *r, size_t row, size_t k)
{
    const size_t lane = kf_feedback_lane(r, row, k), at = row * r->cols + k;
    uint32_t code;
    const float e = kf_feedback_round(r, row, k, r->x[at] - r->sum[lane], &code) - r->x[at];
    r->fault[lane] = kf_is_finite(e) ? e : 0;
    r->code[at] = (uint8_t)code;
}

static void round_span(kf_feedback_room *r, kf_band *band, size_t count, size_t c0, size_t c1)
{
    const size_t rows = count * r->band_rows, blocks = (rows + LANES - 1) / LANES;
    const float *above = r->f->above;
    for (size_t k0 = c0; k0 < c1; k0 += STEP) {
        const size_t k1 = k0 + STEP < c1 ? k0 + STEP : c1;
        for (size_t i = 0; r->spec.geometry == KERF_GROUP_SUPER && i < count; i++)
            ready_group(r, &band[i], i, k0);
        for (size_t block = 0; block < blocks; block++) {
            const size_t end = (block + 1) * LANES < rows ? (block + 1) * LANES : rows;
            kf_feedback_sum(r, above, block, (kf_columns){k0, k1}, (kf_columns){c0, k0});
            for (size_t k = k0; k < k1; k++) {
                kf_feedback_sum(r, above, block, (kf_columns){k, k + 1}, (kf_columns){k0, k});
                for (size_t row = block * LANES; row < end; row++) round_column(r, row, k);
            }
        }
    }
}

static void encode_span(kf_feedback_room *r, kf_band *band, size_t count, size_t c0, size_t c1)
{
    const size_t rows = count * r->band_rows, cols = r->cols;
    for (size_t block = 0; block * LANES < rows; block++)
        kf_feedback_sum(r, r->f->above, block, (kf_columns){c0, c1}, (kf_columns){0, c0});
    for (size_t row = 0; row < rows; row++) {
        const float *sum = r->sum + row / LANES * cols * LANES + row % LANES;
        for (size_t k = c0; k < c1; k++)
            r->t[row * cols + k] = r->x[row * cols + k] - sum[k * LANES];
    }
    for (size_t i = 0; i < count; i++) choose_scales(r, &band[i], i * r->band_rows, c0, c1 - c0);
    round_span(r, band, count, c0, c1);
}

/* --- bands --------------------------------------------------------------------------------- */

/* Codes are added to bytes of zeros; nested scales need all of a band. */
static void begin_band(kf_feedback_room *r, kf_band *b, const float *x, float *scratch)
{
    const kf_spec s = r->spec;
    const size_t groups = kf_group_count(s, b);
    memset(b->out[KERF_PLANE_CODES], 0, b->rows * kf_row_bytes(s, b));
    if (kf_scale_per_group(s) && s.zero == KERF_ZERO_CODE)
        memset(b->out[KERF_PLANE_ZEROS], 0, kf_packed_bytes(s.bits, groups));
    b->scratch = scratch;
    if (s.second != KERF_SECOND_NESTED) return;
    for (size_t i = 0; i < groups; i++) {
        const kf_group g = {x + i * s.group, 1, kf_group_cols(s, b, i), b->cols, 1};
        kf_put_scale(s, b, i, scale_of(r, b, b->encoder, g));
    }
    kf_put_second(b, groups);
}

size_t kf_feedback_encode(kf_feedback_room *r, kf_band *band, size_t count)
{
    const int flat = r->spec.geometry == KERF_GROUP_FLAT,
              super = r->spec.geometry == KERF_GROUP_SUPER;
    size_t elements = 0;
    r->nearest = super || r->spec.second == KERF_SECOND_NESTED;
    r->tries = !r->nearest && !kf_is_peer(r->spec.family, band->encoder);
    r->band_rows = flat ? band->cols / r->cols : band->rows;
    for (size_t i = 0; i < count; i++) {
        kf_band *b = &band[i];
        const size_t n = b->rows * b->cols;
        const size_t bad = kf_widen(b->dtype, b->source, n, b->nan, r->x + elements);
        if (bad != KF_NO_ELEMENT) return elements + bad;
        begin_band(r, b, r->x + elements, r->more + i * r->scratch);
        elements += n;
    }
    memset(r->sum, 0, r->blocks * r->cols * LANES * sizeof *r->sum);
    memset(r->fault, 0, r->blocks * r->cols * LANES * sizeof *r->fault);
    const size_t span = span_of(r);
    for (size_t c = 0; c < r->cols; c += span)
        encode_span(r, band, count, c, c + span < r->cols ? c + span : r->cols);
    const size_t rows = count * r->band_rows;
    kf_feedback_again(r, rows);
    for (size_t row = 0; row < rows; row++)
        put_codes(r, &band[row / r->band_rows], row % r->band_rows, row);
    return KF_NO_ELEMENT;
}
