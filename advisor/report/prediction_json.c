/* prediction_json.c - predicted times for programs: of products, of a model's steps, and beside
 * measured ones. */
#include "report/prediction_json.h"

#include <kerf/predictions.h>
#include <kerf/words.h>

#include "report/ci_text.h"

void kf_prediction_json(json_t **row, const kerf_prediction *p)
{
    kf_json_set(row, "tier", json_string(kerf_tier_name(p->tier)));
    kf_json_set(row, "low_us", kf_json_number(p->low_us));
    kf_json_set(row, "us", kf_json_number(p->us));
    kf_json_set(row, "high_us", kf_json_number(p->high_us));
    kf_json_set(row, "fixed_us", kf_json_number(p->fixed_us));
    kf_json_set(row, "memory_us", kf_json_number(p->memory_us));
    kf_json_set(row, "decode_us", kf_json_number(p->decode_us));
    kf_json_set(row, "math_us", kf_json_number(p->math_us));
    kf_json_set(row, "intensity", kf_json_number(p->intensity));
    kf_json_set(row, "ridge", kf_json_number(p->ridge));
    kf_json_set(row, "bound", json_string(kerf_bound_name(p->bound)));
    if (p->extrapolated) kf_json_set(row, "extrapolated", json_true());
}

/* --- matrix products ----------------------------------------------------------------------- */

static json_t *products_json(const kerf_product_outlooks *all)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < all->rows; i++) {
        const kerf_product_outlook *o = &all->row[i];
        json_t *row = json_pack("{s:I, s:I, s:I, s:s}", "n", (json_int_t)o->shape.n, "k",
                                (json_int_t)o->shape.k, "batch", (json_int_t)o->batch, "format",
                                o->format->name);
        kf_prediction_json(&row, &o->time);
        kf_json_set(&row, "weight_bytes", json_real(o->work.weight_bytes));
        kf_json_set(&row, "bytes", json_real(kerf_work_bytes(&o->work)));
        kf_json_set(&row, "flops", json_real(o->work.flops));
        kf_json_set(&row, "speedup", json_real(o->speedup));
        kf_json_add(&rows, row);
    }
    return json_pack("{s:s, s:s, s:f, s:o}", "schema", "kerf.predict/1", "hardware",
                     all->request.hardware->name, "matrices", all->request.matrices, "predictions",
                     rows);
}

static void put_products(FILE *to, const void *ctx)
{
    const kerf_product_outlooks *all = ctx;
    char machine[4096]; /* longer names are cut */
    kerf_text_printable(all->request.hardware->name, machine, sizeof machine);
    fprintf(to, "hardware,n,k,batch,matrices,format,tier,low_us,us,high_us,bytes,flops,intensity,"
                "ridge,bound,speedup\n");
    for (size_t i = 0; i < all->rows; i++) {
        const kerf_product_outlook *o = &all->row[i];
        const kerf_prediction *p = &o->time;
        fprintf(to, "%s,%llu,%llu,%u,%.0f,%s,%s,%.4f,%.4f,%.4f,%.0f,%.0f,%.4f,%.2f,%s,%.4f\n",
                machine, (unsigned long long)o->shape.n, (unsigned long long)o->shape.k, o->batch,
                all->request.matrices, o->format->name, kerf_tier_name(p->tier), p->low_us, p->us,
                p->high_us, kerf_work_bytes(&o->work), o->work.flops, p->intensity, p->ridge,
                kerf_bound_name(p->bound), o->speedup);
    }
}

kerf_status kerf_product_outlooks_write(const kerf_product_outlooks *o, kerf_outlook_kind kind,
                                        char **text, size_t *n, kerf_error *err)
{
    if (kind == KERF_OUTLOOK_CSV) return kf_ci_print(put_products, o, text, n, err);
    return kf_json_write(products_json(o), JSON_INDENT(2), text, n, err);
}

/* --- steps of a model ---------------------------------------------------------------------- */

static json_t *operators_json(const kerf_step *s)
{
    json_t *all = json_array();
    for (size_t i = 0; i < s->ops; i++) {
        const kerf_operator *op = &s->op[i];
        json_t *row = json_pack("{s:s, s:f, s:f, s:f, s:f}", "name", op->name, "count", op->count,
                                "bytes", kerf_work_bytes(&op->work), "weight_bytes",
                                op->work.weight_bytes, "flops", op->work.flops);
        kf_prediction_json(&row, &op->time);
        kf_json_add(&all, row);
    }
    return all;
}

static json_t *step_json(const kerf_step_outlook *o)
{
    const kerf_step *s = &o->step;
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:s, s:f, s:f, s:f, s:[f, f], s:o, "
                     "s:o}",
                     "format", o->format->name, "batch", (double)o->batch, "weight_bytes",
                     o->weight_bytes, "cache_bytes", o->cache_bytes, "gpu_bytes", o->gpu_bytes,
                     "fits", o->fits < 0 ? json_null() : json_boolean(o->fits), "step_bytes",
                     s->bytes, "step_flops", s->flops, "tier", kerf_tier_name(s->time.tier),
                     "low_us", s->time.low_us, "us", s->time.us, "high_us", s->time.high_us,
                     "tokens_per_s", s->tokens_per_s[0], s->tokens_per_s[1], "crossover_tokens",
                     kf_json_number(o->crossover), "operators", operators_json(s));
}

static const char *phase_of(const kerf_steps_request *r)
{
    return r->prefill ? "prefill" : "decode";
}

static json_t *steps_json(const kerf_step_outlooks *all)
{
    const kerf_steps_request *r = &all->request;
    json_t *rows = json_array();
    for (size_t i = 0; i < all->rows; i++) kf_json_add(&rows, step_json(&all->row[i]));
    return json_pack("{s:s, s:s, s:o, s:s, s:f, s:f, s:f, s:s, s:f, s:o, s:i, s:b}", "schema",
                     "kerf.predict-model/1", "hardware", r->hardware->name, "config",
                     kf_json_path(r->config), "type", r->model->type, "parameters",
                     kerf_model_parameters(r->model), "active_parameters",
                     kerf_model_active(r->model), "kv_elements_per_token",
                     kerf_model_kv_elements(r->model), "phase", phase_of(r), "context", r->context,
                     "predictions", rows, "gpus", (int)r->gpus, "estimated", r->model->estimated);
}

static void put_steps(FILE *to, const void *ctx)
{
    const kerf_step_outlooks *all = ctx;
    const kerf_steps_request *r = &all->request;
    char machine[4096]; /* longer names are cut */
    kerf_text_printable(r->hardware->name, machine, sizeof machine);
    fprintf(to, "type,hardware,phase,batch,context,format,weight_bytes,cache_bytes,fits,step_bytes,"
                "step_flops,tier,low_us,us,high_us,tokens_per_s_low,tokens_per_s_high,"
                "crossover_tokens\n");
    for (size_t i = 0; i < all->rows; i++) {
        const kerf_step_outlook *o = &all->row[i];
        const kerf_step *s = &o->step;
        fprintf(to, "%s,%s,%s,%u,%.0f,%s,%.0f,%.0f,%d,%.0f,%.0f,%s,%.3f,%.3f,%.3f,%.2f,%.2f,%.1f\n",
                r->model->type, machine, phase_of(r), o->batch, r->context, o->format->name,
                o->weight_bytes, o->cache_bytes, o->fits, s->bytes, s->flops,
                kerf_tier_name(s->time.tier), s->time.low_us, s->time.us, s->time.high_us,
                s->tokens_per_s[0], s->tokens_per_s[1], o->crossover);
    }
}

kerf_status kerf_step_outlooks_write(const kerf_step_outlooks *o, kerf_outlook_kind kind,
                                     char **text, size_t *n, kerf_error *err)
{
    if (kind == KERF_OUTLOOK_CSV) return kf_ci_print(put_steps, o, text, n, err);
    return kf_json_write(steps_json(o), JSON_INDENT(2), text, n, err);
}

/* --- beside measured times ----------------------------------------------------------------- */

static json_t *errors_json(const char *name, const kerf_time_errors *s)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f}", "format", name, "shapes",
                     (json_int_t)s->count, "median", s->median, "p90", s->p90, "worst", s->worst,
                     "within_10_percent", s->within_10, "banded", (json_int_t)s->banded, "in_band",
                     s->inside, "band_width", s->width);
}

kerf_status kerf_comparison_write(const kerf_comparison *c, const char *bench, char **text,
                                  size_t *n, kerf_error *err)
{
    json_t *rows = json_array(), *formats = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const kerf_compared_time *x = &c->item[i];
        const kerf_matmul *m = &x->measured.product;
        json_t *row =
            json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:b}", "format", m->format->name, "n",
                      (json_int_t)m->n, "k", (json_int_t)m->k, "batch", m->rows, "measured_us",
                      x->measured.us, "ratio", x->ratio, "in_band", x->inside);
        kf_prediction_json(&row, &x->predicted);
        kf_json_add(&rows, row);
    }
    for (size_t i = 0; i < c->formats; i++)
        kf_json_add(&formats, errors_json(c->format[i].format->name, &c->format[i].errors));
    json_t *doc = json_pack("{s:s, s:o, s:s, s:o, s:o, s:o}", "schema", "kerf.compare/1", "bench",
                            kf_json_path(bench), "hardware", c->hardware->name, "all",
                            errors_json("all", &c->all), "formats", formats, "results", rows);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}
