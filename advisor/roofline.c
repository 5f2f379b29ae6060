/* roofline.c - times from roofs: see predict.h for the formula and its three tiers. */
#include <kerf/predict.h>

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "waves.h"

/* What kernels draw from a machine of which only the data sheet is known, best and worst.
 *
 * GPU: mature kernels read 0.93 of the published bandwidth at most and 0.45 at 64 MB (seven
 * vendors' libraries on A100 to B200, one row of activations); a chain of dependent launches costs
 * 0.4 us per kernel, a launch in a graph 2.5 to 8. Dense products reach 0.4 to 0.9 of the peak.
 * CPU: one socket, all cores; a parallel region costs 1 to 50 us. */
typedef struct spec_share {
    const char *kind;
    double fixed_us[2], bandwidth[2], math[2]; /* best, worst */
} spec_share;

static const spec_share spec_shares[] = {
    {"gpu", {0.4, 8}, {0.93, 0.45}, {0.90, 0.40}},
    {"cpu", {1, 50}, {0.95, 0.30}, {0.90, 0.20}},
};

/* Lanes issued to decode one element and multiply it by one activation, best and worst of the
 * instruction sequences that were compiled and counted for sm_90. Elements that are not listed
 * have no decode roof in the spec-only tier. */
static const struct {
    kerf_element element;
    double lanes[2];
} spec_decode[] = {{KERF_ELEM_E2M1, {1.67, 2.85}}};

enum { TILE = 128 };

const char *kerf_tier_name(kerf_tier t)
{
    static const char *const names[] = {"spec-only", "fitted", "table"};
    return (unsigned)t < 3 ? names[t] : "?";
}

const char *kerf_bound_name(kerf_bound b)
{
    static const char *const names[] = {"fixed", "memory", "decode", "math"};
    return (unsigned)b < 4 ? names[b] : "?";
}

/* --- work ---------------------------------------------------------------------------------- */

double kerf_work_bytes(const kerf_work *w)
{
    return w->weight_bytes + w->input_bytes + w->output_bytes;
}

double kerf_work_intensity(const kerf_work *w)
{
    double bytes = kerf_work_bytes(w);
    return bytes > 0 ? w->flops / bytes : 0;
}

/* Widths of floating-point units; integers are apart. 0: needs the bf16 unit. */
static unsigned float_width(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_E2M1: return 4;
    case KERF_ELEM_E2M3:
    case KERF_ELEM_E3M2:
    case KERF_ELEM_E4M3:
    case KERF_ELEM_E5M2: return 8;
    default: return 0;
    }
}

static unsigned int_width(kerf_element e)
{
    return e == KERF_ELEM_S8 ? 8 : e == KERF_ELEM_S4 || e == KERF_ELEM_S2 ? 4 : 0;
}

/* The first fact of the list that the machine has. */
static double first_peak(const kerf_hardware *h, const kerf_fact_id *list)
{
    for (; *list != KERF_FACT_COUNT; list++) {
        if (h->fact[*list].value > 0) return h->fact[*list].value;
    }
    return 0;
}

double kerf_peak_tflops(const kerf_hardware *h, const kerf_format *weights,
                        const kerf_format *activations)
{
    static const kerf_fact_id fp4[] = {KERF_FACT_FP4, KERF_FACT_FP8, KERF_FACT_BF16, KERF_FACT_FP32,
                                       KERF_FACT_COUNT};
    static const kerf_fact_id int4[] = {KERF_FACT_INT4, KERF_FACT_INT8, KERF_FACT_BF16,
                                        KERF_FACT_FP32, KERF_FACT_COUNT};
    if (!activations || !weights) return first_peak(h, fp4 + 2);
    unsigned wf = float_width(weights->element), af = float_width(activations->element);
    unsigned wi = int_width(weights->element), ai = int_width(activations->element);
    if (wf && af) return first_peak(h, wf == 4 && af == 4 ? fp4 : fp4 + 1);
    if (wi && ai) return first_peak(h, wi == 4 && ai == 4 ? int4 : int4 + 1);
    return first_peak(h, fp4 + 2);
}

/* Bytes of `rows` rows of k elements in each of `matrices` matrices. */
static kerf_status row_bytes(const kerf_format *f, uint64_t k, double rows, double matrices,
                             double *out, kerf_error *err)
{
    kerf_geometry g;
    if (!f) {
        *out = rows * (double)k * 2;
        return KERF_OK;
    }
    KF_TRY(kerf_geometry_init(&g, f, &(kerf_shape){2, {1, k}}, err));
    *out = 0;
    for (int p = 0; p < KERF_PLANES; p++) {
        if (g.plane[p].dtype == KERF_DTYPE_NONE) continue;
        *out += (double)g.plane[p].bytes * (g.plane[p].per_matrix ? matrices : rows);
    }
    return KERF_OK;
}

kerf_status kerf_matmul_work(const kerf_hardware *h, const kerf_matmul *m, kerf_work *out,
                             kerf_error *err)
{
    kerf_geometry g;
    double matrices = m->matrices > 0 ? m->matrices : 1;
    *out = (kerf_work){.format = m->format};
    if (m->n == 0 || m->k == 0 || !(m->rows > 0)) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "an empty matrix product");
    }
    KF_TRY(kerf_geometry_init(&g, m->format, &(kerf_shape){2, {m->n, m->k}}, err));
    KF_TRY(row_bytes(m->activations, m->k, m->rows, matrices, &out->input_bytes, err));
    double n = (double)m->n, k = (double)m->k;
    out->weights = n * k * matrices;
    out->outputs = n * matrices;
    out->weight_bytes = (double)g.bytes * matrices;
    out->output_bytes = n * m->rows * (m->output_bits ? m->output_bits : 16) / 8;
    out->flops = 2 * n * k * m->rows;
    out->rows = m->rows;
    out->tiles = ceil(n / TILE) * ceil(m->rows / matrices / TILE) * matrices;
    out->peak_tflops = h ? kerf_peak_tflops(h, m->format, m->activations) : 0;
    return KERF_OK;
}

/* --- the formula --------------------------------------------------------------------------- */

typedef struct roofs {
    double fixed_us, bandwidth_gbps, decode_gweights, tflops; /* a rate of 0: no roof */
    double wave_rows, wave_gbps, input_gbps;                  /* as in kerf_fit       */
} roofs;

/* x units at `rate` 10^9/s, in us. */
static double time_us(double x, double rate)
{
    return rate > 0 ? x / rate * 1e-3 : 0;
}

double kf_whole_waves(const kerf_work *w, double wave_rows)
{
    return wave_rows > 0 && w->outputs > 0 ? ceil(w->outputs / wave_rows) * wave_rows / w->outputs
                                           : 0;
}

static double apply_roofs(const roofs *r, const kerf_work *w, kerf_prediction *parts)
{
    double memory = time_us(kerf_work_bytes(w), r->bandwidth_gbps);
    double waves = kf_whole_waves(w, r->wave_rows);
    memory = fmax(memory, time_us(w->weight_bytes * waves, r->wave_gbps));
    double decode = time_us(w->weights, r->decode_gweights);
    double math = time_us(w->flops, r->tflops * 1e3);
    double largest = fmax(memory, fmax(decode, math));
    double fixed = r->fixed_us + time_us(w->input_bytes, r->input_gbps);
    if (parts) {
        parts->fixed_us = fixed;
        parts->memory_us = memory;
        parts->decode_us = decode;
        parts->math_us = math;
        parts->bound = memory >= largest   ? KERF_BOUND_MEMORY
                       : decode >= largest ? KERF_BOUND_DECODE
                                           : KERF_BOUND_MATH;
        if (fixed > largest) parts->bound = KERF_BOUND_FIXED;
    }
    return fixed + largest;
}

/* --- spec-only ----------------------------------------------------------------------------- */

static double spec_decode_rate(const kerf_hardware *h, const kerf_work *w, int worst)
{
    double lanes = h->fact[KERF_FACT_LANES].value * h->fact[KERF_FACT_SMS].value *
                   h->fact[KERF_FACT_CLOCK].value * 1e-3; /* 10^9/s */
    for (size_t i = 0; w->format && i < sizeof spec_decode / sizeof *spec_decode; i++) {
        if (spec_decode[i].element == w->format->element) {
            return lanes / spec_decode[i].lanes[worst];
        }
    }
    return 0;
}

/* Whole waves of tiles over the multiprocessors: the last one is rarely full. Only the worst case
 * pays for it; kernels that split along k or run persistently avoid it. */
static double wave_share(const kerf_hardware *h, const kerf_work *w)
{
    double sms = h->fact[KERF_FACT_SMS].value;
    if (sms == 0 || w->tiles == 0 || strcmp(h->kind, "gpu") != 0) return 1;
    return w->tiles / (ceil(w->tiles / sms) * sms);
}

static void predict_spec(const kerf_hardware *h, const kerf_work *w, kerf_prediction *out)
{
    const spec_share *s = &spec_shares[strcmp(h->kind, "cpu") == 0];
    double bandwidth = h->fact[KERF_FACT_BANDWIDTH].value;
    double best_bandwidth = fmax(s->bandwidth[0] * bandwidth, h->fact[KERF_FACT_STREAM].value);
    roofs best = {.fixed_us = s->fixed_us[0],
                  .bandwidth_gbps = best_bandwidth,
                  .decode_gweights = spec_decode_rate(h, w, 0),
                  .tflops = s->math[0] * w->peak_tflops};
    roofs worst = {.fixed_us = s->fixed_us[1],
                   .bandwidth_gbps = s->bandwidth[1] * bandwidth,
                   .decode_gweights = spec_decode_rate(h, w, 1),
                   .tflops = s->math[1] * w->peak_tflops * wave_share(h, w)};
    out->tier = KERF_TIER_SPEC;
    out->low_us = apply_roofs(&best, w, out);
    out->high_us = apply_roofs(&worst, w, NULL);
    out->us = sqrt(out->low_us * out->high_us);
}

/* --- fitted -------------------------------------------------------------------------------- */

static const kerf_fit *find_fit(const kerf_hardware *h, const kerf_format *format, double rows)
{
    for (size_t i = 0; format && i < h->fits; i++) {
        const kerf_fit *f = &h->fit[i];
        if (strcmp(f->format, format->name) == 0 && rows >= (double)f->batch_min &&
            rows <= (double)f->batch_max) {
            return f;
        }
    }
    return NULL;
}

static roofs fitted_roofs(const kerf_fit *f, const kerf_work *w)
{
    double tflops = f->tflops > 0 ? f->tflops : w->peak_tflops;
    return (roofs){f->fixed_us,  f->bandwidth_gbps, f->decode_gweights, tflops,
                   f->wave_rows, f->wave_gbps,      f->input_gbps};
}

static void predict_fitted(const kerf_fit *f, const kerf_work *w, kerf_prediction *out)
{
    roofs r = fitted_roofs(f, w);
    out->tier = KERF_TIER_FITTED;
    out->us = apply_roofs(&r, w, out);
    out->low_us = out->us / (1 + f->error_p90);
    out->high_us = out->us * (1 + f->error_p90);
}

static void set_ridge(const kerf_hardware *h, const kerf_work *w, kerf_prediction *out)
{
    out->intensity = kerf_work_intensity(w);
    out->ridge = w->peak_tflops * 1e3 / h->fact[KERF_FACT_BANDWIDTH].value;
}

void kerf_predict_work(const kerf_hardware *h, const kerf_work *w, kerf_prediction *out)
{
    const kerf_fit *fit = find_fit(h, w->format, w->rows);
    *out = (kerf_prediction){0};
    if (fit) {
        predict_fitted(fit, w, out);
    } else {
        predict_spec(h, w, out);
    }
    set_ridge(h, w, out);
}

/* --- table --------------------------------------------------------------------------------- */

/* Place of x on an ascending axis: index of the left neighbour and the share of the right one,
 * both in logarithms; *outside is set when x lies beyond an end, which then stands for it. */
static size_t place_on(const double *axis, size_t count, double x, double *share, int *outside)
{
    size_t i = 0;
    *share = 0;
    if (x < axis[0] || x > axis[count - 1]) *outside = 1;
    if (count == 1 || x <= axis[0]) return 0;
    if (x >= axis[count - 1]) {
        *share = 1;
        return count - 2;
    }
    while (x > axis[i + 1]) i++;
    *share = log(x / axis[i]) / log(axis[i + 1] / axis[i]);
    return i;
}

/* What times are compared with: the kernel's fit, or bytes where it has none. The ratio is what
 * varies slowly between shapes. */
static double log_base(const kerf_fit *f, const kerf_work *w)
{
    if (!f) return log(kerf_work_bytes(w));
    roofs r = fitted_roofs(f, w);
    return log(apply_roofs(&r, w, NULL));
}

static kerf_status log_excess(const kerf_hardware *h, const kerf_matmul *m, const kerf_anchors *t,
                              size_t row, size_t column, double *out, kerf_error *err)
{
    kerf_work w;
    kerf_matmul at = *m;
    at.n = (uint64_t)t->n[row];
    at.k = (uint64_t)t->k[column];
    at.rows = (double)t->batch;
    KF_TRY(kerf_matmul_work(h, &at, &w, err));
    *out = log(t->us[row * t->columns + column]) - log_base(find_fit(h, m->format, at.rows), &w);
    return KERF_OK;
}

/* log of the time that a table says this product takes, whose work is w. */
static kerf_status interpolate(const kerf_hardware *h, const kerf_matmul *m, const kerf_anchors *t,
                               const kerf_work *w, double *log_us, int *outside, kerf_error *err)
{
    double x, y, corner[2][2] = {{0}};
    size_t row = place_on(t->n, t->rows, (double)m->n, &y, outside);
    size_t column = place_on(t->k, t->columns, (double)m->k, &x, outside);
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < 2; j++) {
            size_t r = row + i < t->rows ? row + i : row;
            size_t c = column + j < t->columns ? column + j : column;
            KF_TRY(log_excess(h, m, t, r, c, &corner[i][j], err));
        }
    }
    *log_us = (1 - y) * ((1 - x) * corner[0][0] + x * corner[0][1]) +
              y * ((1 - x) * corner[1][0] + x * corner[1][1]);
    *log_us += log_base(find_fit(h, m->format, (double)t->batch), w);
    return KERF_OK;
}

/* The tables of this format at the nearest batches below and above; NULL where there is none. */
static void find_tables(const kerf_hardware *h, const kerf_matmul *m, const kerf_anchors **below,
                        const kerf_anchors **above)
{
    *below = *above = NULL;
    for (size_t i = 0; i < h->tables; i++) {
        const kerf_anchors *t = &h->anchors[i];
        double batch = (double)t->batch;
        if (strcmp(t->format, m->format->name) != 0) continue;
        if (batch <= m->rows && (!*below || t->batch > (*below)->batch)) *below = t;
        if (batch >= m->rows && (!*above || t->batch < (*above)->batch)) *above = t;
    }
}

/* *found is 0 when no table speaks of this product. */
static kerf_status predict_table(const kerf_hardware *h, const kerf_matmul *m, const kerf_work *w,
                                 kerf_prediction *out, int *found, kerf_error *err)
{
    const kerf_anchors *below, *above;
    double log_us, other;
    const kerf_fit *fit = find_fit(h, m->format, m->rows);
    int outside = 0;
    *found = 0;
    if (m->activations || (m->matrices > 0 && m->matrices != 1)) return KERF_OK;
    find_tables(h, m, &below, &above);
    if (!below || !above) return KERF_OK;
    KF_TRY(interpolate(h, m, below, w, &log_us, &outside, err));
    if (above != below) {
        double share =
            log(m->rows / (double)below->batch) / log((double)above->batch / (double)below->batch);
        KF_TRY(interpolate(h, m, above, w, &other, &outside, err));
        log_us += share * (other - log_us);
    }
    if (outside && fit) return KERF_OK;
    if (fit) { /* for the parts */
        predict_fitted(fit, w, out);
    } else {
        predict_spec(h, w, out);
    }
    out->tier = KERF_TIER_TABLE;
    out->us = out->low_us = out->high_us = exp(log_us);
    out->extrapolated = outside;
    *found = 1;
    return KERF_OK;
}

kerf_status kerf_predict(const kerf_hardware *h, const kerf_matmul *m, kerf_prediction *out,
                         kerf_error *err)
{
    kerf_work w;
    int found = 0;
    *out = (kerf_prediction){0};
    KF_TRY(kerf_matmul_work(h, m, &w, err));
    KF_TRY(predict_table(h, m, &w, out, &found, err));
    if (!found) kerf_predict_work(h, &w, out);
    set_ridge(h, &w, out);
    return KERF_OK;
}

void kerf_prediction_add(kerf_prediction *sum, const kerf_prediction *p, double times)
{
    int first = sum->us == 0;
    sum->us += times * p->us;
    sum->low_us += times * p->low_us;
    sum->high_us += times * p->high_us;
    sum->fixed_us += times * p->fixed_us;
    sum->memory_us += times * p->memory_us;
    sum->decode_us += times * p->decode_us;
    sum->math_us += times * p->math_us;
    sum->extrapolated |= p->extrapolated;
    if (first || p->tier < sum->tier) sum->tier = p->tier; /* as sure as its least sure part */
}
