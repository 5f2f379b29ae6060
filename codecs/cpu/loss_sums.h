/* loss_sums.h - the sums of loss.h over one piece, in the widest vectors of doubles that there are.
 * One text: what differs between instruction sets is into how many parts eight lanes are cut. */
#ifndef KERF_LOSS_SUMS_H
#define KERF_LOSS_SUMS_H

#include "cpu/ops.h"
#include "cpu/widen.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define PART_BYTES 64
#elif defined(__AVX2__)
#include <immintrin.h>
#define PART_BYTES 32
#else
#define PART_BYTES 16
#endif

enum { PART = PART_BYTES / 8, EIGHT = 8, PARTS = EIGHT / PART };

typedef double part __attribute__((vector_size(PART_BYTES)));
typedef int64_t part_bits __attribute__((vector_size(PART_BYTES)));
typedef float float_part __attribute__((vector_size(PART_BYTES / 2)));

typedef struct eight_sums {
    part signal[PARTS], noise[PARTS], cross[PARTS], worst[PARTS];
    part weighted_signal[PARTS], weighted_noise[PARTS];
} eight_sums;

static inline part part_at(const float *p)
{
#if defined(__AVX512F__)
    return _mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__)
    return _mm256_cvtps_pd(_mm_loadu_ps(p));
#else
    float_part f;
    memcpy(&f, p, sizeof f);
    return __builtin_convertvector(f, part);
#endif
}

/* No NaN comes here. */
static inline part larger_part(part a, part b)
{
#if defined(__AVX512F__)
    return _mm512_max_pd(a, b);
#elif defined(__AVX2__)
    return _mm256_max_pd(a, b);
#else
    part_bits first = a > b;
    return (part)(((part_bits)a & first) | ((part_bits)b & ~first));
#endif
}

/* Eight elements; h: their importance, where `weighted`. */
static inline __attribute__((always_inline)) void
add_eight(const float *w, const float *v, const float *h, int weighted, eight_sums *s)
{
    for (int k = 0; k < PARTS; k++) {
        part x = part_at(w + PART * k), d = part_at(v + PART * k) - x, xx = x * x, dd = d * d;
        s->signal[k] += xx;
        s->noise[k] += dd;
        s->cross[k] += d * x;
        s->worst[k] = larger_part((part)((part_bits)d & INT64_MAX), s->worst[k]);
        if (!weighted) continue;
        part importance = part_at(h + PART * k);
        s->weighted_signal[k] += importance * xx;
        s->weighted_noise[k] += importance * dd;
    }
}

static double sum_lanes(const part p[PARTS])
{
    double sum = 0;
    for (int i = 0; i < EIGHT; i++) sum += p[i / PART][i % PART];
    return sum;
}

/* Adds what lanes have summed up of one piece. Returns 0, and adds nothing, when an element of it
 * was not finite: its square is in the noise and stays there, and of finite ones nothing that large
 * comes. */
static inline __attribute__((always_inline)) int add_lanes(const eight_sums *s, int weighted,
                                                           kerf_loss *loss)
{
    const double noise = sum_lanes(s->noise);
    if (!(noise - noise == 0)) return 0;
    loss->signal += sum_lanes(s->signal);
    loss->noise += noise;
    loss->cross += sum_lanes(s->cross);
    for (int i = 0; i < EIGHT; i++) {
        double worst = s->worst[i / PART][i % PART];
        loss->worst = worst > loss->worst ? worst : loss->worst;
    }
    if (!weighted) return 1;
    loss->weighted_signal += sum_lanes(s->weighted_signal);
    loss->weighted_noise += sum_lanes(s->weighted_noise);
    return 1;
}

/* Returns as add_lanes does. */
static inline __attribute__((always_inline)) int sum_elements(const float *w, const float *v,
                                                              const float *h, int weighted,
                                                              size_t n, kerf_loss *loss)
{
    eight_sums s;
    float a[EIGHT] = {0}, b[EIGHT] = {0}, c[EIGHT] = {0};
    const size_t whole = n - n % EIGHT;
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < whole; i += EIGHT)
        add_eight(w + i, v + i, weighted ? h + i : NULL, weighted, &s);
    if (whole < n) {
        memcpy(a, w + whole, (n - whole) * sizeof *a);
        memcpy(b, v + whole, (n - whole) * sizeof *b);
        if (weighted) memcpy(c, h + whole, (n - whole) * sizeof *c);
        add_eight(a, b, c, weighted, &s);
    }
    return add_lanes(&s, weighted, loss);
}

/* Adds up to KF_PIECE elements: w of the source, v as decoded, h: importance or NULL. */
static __attribute__((noinline)) void add_piece(const float *w, const float *v, const float *h,
                                                size_t n, kerf_loss *loss)
{
    float a[KF_PIECE], b[KF_PIECE];
    for (int clean = 0;; clean = 1) {
        int done = h ? sum_elements(w, v, h, 1, n, loss) : sum_elements(w, v, NULL, 0, n, loss);
        if (done || clean) return;
        for (size_t i = 0; i < n; i++) {
            int known = kf_is_finite(w[i]), finite = known && kf_is_finite(v[i]);
            a[i] = finite ? w[i] : 0;
            b[i] = finite ? v[i] : 0;
            loss->nonfinite += (uint64_t)(known && !finite);
        }
        w = a;
        v = b;
    }
}

/* The importance of n elements from `at` on: where it lies, or in `room` when columns begin anew
 * among them. NULL: there is none. */
static const float *importance_at(const kf_band *b, size_t at, size_t n, float *room)
{
    if (!b->importance) return NULL;
    const kerf_shape *s = &b->g->shape;
    const size_t columns = s->rank ? (size_t)s->dim[s->rank - 1] : 1;
    size_t column = (b->column + at) % columns;
    if (column + n <= columns) return b->importance + column;
    for (size_t i = 0; i < n; i++) {
        room[i] = b->importance[column];
        if (++column == columns) column = 0;
    }
    return room;
}

/* A band whose numbers are decoded already. */
static __attribute__((unused)) void lose_decoded(const kf_band *b, const float *v, kerf_loss *loss)
{
    float w[KF_PIECE], room[KF_PIECE];
    const size_t size = b->dtype == KERF_F32 ? 4 : 2;
    for (size_t first = 0; first < b->cols; first += KF_PIECE_COLUMNS) {
        size_t end = b->cols - first < KF_PIECE_COLUMNS ? b->cols : first + KF_PIECE_COLUMNS;
        for (size_t r = 0; r < b->rows; r++) {
            for (size_t c = first; c < end; c += KF_PIECE) {
                size_t at = r * b->cols + c, n = end - c < KF_PIECE ? end - c : KF_PIECE;
                for (size_t i = 0; i < n; i++) w[i] = kf_load(b->dtype, b->source + at * size, i);
                add_piece(w, v + at, importance_at(b, at, n, room), n, loss);
            }
        }
    }
}

#endif
