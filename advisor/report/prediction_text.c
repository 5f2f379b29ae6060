/* prediction_text.c - predicted times for people: of products, of a model's steps, and beside
 * measured ones. */
#include <kerf/predictions.h>

#include "base/text_page.h"

/* Two cells, tier and time: a point, or a band where the data sheet is all that is known. */
static void put_time(kf_page *p, const kerf_prediction *t)
{
    kf_table_cell(p, "%s%s", kerf_tier_name(t->tier), t->extrapolated ? " (edge)" : "");
    if (t->tier == KERF_TIER_SPEC) {
        kf_table_cell(p, "%.2f..%.2f", t->low_us, t->high_us);
    } else {
        kf_table_cell(p, "%.2f", t->us);
    }
}

static void put_shape(kf_page *p, uint64_t n, uint64_t k)
{
    kf_table_cell(p, "%llux%llu", (unsigned long long)n, (unsigned long long)k);
}

static void put_tier_note(kf_page *p, const kerf_hardware *h)
{
    if (h->fits || h->tables) return;
    fprintf(p->to,
            "\nspec-only: from the data sheet of %s; a band that careful kernels\n"
            "fall into, no measurement. Cold weights; all scales, activations and results\n"
            "are counted.\n",
            kf_page_plain(p, h->name));
}

/* --- matrix products ----------------------------------------------------------------------- */

static void put_products(kf_page *p, const void *ctx)
{
    const kerf_product_outlooks *all = ctx;
    kf_table_begin(p, "NxK|>batch|format|+>MB|tier|>us|+>flop/B|+>ridge|bound|>vs bf16");
    for (size_t i = 0; i < all->rows; i++) {
        const kerf_product_outlook *o = &all->row[i];
        put_shape(p, o->shape.n, o->shape.k);
        kf_table_cell(p, "%u", o->batch);
        kf_table_cell(p, "%s", o->format->name);
        kf_table_cell(p, "%.3f", kerf_work_bytes(&o->work) * 1e-6);
        put_time(p, &o->time);
        kf_table_cell(p, "%.2f", o->time.intensity);
        kf_table_cell(p, "%.0f", o->time.ridge);
        kf_table_cell(p, "%s", kerf_bound_name(o->time.bound));
        kf_table_cell(p, "%.2f", o->speedup);
    }
    kf_table_end(p);
    put_tier_note(p, all->request.hardware);
}

kerf_status kerf_product_outlooks_text(const kerf_product_outlooks *o, const kerf_text_form *form,
                                       char **text, size_t *n, kerf_error *err)
{
    return kf_page_print(put_products, o, form, text, n, err);
}

/* --- steps of a model ---------------------------------------------------------------------- */

static void put_step(kf_page *p, const kerf_step_outlook *o, unsigned gpus)
{
    static const char *const fits[] = {"?", "no", "yes"};
    const kerf_step *s = &o->step;
    kf_table_cell(p, "%s", o->format->name);
    kf_table_cell(p, "%u", o->batch);
    kf_table_cell(p, "%.2f", o->weight_bytes * 1e-9);
    kf_table_cell(p, "%.2f", o->cache_bytes * 1e-9);
    if (gpus > 1) kf_table_cell(p, "%.2f", o->gpu_bytes * 1e-9);
    kf_table_cell(p, "%s", fits[o->fits + 1]);
    kf_table_cell(p, "%.2f", s->bytes * 1e-9);
    kf_table_cell(p, "%s", kerf_tier_name(s->time.tier));
    if (s->time.tier == KERF_TIER_SPEC) {
        kf_table_cell(p, "%.2f..%.2f", s->time.low_us * 1e-3, s->time.high_us * 1e-3);
        kf_table_cell(p, "%.0f..%.0f", s->tokens_per_s[0], s->tokens_per_s[1]);
    } else {
        kf_table_cell(p, "%.2f", s->time.us * 1e-3);
        kf_table_cell(p, "%.0f", s->tokens_per_s[1] * s->time.low_us / s->time.us);
    }
    if (o->crossover < 1e15)
        kf_table_cell(p, "%.0f", o->crossover);
    else
        kf_table_cell(p, "never");
}

static void put_operators(kf_page *p, const kerf_step *s)
{
    fprintf(p->to, "\n");
    kf_table_begin(p, "operator|>times|>MB|+>Gflop|tier|>us each|+>flop/B|bound|>share");
    for (size_t i = 0; i < s->ops; i++) {
        const kerf_operator *op = &s->op[i];
        kf_table_cell(p, "%s", op->name);
        kf_table_cell(p, "%.0f", op->count);
        kf_table_cell(p, "%.3f", kerf_work_bytes(&op->work) * 1e-6);
        kf_table_cell(p, "%.4f", op->work.flops * 1e-9);
        put_time(p, &op->time);
        kf_table_cell(p, "%.2f", op->time.intensity);
        kf_table_cell(p, "%s", kerf_bound_name(op->time.bound));
        kf_table_cell(p, "%.1f %%", 100 * op->count * op->time.us / s->time.us);
    }
    kf_table_end(p);
}

/* What all rows are of. */
static void put_request(kf_page *p, const kerf_steps_request *r)
{
    const kerf_model *m = r->model;
    fprintf(p->to,
            "%s: %.3f G parameters, %.3f G pass per token,\n%.0f KV elements per token; %s on %s,\n"
            "%s %.0f tokens\n\n",
            m->type, kerf_model_parameters(m) * 1e-9, kerf_model_active(m) * 1e-9,
            kerf_model_kv_elements(m), r->prefill ? "prefill" : "decode",
            kf_page_plain(p, r->hardware->name), r->prefill ? "prompts of" : "context of",
            r->context);
    if (m->estimated)
        fprintf(p->to,
                "an estimate: of model_type %s only the sizes are known, the rest is as in most "
                "models\n\n",
                kf_page_plain(p, m->type));
    if (r->gpus > 1)
        fprintf(p->to, "on %u GPUs, which exchange what the operators at the end say\n\n", r->gpus);
}

static void put_steps(kf_page *p, const void *ctx)
{
    const kerf_step_outlooks *all = ctx;
    const kerf_steps_request *r = &all->request;
    put_request(p, r);
    kf_table_begin(p, r->gpus > 1
                          ? "format|>batch|>GB|>cache GB|>GB a GPU|fits|+>GB/step|tier|>ms/step|>"
                            "tokens/s|+>crossover"
                          : "format|>batch|>GB|>cache GB|fits|+>GB/step|tier|>ms/step|>"
                            "tokens/s|+>crossover");
    for (size_t i = 0; i < all->rows; i++) put_step(p, &all->row[i], r->gpus);
    kf_table_end(p);
    if (all->rows == 1) put_operators(p, &all->row[0].step);
    fprintf(p->to, "\ncrossover: the context at which a step reads as much cache as weights.\n");
    put_tier_note(p, r->hardware);
}

kerf_status kerf_step_outlooks_text(const kerf_step_outlooks *o, const kerf_text_form *form,
                                    char **text, size_t *n, kerf_error *err)
{
    return kf_page_print(put_steps, o, form, text, n, err);
}

/* --- beside measured times ----------------------------------------------------------------- */

static void put_compared(kf_page *p, const kerf_comparison *c)
{
    kf_table_begin(p, "NxK|>batch|format|tier|>predicted us|>measured us|>off|+in band");
    for (size_t i = 0; i < c->count; i++) {
        const kerf_compared_time *x = &c->item[i];
        put_shape(p, x->measured.product.n, x->measured.product.k);
        kf_table_cell(p, "%.0f", x->measured.product.rows);
        kf_table_cell(p, "%s", x->measured.product.format->name);
        put_time(p, &x->predicted);
        kf_table_cell(p, "%.2f", x->measured.us);
        kf_table_cell(p, "%+.1f %%", 100 * (x->ratio - 1));
        kf_table_cell(p, "%s", !x->banded ? "-" : x->inside ? "yes" : "no");
    }
    kf_table_end(p);
}

static void put_errors(kf_page *p, const char *name, const kerf_time_errors *s)
{
    kf_table_cell(p, "%s", name);
    kf_table_cell(p, "%zu", s->count);
    kf_table_cell(p, "%.1f %%", 100 * s->median);
    kf_table_cell(p, "%.1f %%", 100 * s->p90);
    kf_table_cell(p, "%.1f %%", 100 * s->worst);
    kf_table_cell(p, "%.0f %%", 100 * s->within_10);
    if (s->banded) {
        kf_table_cell(p, "%.0f %%", 100 * s->inside);
        kf_table_cell(p, "%.1f", s->width);
    } else {
        kf_table_cell(p, "-");
        kf_table_cell(p, "-");
    }
}

static void put_comparison(kf_page *p, const void *ctx)
{
    const kerf_comparison *c = ctx;
    put_compared(p, c);
    fprintf(p->to, "\n");
    kf_table_begin(p, "format|>shapes|>median off|>p90|>worst|>within 10 %|+>in band|+>its width");
    for (size_t i = 0; i < c->formats; i++)
        put_errors(p, c->format[i].format->name, &c->format[i].errors);
    kf_table_rule(p);
    put_errors(p, "all", &c->all);
    kf_table_end(p);
}

kerf_status kerf_comparison_text(const kerf_comparison *c, const kerf_text_form *form, char **text,
                                 size_t *n, kerf_error *err)
{
    return kf_page_print(put_comparison, c, form, text, n, err);
}
