/* score_gram.c - d G d^T for some rows of a matrix, 16 at a time: a row is a lane of a vector, so
 * every copy of the loop for wider vectors takes the same sums in the same order. Products of 256
 * columns are summed in float32, these sums in double. */
#include "score/score_gram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/vector_copies.h"

enum { LANES = 16, OUTPUTS = 8, CHUNK = 256, LEAST_ROWS = 64 };

typedef float row_lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Every how many blocks of rows one is measured. */
static uint64_t block_stride(const kerf_geometry *g, const kf_gram_weights *w)
{
    const uint64_t columns = w->columns;
    const uint64_t all = kf_div_up(g->elements / columns, LANES);
    uint64_t rows = (w->work ? w->work : KF_GRAM_WORK) / columns / columns;
    if (rows < LEAST_ROWS) rows = LEAST_ROWS;
    return kf_div_up(all, kf_div_up(rows, LANES));
}

/* sum[OUTPUTS][LANES] of gram[i][k] d[k] over n columns k. */
KF_WIDE(multiply, (float *sum, const float *gram, uint64_t columns, const float *d, uint64_t n),
        (sum, gram, columns, d, n), {
            row_lanes s[OUTPUTS] = {{0}};
            for (uint64_t k = 0; k < n; k++) {
                row_lanes y;
                memcpy(&y, d + k * LANES, sizeof y);
                for (size_t i = 0; i < OUTPUTS; i++) s[i] += gram[i * columns + k] * y;
            }
            memcpy(sum, s, sizeof s);
        })

/* The same for the last outputs, of which there are fewer. */
static void multiply_some(float *sum, size_t outputs, const float *gram, uint64_t columns,
                          const float *d, uint64_t n)
{
    memset(sum, 0, OUTPUTS * LANES * sizeof *sum);
    for (uint64_t k = 0; k < n; k++)
        for (size_t i = 0; i < outputs; i++)
            for (size_t r = 0; r < LANES; r++)
                sum[i * LANES + r] += gram[i * columns + k] * d[k * LANES + r];
}

/* Adds factor d_j G_jk d_k to the sum of each lane, of some outputs j and columns [from, to). */
static void add_outputs(const kf_gram_weights *g, const float *d, uint64_t j, uint64_t from,
                        uint64_t to, double factor, double lane[LANES])
{
    const uint64_t columns = g->columns;
    const size_t outputs = (size_t)kf_min_u64(OUTPUTS, columns - j);
    float part[OUTPUTS * LANES];
    for (uint64_t k = from; k < to; k += CHUNK) {
        const uint64_t n = kf_min_u64(CHUNK, to - k);
        const float *gram = g->gram + j * columns + k;
        if (outputs == OUTPUTS)
            multiply(part, gram, columns, d + k * LANES, n);
        else
            multiply_some(part, outputs, gram, columns, d + k * LANES, n);
        for (size_t i = 0; i < outputs; i++)
            for (size_t r = 0; r < LANES; r++)
                lane[r] += factor * ((double)part[i * LANES + r] * (double)d[(j + i) * LANES + r]);
    }
}

/* d: [columns][LANES]. G is symmetric: what lies behind the outputs counts twice. Returns the sum
 * over lanes, in their order. */
static double weigh(const kf_gram_weights *g, const float *d)
{
    double lane[LANES] = {0}, sum = 0;
    for (uint64_t j = 0; j < g->columns; j += OUTPUTS) {
        const uint64_t end = kf_min_u64(j + OUTPUTS, g->columns);
        add_outputs(g, d, j, j, end, 1, lane);
        add_outputs(g, d, j, end, g->columns, 2, lane);
    }
    for (size_t r = 0; r < LANES; r++) sum += lane[r];
    return sum;
}

static double weigh_plainly(const kf_gram_weights *g, const float *d)
{
    double sum = 0;
    for (uint64_t k = 0; k < g->columns; k++)
        for (size_t r = 0; r < LANES; r++) {
            const double x = (double)d[k * LANES + r];
            sum += (double)g->importance[k] * x * x;
        }
    return sum;
}

/* Rows of one block, [rows][columns]: into lanes, and summed. */
static void add_block(const kf_gram_weights *g, const float *w, const float *v, size_t rows,
                      float *d, kf_gram_sums *into)
{
    for (int signal = 0; signal < 1 + g->signal; signal++) {
        memset(d, 0, g->columns * LANES * sizeof *d);
        for (size_t r = 0; r < rows; r++)
            for (uint64_t k = 0; k < g->columns; k++) {
                const float a = w[r * g->columns + k], b = v[r * g->columns + k];
                if (isfinite(a) && isfinite(b)) d[k * LANES + r] = signal ? a : b - a;
            }
        *(signal ? &into->signal : &into->noise) += weigh(g, d);
        *(signal ? &into->plain_signal : &into->plain_noise) += weigh_plainly(g, d);
    }
}

/* The next rows from *row on that are measured, before `end`; their number, 0: there is none. Of
 * some blocks of a run only the longest are, as shorter ones take the same time. */
static size_t next_rows(uint64_t stride, uint64_t longest, uint64_t *row, uint64_t end)
{
    for (; *row < end; *row += LANES) {
        const uint64_t rows = kf_min_u64(end - *row, LANES);
        if (stride == 1 || (rows == longest && *row / LANES % stride == 0)) return (size_t)rows;
    }
    return 0;
}

static kerf_status score_rows(const kf_rest_job *j, const kf_gram_weights *g, uint64_t row,
                              uint64_t end, uint64_t stride, kf_gram_sums *into, kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    const kerf_extent all = kerf_band_elements(j->geometry, j->b0, j->b1);
    const uint64_t n = all.count;
    float *w = NULL;
    KF_TRY(kf_allocate(&w, 2 * n + g->columns * LANES, sizeof *w, err));
    float *v = w + n, *d = v + n;
    const uint64_t longest = kf_min_u64(end - row, LANES);
    kerf_status s = kf_rest_widen(j, n, w, err);
    if (s == KERF_OK)
        s = kerf_decode(j->geometry, j->b0, j->b1, j->planes, (kerf_span){v, (size_t)n * sizeof *v},
                        KERF_F32, &one, err);
    for (size_t rows; s == KERF_OK && (rows = next_rows(stride, longest, &row, end)) > 0;
         row += LANES) {
        const uint64_t at = row * g->columns - all.offset;
        add_block(g, w + at, v + at, rows, d, into);
    }
    free(w);
    return s;
}

kerf_status kf_gram_score(const kf_rest_job *j, const kf_gram_weights *g, kf_gram_sums *into,
                          kerf_error *err)
{
    const kerf_extent all = kerf_band_elements(j->geometry, j->b0, j->b1);
    if (!g->gram || g->columns == 0) return KERF_OK;
    const uint64_t stride = block_stride(j->geometry, g);
    const uint64_t end = (all.offset + all.count) / g->columns;
    uint64_t row = kf_div_up(all.offset, g->columns), first = row;
    if (row >= end || !next_rows(stride, kf_min_u64(end - row, LANES), &first, end)) return KERF_OK;
    return score_rows(j, g, row, end, stride, into, err);
}

void kf_gram_merge(kf_gram_sums *into, const kf_gram_sums *from)
{
    into->noise += from->noise;
    into->signal += from->signal;
    into->plain_noise += from->plain_noise;
    into->plain_signal += from->plain_signal;
}

/* What the rows that were measured say of all of them. Rounding may leave a little below 0. */
static double ratio(double weighed, double plain)
{
    return plain > 0 && weighed > 0 ? weighed / plain : plain > 0 ? 0 : 1;
}

void kf_gram_apply(const kf_gram_sums *sums, kerf_score *s)
{
    s->weighted_noise *= ratio(sums->noise, sums->plain_noise);
    s->weighted_signal *= ratio(sums->signal, sums->plain_signal);
}
