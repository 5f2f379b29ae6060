/* terms.c - from the work of a product to the plan of the kernel that does it, and to the fit that
 * predicts it. */
#include "machine/terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int kf_find_outline(const kerf_hardware *h, const kerf_work *w, kf_gemv_outline *out)
{
    const double most = 1e9; /* of anything that is counted here */
    double sms = h ? h->fact[KERF_FACT_SMS].value : 0;
    *out = (kf_gemv_outline){.end = KF_GEMV_END_ANY};
    if (!w->format || !(sms >= 1 && sms < 1e6) || strcmp(h->kind, "gpu") != 0) return 0;
    if (w->matrices != 1 || !(w->rows >= 1 && w->rows <= 16)) return 0;
    if (!(w->outputs >= 1 && w->outputs < most && w->inputs >= 1 && w->inputs < most)) return 0;
    kf_gemv_machine m =
        kf_gemv_machine_of(h->arch, (unsigned)sms, h->fact[KERF_FACT_BANDWIDTH].value);
    kf_gemv_apply(&m.tuning, h->tuning);
    return kf_gemv_outline_of(w->format, (uint64_t)w->outputs, (uint64_t)w->inputs,
                              (unsigned)w->rows, &m, out) == KERF_OK;
}

double kf_plan_us(const kerf_fit *f, const kf_gemv_outline *o)
{
    if ((int)o->end >= KERF_ROW_ENDS) return 0;
    return f->input_us * o->inputs / 1024 + f->round_us[o->end] * o->rounds +
           f->stage_us[o->end] * o->stages;
}

double kf_plan_launches(const kf_gemv_outline *o)
{
    return (int)o->end >= KERF_ROW_ENDS ? 1 : o->launches;
}

kerf_work kf_plan_work(const kf_gemv_outline *o, const kerf_work *w)
{
    kerf_work all = *w;
    all.weights *= kf_plan_launches(o);
    all.weight_bytes *= kf_plan_launches(o);
    return all;
}

const kerf_fit *kf_find_fit(const kerf_hardware *h, const kerf_format *format, double rows)
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

static int by_value(const void *a, const void *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    return (*x > *y) - (*x < *y);
}

void kf_spread(double *v, size_t n, double *median, double *p90)
{
    qsort(v, n, sizeof *v, by_value);
    *median = (v[(n - 1) / 2] + v[n / 2]) / 2;
    *p90 = v[(size_t)ceil(0.9 * (double)n) - 1];
}
