/* score_rest.c - one corrupt value in a matrix with a scale of its own takes all of the range: what
 * is not as large becomes zero, and the relative error of the whole is small all the same, since
 * that one value carries the signal. So the others are counted by themselves, in a second look that
 * only such matrices need. So are the rows and tiles of a matrix one of whose scales is far above
 * the others: there the loss of a few rows is too little for an error of the whole. What a column
 * far above the rest takes from its rows is counted only: models have such. */
#include "score/score_rest.h"

#include <kerf/loss.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* The largest number over the root of the mean square at which a second look is worth it, and the
 * part of the largest below which elements are the rest. */
#define FAR_ABOVE 64.0
/* One of some thousand elements is never so far above the root; it carries most of the signal
 * instead. Of a handful of elements that says nothing. */
#define MOST_OF 0.5
#define MANY 128

static double largest_code(const kerf_format *f)
{
    switch (f->element) {
    case KERF_ELEM_E4M3: return 448;
    case KERF_ELEM_E5M2: return 57344;
    case KERF_ELEM_S8: return 127;
    case KERF_ELEM_E2M1: return 6 * 448; /* with block scales in E4M3 */
    default: return 0;
    }
}

/* Codes of 0 to 255, stored less 128, reach farther on one side of their zero point. */
static double farthest_code(const kf_rest_job *j, uint64_t matrix)
{
    const kerf_cspan zeros = j->planes[KERF_PLANE_ZEROS];
    if (j->geometry->format->zero != KERF_ZERO_CODE || matrix >= zeros.n)
        return largest_code(j->geometry->format);
    const unsigned zero = ((const unsigned char *)zeros.p)[matrix] ^ 0x80u;
    return zero > 127 ? zero : 255 - zero;
}

/* The largest number that the scale of the matrix at b0 can express; 0: it has none of its own. */
static double largest_number(const kf_rest_job *j)
{
    const kerf_geometry *g = j->geometry;
    const kerf_plane_id p =
        g->format->second == KERF_SECOND_TENSOR ? KERF_PLANE_SECOND : KERF_PLANE_SCALES;
    const uint64_t matrix = g->bands_per_matrix ? j->b0 / g->bands_per_matrix : 0;
    if (g->plane[p].dtype != KERF_F32 || !g->plane[p].per_matrix || j->b0 == j->b1) return 0;
    if ((matrix + 1) * sizeof(float) > j->planes[p].n) return 0;
    return farthest_code(j, matrix) * (double)fabsf(((const float *)j->planes[p].p)[matrix]);
}

/* Bands [b0, b1) of a job; planes: room for theirs. */
static kf_rest_job part_of(const kf_rest_job *j, uint64_t b0, uint64_t b1,
                           kerf_cspan planes[KERF_PLANES])
{
    const kerf_geometry *g = j->geometry;
    const unsigned width = kerf_dtype_bits(j->dtype) / 8;
    kf_rest_job part = {g, b0, b1, planes, {NULL, 0}, j->dtype};
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        planes[p] = (kerf_cspan){NULL, 0};
        if (g->plane[p].dtype == KERF_DTYPE_NONE) continue;
        planes[p] = j->planes[p];
        if (g->plane[p].per_matrix) continue;
        planes[p].p =
            (const unsigned char *)j->planes[p].p + kerf_band_bytes(g, p, j->b0, b0).count;
        planes[p].n = (size_t)kerf_band_bytes(g, p, b0, b1).count;
    }
    part.src.p = (const unsigned char *)j->src.p + kerf_band_elements(g, j->b0, b0).count * width;
    part.src.n = (size_t)kerf_band_elements(g, b0, b1).count * width;
    return part;
}

static const kerf_format *plain_format(kerf_dtype t)
{
    return kerf_format_find(t == KERF_F32 ? "fp32" : t == KERF_F16 ? "fp16" : "bf16");
}

kerf_status kf_rest_widen(const kf_rest_job *j, uint64_t n, float *out, kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    kerf_geometry g;
    const kerf_shape shape = {2, {1, n}};
    KF_TRY(kerf_geometry_init(&g, plain_format(j->dtype), &shape, err));
    const kerf_cspan planes[KERF_PLANES] = {{j->src.p, (size_t)g.bytes}};
    return kerf_decode(&g, 0, g.bands, planes, (kerf_span){out, (size_t)n * sizeof *out}, KERF_F32,
                       &one, err);
}

/* --- a look at some blocks of the source ---------------------------------------------------- */

/* Blocks of so many elements of a row are looked at one by one: of a matrix with one scale few, to
 * know what it mostly holds; more to find a column, which is one block of each row. */
#define BLOCK ((uint64_t)128)
#define FEW_SAMPLES 8
#define SAMPLES 256
/* One such block of so many, and two at least, is no chance. */
#define SELDOM 128

/* What a tensor is like: the root of the mean square of its middle block, outliers aside, and
 * whether elements that are far above most of their block are found again and again, as those of
 * one column are. */
typedef struct sample {
    double typical;
    size_t far;
    int has_column;
} sample;

/* The mean square of a block, without what is far above three quarters of it; *is_far: whether
 * there is such. */
static double look_at_block(const float *w, uint64_t n, int *is_far)
{
    double largest = 0, signal = 0, rest = 0;
    uint64_t below = 0;
    for (uint64_t i = 0; i < n; i++)
        if (isfinite(w[i])) largest = fmax(largest, fabs((double)w[i]));
    for (uint64_t i = 0; i < n; i++) {
        const double x = (double)w[i];
        if (!isfinite(w[i])) continue;
        signal += x * x;
        if (x == 0 || fabs(x) * FAR_ABOVE >= largest) continue;
        rest += x * x;
        below++;
    }
    *is_far = 4 * below >= 3 * n;
    return *is_far ? rest / (double)below : signal / (double)n;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Blocks that are spread over rows and columns alike, whatever their numbers are divisible by. */
static kerf_status take_sample(const kf_rest_job *j, uint64_t most, sample *out, kerf_error *err)
{
    const uint64_t n = kerf_band_elements(j->geometry, j->b0, j->b1).count;
    const uint64_t cols = kf_min_u64(j->geometry->cols, n);
    const uint64_t across = cols ? (cols + BLOCK - 1) / BLOCK : 0,
                   all = cols ? n / cols * across : 0;
    const unsigned width = kerf_dtype_bits(j->dtype) / 8;
    double square[SAMPLES];
    size_t taken = 0;
    *out = (sample){0};
    for (uint64_t i = 0; i < kf_min_u64(all, most); i++) {
        const uint64_t block = all > most ? i * UINT64_C(2654435761) % all : i;
        const uint64_t column = block % across * BLOCK, at = block / across * cols + column;
        const uint64_t count = kf_min_u64(BLOCK, cols - column);
        kf_rest_job one = *j;
        float w[BLOCK];
        int is_far;
        one.src.p = (const unsigned char *)j->src.p + at * width;
        one.src.n = (size_t)count * width;
        KF_TRY(kf_rest_widen(&one, count, w, err));
        const double x = look_at_block(w, count, &is_far);
        out->far += (size_t)is_far;
        if (x > 0) square[taken++] = x;
    }
    if (taken == 0) return KERF_OK;
    qsort(square, taken, sizeof *square, by_size);
    out->typical = sqrt(square[(taken - 1) / 2]);
    out->has_column = out->far > 1 && out->far * SELDOM >= taken;
    return KERF_OK;
}

/* --- a scale for each row or tile ----------------------------------------------------------- */

/* How far above the others, by their geometric mean, a scale is that one outlier may have made. */
#define SPREAD 16

static int has_scales(const kf_rest_job *j)
{
    const kerf_group_kind kind = j->geometry->format->geometry;
    const kerf_dtype type = j->geometry->plane[KERF_PLANE_SCALES].dtype;
    return (kind == KERF_GROUP_ROW || kind == KERF_GROUP_TILE) &&
           (type == KERF_F32 || type == KERF_BF16);
}

static double scale_at(const kf_rest_job *j, uint64_t i)
{
    const unsigned char *p = j->planes[KERF_PLANE_SCALES].p;
    const int is_wide = j->geometry->plane[KERF_PLANE_SCALES].dtype == KERF_F32;
    uint32_t bits = 0;
    float x;
    memcpy((unsigned char *)&bits + (is_wide ? 0 : 2), p + (is_wide ? 4 : 2) * i, is_wide ? 4 : 2);
    memcpy(&x, &bits, sizeof x);
    return fabs((double)x);
}

/* Above what a tensor mostly holds, what the largest scale can express where a column may be far
 * above the rest: all scales are large then, and none is far above the others. */
#define WIDE 24

static double largest_scale(const kf_rest_job *j)
{
    const kerf_plane *plane = &j->geometry->plane[KERF_PLANE_SCALES];
    const uint64_t count = j->planes[KERF_PLANE_SCALES].n / (kerf_dtype_bits(plane->dtype) / 8);
    double largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double x = scale_at(j, i);
        if (isfinite(x)) largest = fmax(largest, x);
    }
    return largest;
}

/* A sample of a run: of few blocks, unless scales, or one of these, ask for more. */
static kerf_status sample_run(const kf_rest_job *j, sample *out, kerf_error *err)
{
    const double reach = has_scales(j) ? largest_scale(j) * largest_code(j->geometry->format) : 0;
    KF_TRY(take_sample(j, FEW_SAMPLES, out, err));
    const int is_more = out->far > 0 || reach > WIDE * out->typical;
    return is_more ? take_sample(j, SAMPLES, out, err) : KERF_OK;
}

/* The scale from which on one is far above the others, or, where all are, above what the tensor
 * mostly holds; *found: whether there is one. */
static double far_scale(const kf_rest_job *j, const sample *look, int *found)
{
    const kerf_plane *plane = &j->geometry->plane[KERF_PLANE_SCALES];
    const uint64_t count = j->planes[KERF_PLANE_SCALES].n / (kerf_dtype_bits(plane->dtype) / 8);
    double logs = 0, largest = 0;
    uint64_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double x = scale_at(j, i);
        if (!(x > 0) || !isfinite(x)) continue;
        largest = fmax(largest, x);
        logs += log2(x);
        n++;
    }
    const double reach = largest_code(j->geometry->format);
    double from = SPREAD * exp2(logs / (double)(n ? n : 1));
    if (reach > 0 && !look->has_column) from = fmin(from, FAR_ABOVE * look->typical / reach);
    *found = largest > from;
    return from;
}

/* Of the block that begins at an element. */
static double scale_of(const kf_rest_job *j, uint64_t row, uint64_t column)
{
    const kerf_geometry *g = j->geometry;
    return scale_at(j,
                    row / g->band_rows * g->band_groups +
                        (g->format->geometry == KERF_GROUP_TILE ? column / g->format->group : 0));
}

/* --- blocks -------------------------------------------------------------------------------- */

/* Blocks are looked at one by one, each without what outweighs the rest of it. A block of which
 * half is such rest is lost when more than half of its signal is, and it has a part of what the
 * others have, by their geometric mean, which no outlier moves. */
#define LOST 0.5
#define WORTH 1e-4
#define OUTWEIGHS 0.9

typedef struct tally {
    double signal, noise;
    uint64_t zeroed, elements;
} tally;

/* Elements [from, to) whose magnitude is below `most`; *largest: of these. */
static tally count_below(const float *w, const float *v, uint64_t from, uint64_t to, double most,
                         double *largest)
{
    tally t = {0};
    *largest = 0;
    for (uint64_t i = from; i < to; i++) {
        const double x = (double)w[i], d = (double)v[i] - x;
        if (!isfinite(w[i]) || !isfinite(v[i]) || fabs(x) >= most) continue;
        t.signal += x * x;
        t.noise += d * d;
        t.zeroed += w[i] != 0 && v[i] == 0;
        t.elements++;
        *largest = fmax(*largest, fabs(x));
    }
    return t;
}

/* What a block has besides an outlier. */
static tally rest_of_block(const float *w, const float *v, uint64_t from, uint64_t to, double most,
                           tally *all)
{
    double largest, next;
    const tally t = count_below(w, v, from, to, most, &largest);
    if (2 * t.elements >= to - from) { /* what is small in a row of large ones is no rest */
        all->signal += t.signal;
        all->noise += t.noise;
        all->zeroed += t.zeroed;
    }
    if (!(largest * largest > OUTWEIGHS * t.signal)) return t;
    return count_below(w, v, from, to, largest / FAR_ABOVE, &next);
}

/* What is looked for: elements below `most`, in blocks whose scale is at least `from`. */
typedef struct question {
    double most, from;
} question;

static tally count(const kf_rest_job *j, const float *w, const float *v, uint64_t n,
                   const question *q, uint64_t *lost)
{
    const uint64_t cols = j->geometry->cols;
    tally all = {0}, again = {0};
    double logs = 0;
    uint64_t blocks = 0;
    for (int pass = 0; pass < 2; pass++) {
        const double worth = WORTH * exp2(logs / (double)(blocks ? blocks : 1));
        for (uint64_t row = 0; row < n; row += cols)
            for (uint64_t at = row; at < kf_min_u64(row + cols, n); at += BLOCK) {
                const uint64_t end = kf_min_u64(kf_min_u64(at + BLOCK, row + cols), n);
                const tally t = rest_of_block(w, v, at, end, q->most, pass ? &again : &all);
                if (!(t.signal > 0) || 2 * t.elements < end - at) continue;
                if (pass && t.signal > worth && t.noise >= LOST * t.signal)
                    *lost += q->from == 0 ||
                             (q->from < INFINITY && scale_of(j, row / cols, at - row) >= q->from);
                if (!pass) logs += log2(t.signal);
                blocks += !pass;
            }
    }
    return all;
}

/* Decodes bands [b0, b1) and counts them. */
static kerf_status look_again(const kf_rest_job *j, const question *q, tally *out, uint64_t *lost,
                              kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    const uint64_t n = kerf_band_elements(j->geometry, j->b0, j->b1).count;
    float *w = NULL;
    KF_TRY(kf_allocate(&w, (size_t)n, 2 * sizeof *w, err));
    float *v = w + n;
    kerf_status status = kf_rest_widen(j, n, w, err);
    if (status == KERF_OK)
        status = kerf_decode(j->geometry, j->b0, j->b1, j->planes,
                             (kerf_span){v, (size_t)n * sizeof *v}, KERF_F32, &one, err);
    if (status == KERF_OK) *out = count(j, w, v, n, q, lost);
    free(w);
    return status;
}

/* Runs are looked at one by one, so that the sums are those of any division into calls. */
static kerf_status look_at_rows(const kf_rest_job *j, kerf_score *s, kerf_error *err)
{
    const kerf_geometry *g = j->geometry;
    const uint64_t run = j->b0 < j->b1 ? kerf_loss_run(g, j->b0, j->b1) : 1;
    for (uint64_t b = j->b0; b < j->b1; b += run) {
        kerf_cspan planes[KERF_PLANES];
        const kf_rest_job one = part_of(j, b, kf_min_u64(b + run, j->b1), planes);
        sample look;
        tally t = {0};
        int found = 0;
        KF_TRY(sample_run(&one, &look, err));
        question q = {INFINITY, has_scales(j) ? far_scale(&one, &look, &found) : INFINITY};
        if (!found && !look.has_column) continue;
        if (!found) q.from = INFINITY; /* what a column takes is counted, and is no block lost */
        KF_TRY(look_again(&one, &q, &t, &s->lost_blocks, err));
        s->zeroed += t.zeroed;
    }
    return KERF_OK;
}

/* --- a scale for each matrix ---------------------------------------------------------------- */

/* What is asked of one matrix, or a part of it: of what is far below its range, or of all. */
static question question_of(const kf_rest_job *j, double signal, const sample *look)
{
    const double n = (double)kerf_band_elements(j->geometry, j->b0, j->b1).count;
    const double largest = largest_number(j), part = FAR_ABOVE * FAR_ABOVE / n;
    const int is_far = largest * largest > signal * (n < MANY ? part : fmin(part, MOST_OF)) ||
                       (n >= MANY && largest > FAR_ABOVE * look->typical);
    return (question){is_far && signal > 0 ? largest / FAR_ABOVE : INFINITY, 0};
}

static kerf_status signal_of(const kf_rest_job *j, double *signal, kerf_error *err)
{
    const uint64_t n = kerf_band_elements(j->geometry, j->b0, j->b1).count;
    float *w = NULL;
    *signal = 0;
    KF_TRY(kf_allocate(&w, (size_t)n, sizeof *w, err));
    const kerf_status status = kf_rest_widen(j, n, w, err);
    for (uint64_t i = 0; status == KERF_OK && i < n; i++)
        if (isfinite(w[i])) *signal += (double)w[i] * (double)w[i];
    free(w);
    return status;
}

/* Matrices of a stack, each with a scale of its own: the first round finds whether one of them has
 * an outlier, the second takes the rest of those that have, and all of the others. */
static kerf_status look_at_matrices(const kf_rest_job *j, kerf_score *s, kerf_error *err)
{
    const uint64_t bands = j->geometry->bands_per_matrix;
    tally all = {0};
    int found = 0;
    for (int round = 0; round < 1 + found; round++) {
        for (uint64_t b = j->b0, end; b < j->b1; b = end) {
            kerf_cspan planes[KERF_PLANES];
            double signal;
            uint64_t lost = 0;
            tally t;
            sample look;
            end = kf_min_u64((b / bands + 1) * bands, j->b1);
            const kf_rest_job one = part_of(j, b, end, planes);
            KF_TRY(signal_of(&one, &signal, err));
            KF_TRY(take_sample(&one, FEW_SAMPLES, &look, err));
            const question q = question_of(&one, signal, &look);
            found |= q.most < INFINITY;
            if (!round) continue;
            KF_TRY(look_again(&one, &q, &t, &lost, err));
            all.signal += t.signal;
            all.noise += t.noise;
            if (q.most == INFINITY) continue;
            all.zeroed += t.zeroed;
            s->lost_blocks += lost;
        }
    }
    if (!found) return KERF_OK;
    s->rest_signal = all.signal;
    s->rest_noise = all.noise;
    s->zeroed += all.zeroed;
    return KERF_OK;
}

/* --- all ----------------------------------------------------------------------------------- */

kerf_status kf_score_rest(const kf_rest_job *j, kerf_score *s, kerf_error *err)
{
    const uint64_t bands = j->geometry->bands_per_matrix;
    tally t;
    sample look;
    if (s->signal == 0) return KERF_OK;
    if (largest_number(j) > 0 && bands && (j->b1 - 1) / bands > j->b0 / bands)
        return look_at_matrices(j, s, err);
    if (largest_number(j) == 0) return look_at_rows(j, s, err);
    KF_TRY(take_sample(j, FEW_SAMPLES, &look, err));
    const question q = question_of(j, s->signal, &look);
    if (q.most == INFINITY) return KERF_OK;
    KF_TRY(look_again(j, &q, &t, &s->lost_blocks, err));
    s->rest_signal = t.signal;
    s->rest_noise = t.noise;
    s->zeroed += t.zeroed;
    return KERF_OK;
}
