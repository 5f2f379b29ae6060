/* feedback_again.c - the columns of rows again, behind the first pass of error feedback: each code
 * is chosen anew under its scale, now that the errors of all other columns are known
 * (kerf/feedback.h).
 *
 * The first pass knows the errors ahead of a column alone, and takes those behind it for such as
 * will answer it perfectly. */
#include "cpu/feedback_room.h"

#include <string.h>

#include "base/base.h"

kerf_status kerf_feedback_again(kerf_feedback *f, const float *gram, double damping,
                                kerf_error *err)
{
    const uint64_t n = f->columns;
    double sum = 0;
    if (!f->above)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "columns are gone over again by the processor alone: kerf_feedback_make");
    if (!f->gram) KF_TRY(kf_allocate(&f->gram, n * n, sizeof *f->gram, err));
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j <= i; j++) f->gram[i * n + j] = f->gram[j * n + i] = gram[i * n + j];
        sum += (double)gram[i * n + i];
    }
    const double mean = sum > 0 ? sum / (double)n : 1;
    for (uint64_t i = 0; i < n; i++)
        f->gram[i * n + i] = (float)((double)f->gram[i * n + i] + damping * mean);
    return KERF_OK;
}

/* Returns 1 when the code of column k changes. It does not where the format's rule of rounding
 * would make the error larger. */
static int round_again(kf_feedback_room *r, size_t row, size_t k)
{
    const size_t lane = kf_feedback_lane(r, row, k), at = row * r->cols + k;
    const float x = r->x[at], e = r->fault[lane];
    const float by = r->sum[lane] / r->f->gram[k * r->cols + k];
    uint32_t code;
    const float other = kf_feedback_round(r, row, k, x + e - by, &code) - x;
    if (code == r->code[at] || !kf_is_finite(other)) return 0;
    if (!(kf_abs(other - (e - by)) < kf_abs(by))) return 0;
    r->fault[lane] = other;
    r->code[at] = (uint8_t)code;
    return 1;
}

/* Sixteen columns of a block of rows: sums over all other columns first, then over their own, which
 * change on the way. */
static int pass_columns(kf_feedback_room *r, size_t block, size_t rows, kf_columns own)
{
    const float *gram = r->f->gram;
    const size_t end = (block + 1) * LANES < rows ? (block + 1) * LANES : rows;
    float *sum = r->sum + (block * r->cols + own.first) * LANES;
    int changed = 0;
    memset(sum, 0, (own.end - own.first) * LANES * sizeof *sum);
    kf_feedback_sum(r, gram, block, own, (kf_columns){0, own.first});
    kf_feedback_sum(r, gram, block, own, (kf_columns){own.end, r->cols});
    for (size_t k = own.first; k < own.end; k++) {
        kf_feedback_sum(r, gram, block, (kf_columns){k, k + 1}, own);
        for (size_t row = block * LANES; row < end; row++) changed |= round_again(r, row, k);
    }
    return changed;
}

static int pass(kf_feedback_room *r, size_t block, size_t rows)
{
    int changed = 0;
    for (size_t k = 0; k < r->cols; k += STEP) {
        const kf_columns own = {k, k + STEP < r->cols ? k + STEP : r->cols};
        changed |= pass_columns(r, block, rows, own);
    }
    return changed;
}

/* A row that nothing changes stays as it is while others of its block change. */
void kf_feedback_again(kf_feedback_room *r, size_t rows)
{
    for (size_t block = 0; r->f->gram && block * LANES < rows; block++) {
        int left = KERF_FEEDBACK_AGAIN;
        while (left > 0 && pass(r, block, rows)) left--;
    }
}
