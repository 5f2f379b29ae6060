/* hardware_json.c - a machine as a JSON document, schema kerf.hardware/1: what hardware_file.c
 * reads. */
#include <kerf/hardware.h>

#include <jansson.h>

#include "base/base.h"
#include "file/json/json_text.h"

static json_t *facts_json(const kerf_hardware *h)
{
    json_t *all = json_object();
    for (kerf_fact_id id = 0; id < KERF_FACT_COUNT; id++) {
        const kerf_fact *f = &h->fact[id];
        if (f->value == 0) continue;
        json_t *row = json_pack("{s:f, s:s, s:s, s:s}", "value", f->value, "unit",
                                kerf_fact_unit(id), "source", f->source, "date", f->date);
        if (f->unverified) kf_json_set(&row, "unverified", json_true());
        kf_json_set(&all, kerf_fact_key(id), row);
    }
    return all;
}

static void put_rate(json_t **row, const char *key, double value)
{
    if (value > 0) kf_json_set(row, key, json_real(value));
}

static json_t *numbers_json(const double *x, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) kf_json_add(&a, json_real(x[i]));
    return a;
}

/* Left out where all are 0. */
static void put_by_end(json_t **row, const char *key, const double x[KERF_ROW_ENDS])
{
    for (int i = 0; i < KERF_ROW_ENDS; i++) {
        if (x[i] == 0) continue;
        kf_json_set(row, key, numbers_json(x, KERF_ROW_ENDS));
        return;
    }
}

static json_t *fits_json(const kerf_hardware *h)
{
    json_t *all = json_array();
    for (size_t i = 0; i < h->fits; i++) {
        const kerf_fit *f = &h->fit[i];
        json_t *row = json_pack("{s:s, s:[I, I], s:f, s:f}", "format", f->format, "batch",
                                (json_int_t)f->batch_min, (json_int_t)f->batch_max, "fixed_us",
                                f->fixed_us, "bandwidth_gbps", f->bandwidth_gbps);
        put_rate(&row, "decode_gweights", f->decode_gweights);
        put_rate(&row, "tflops", f->tflops);
        put_rate(&row, "input_us", f->input_us);
        put_by_end(&row, "round_us", f->round_us);
        put_by_end(&row, "stage_us", f->stage_us);
        put_rate(&row, "error_median", f->error_median);
        put_rate(&row, "error_p90", f->error_p90);
        kf_json_set(&row, "source", json_string(f->source));
        kf_json_set(&row, "date", json_string(f->date));
        kf_json_add(&all, row);
    }
    return all;
}

static json_t *tables_json(const kerf_hardware *h)
{
    json_t *all = json_array();
    for (size_t i = 0; i < h->tables; i++) {
        const kerf_anchors *t = &h->anchors[i];
        json_t *row = json_pack("{s:s, s:I, s:o, s:o, s:o}", "format", t->format, "batch",
                                (json_int_t)t->batch, "n", numbers_json(t->n, t->count), "k",
                                numbers_json(t->k, t->count), "us", numbers_json(t->us, t->count));
        put_rate(&row, "error_median", t->error_median);
        put_rate(&row, "error_p90", t->error_p90);
        kf_json_set(&row, "source", json_string(t->source));
        kf_json_set(&row, "date", json_string(t->date));
        kf_json_add(&all, row);
    }
    return all;
}

/* Factors that are none are left out. */
static json_t *tuning_json(const kerf_hardware *h)
{
    json_t *factors = json_object();
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++) {
        double f = h->tuning->factor[i];
        if (f == 0 || f == 1) continue;
        kf_json_set(&factors, kerf_gemv_factor_key((kerf_gemv_factor)i), json_real(f));
    }
    unsigned rules = h->tuning->rules ? h->tuning->rules : KERF_GEMV_RULES;
    return json_pack("{s:o, s:I, s:s, s:s}", "factors", factors, "rules", (json_int_t)rules,
                     "source", h->tuning_source, "date", h->tuning_date);
}

static json_t *machine_json(const kerf_hardware *h)
{
    json_t *doc =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "name", h->name, "title",
                  h->title, "kind", h->kind, "arch", h->arch, "native", h->native, "note", h->note,
                  "facts", facts_json(h), "fits", fits_json(h), "tables", tables_json(h));
    if (h->tuning) kf_json_set(&doc, "tuning", tuning_json(h));
    return doc;
}

kerf_status kerf_hardware_json(const kerf_hardware *h, char **out, kerf_error *err)
{
    json_t *doc = json_pack("{s:s}", "schema", "kerf.hardware/1"), *machine = machine_json(h);
    if (!machine || json_object_update(doc, machine) != 0) {
        json_decref(doc);
        doc = NULL;
    }
    json_decref(machine);
    if (kf_json_write(doc, JSON_INDENT(2), out, NULL, NULL) == KERF_OK) return KERF_OK;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE,
                   "no memory for the description of %.60s, or a text of it is not UTF-8", h->name);
}

kerf_status kerf_hardware_list_json(char **out, kerf_error *err)
{
    json_t *all = json_array();
    for (size_t i = 0; i < kerf_hardware_count(); i++)
        kf_json_add(&all, machine_json(kerf_hardware_at(i)));
    return kf_json_write(json_pack("{s:s, s:o}", "schema", "kerf.hardware-list/1", "hardware", all),
                         JSON_INDENT(2), out, NULL, err);
}
