/* roofline.c - times from roofs: what a product moves, decodes and multiplies, each divided by the
 * rate at which the machine does it; the slowest counts. kerf/predict.h has the formula, and the
 * three sources of rates, of which this file knows two: the data sheet, and fits. */
#include "machine/roofline.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "machine/terms.h"

/* What kernels draw from a machine of which only the data sheet is known, best and worst.
 *
 * GPU: mature kernels read 0.93 of the published bandwidth at most and 0.45 at 64 MB (seven
 * vendors' libraries on A100 to B200, one row of activations); a chain of dependent launches costs
 * 0.4 us per kernel, a launch in a graph 2.5 to 8. Dense products reach 0.4 to 0.9 of the peak.
 * Before a product of few rows of activations can begin, each block has to bring them in: at worst
 * in rounds of 256, one for each thread, that wait for memory one after the other, 0.6 us each (so
 * long took kerf's own on an H200 where rows end within a stage); at best beside the weights.
 * CPU: one socket, all cores; a parallel region costs 1 to 50 us. */
typedef struct spec_share {
    const char *kind;
    double fixed_us[2], bandwidth[2], math[2], round_us[2]; /* best, worst */
} spec_share;

static const spec_share spec_shares[] = {
    {"gpu", {0.4, 8}, {0.93, 0.45}, {0.90, 0.40}, {0, 0.6}},
    {"cpu", {1, 50}, {0.95, 0.30}, {0.90, 0.20}, {0, 0}},
};

enum { FEW_ROWS = 16, ROUND = 256 };

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

/* The width of the narrowest floating-point unit that multiplies such elements; 0: that is the bf16
 * unit. Integers have units of their own. */
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
    out->inputs = k;
    out->matrices = matrices;
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
} roofs;

/* x units at `rate` 10^9/s, in us. */
static double time_us(double x, double rate)
{
    return rate > 0 ? x / rate * 1e-3 : 0;
}

static double apply_roofs(const roofs *r, const kerf_work *w, kerf_prediction *parts)
{
    double memory = time_us(kerf_work_bytes(w), r->bandwidth_gbps);
    double decode = time_us(w->weights, r->decode_gweights);
    double math = time_us(w->flops, r->tflops * 1e3);
    double largest = fmax(memory, fmax(decode, math));
    if (parts) {
        parts->fixed_us = r->fixed_us;
        parts->memory_us = memory;
        parts->decode_us = decode;
        parts->math_us = math;
        parts->bound = memory >= largest   ? KERF_BOUND_MEMORY
                       : decode >= largest ? KERF_BOUND_DECODE
                                           : KERF_BOUND_MATH;
        if (r->fixed_us > largest) parts->bound = KERF_BOUND_FIXED;
    }
    return r->fixed_us + largest;
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

/* What it costs at worst that activations are needed first. */
static double spec_input_us(const kerf_work *w, double round_us)
{
    if (w->inputs == 0 || w->rows > FEW_ROWS * w->matrices) return 0;
    return round_us * ceil(w->inputs / ROUND);
}

static double worst_us(const kerf_hardware *h, const spec_share *s, const kerf_work *w)
{
    const roofs r = {.fixed_us = s->fixed_us[1] + spec_input_us(w, s->round_us[1]),
                     .bandwidth_gbps = s->bandwidth[1] * h->fact[KERF_FACT_BANDWIDTH].value,
                     .decode_gweights = spec_decode_rate(h, w, 1),
                     .tflops = s->math[1] * w->peak_tflops * wave_share(h, w)};
    return apply_roofs(&r, w, NULL);
}

/* The same product with so many rows of activations for each matrix. */
static kerf_work with_rows(const kerf_work *w, double rows)
{
    const double share = rows * w->matrices / w->rows;
    kerf_work other = *w;
    other.rows *= share;
    other.flops *= share;
    other.input_bytes *= share;
    other.output_bytes *= share;
    other.tiles = ceil(w->outputs / w->matrices / TILE) * ceil(rows / TILE) * w->matrices;
    return other;
}

/* One row more is never faster, though another kernel may take it and another wave be full. */
static double worst_of_fewer_us(const kerf_hardware *h, const spec_share *s, const kerf_work *w)
{
    const double rows[] = {FEW_ROWS, floor(w->rows / w->matrices / TILE) * TILE};
    double us = 0;
    for (size_t i = 0; w->inputs > 0 && i < sizeof rows / sizeof *rows; i++) {
        const kerf_work fewer = with_rows(w, rows[i]);
        if (rows[i] > 0 && fewer.rows < w->rows) us = fmax(us, worst_us(h, s, &fewer));
    }
    return us;
}

static void predict_spec(const kerf_hardware *h, const kerf_work *w, kerf_prediction *out)
{
    const spec_share *s = &spec_shares[strcmp(h->kind, "cpu") == 0];
    double bandwidth = h->fact[KERF_FACT_BANDWIDTH].value;
    double best_bandwidth = fmax(s->bandwidth[0] * bandwidth, h->fact[KERF_FACT_STREAM].value);
    roofs best = {.fixed_us = s->fixed_us[0] + spec_input_us(w, s->round_us[0]),
                  .bandwidth_gbps = best_bandwidth,
                  .decode_gweights = spec_decode_rate(h, w, 0),
                  .tflops = s->math[0] * w->peak_tflops};
    out->tier = KERF_TIER_SPEC;
    out->low_us = apply_roofs(&best, w, out);
    out->high_us = fmax(worst_us(h, s, w), worst_of_fewer_us(h, s, w));
    out->us = sqrt(out->low_us * out->high_us);
}

/* --- fitted -------------------------------------------------------------------------------- */

double kf_fitted_us(const kerf_hardware *h, const kerf_fit *f, const kerf_work *w,
                    kerf_prediction *parts)
{
    kf_gemv_outline plan;
    const int has_plan = kf_find_outline(h, w, &plan);
    const kerf_work all = kf_plan_work(&plan, w);
    roofs r = {.fixed_us = f->fixed_us * kf_plan_launches(&plan),
               .bandwidth_gbps = f->bandwidth_gbps,
               .decode_gweights = f->decode_gweights,
               .tflops = f->tflops > 0 ? f->tflops : w->peak_tflops};
    if (has_plan) r.fixed_us += kf_plan_us(f, &plan);
    return apply_roofs(&r, &all, parts);
}

static void predict_fitted(const kerf_hardware *h, const kerf_fit *f, const kerf_work *w,
                           kerf_prediction *out)
{
    out->tier = KERF_TIER_FITTED;
    out->us = kf_fitted_us(h, f, w, out);
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
    const kerf_fit *fit = kf_find_fit(h, w->format, w->rows);
    *out = (kerf_prediction){0};
    if (fit) {
        predict_fitted(h, fit, w, out);
    } else {
        predict_spec(h, w, out);
    }
    set_ridge(h, w, out);
}
