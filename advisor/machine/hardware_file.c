/* hardware_file.c - a machine from a JSON file, schema kerf.hardware/1.
 *
 *   {"schema": "kerf.hardware/1", "name": "mine", "kind": "gpu",
 *    "facts": {"bandwidth_gbps": {"value": 273, "source": "...", "date": "2026-11"}, ...},
 *    "fits": [{"format": "nvfp4", "batch": [1, 16], "fixed_us": 2.1, "bandwidth_gbps": 250,
 *              "decode_gweights": 900, "tflops": 60, "source": "...", "date": "..."}],
 *    "tables": [{"format": "nvfp4", "batch": 1, "n": [...], "k": [...], "us": [...],
 *                "source": "...", "date": "..."}],
 *    "tuning": {"factors": {"blocks_plain": 0.5, ...}, "rules": 1, "source": "...", "date": "..."}}
 *
 * n, k and us of a table are as long as each other: the i-th of each are one measured shape. A fit
 * of kerf's own products on a GPU may also have input_us, and round_us and stage_us as lists of
 * three: see kerf_fit. Factors of a tuning (of GPUs only) are those of kerf/gemv_tune.h; one that
 * is missing is 1.
 *
 * The file comes from people and from tools: a key that is not known is refused, and so is a number
 * outside of its limits. Texts are copied into the result. */
#include <kerf/hardware.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "file/json/json_read.h"
#include "machine/hardware_new.h"

enum { MAX_KERNELS = 4096, MAX_ANCHORS = 4096 };

typedef struct loader {
    const char *path;
    kerf_hardware *out;
    kerf_error *err;
} loader;

#define BAD(l, ...) kf_fail((l)->err, KERF_E_DATA, KF_NOWHERE, __VA_ARGS__)

/* --- values -------------------------------------------------------------------------------- */

/* Text of a key: at most 400 bytes, empty when absent and not demanded. */
static kerf_status read_text(loader *l, const json_t *o, const char *where, const char *key,
                             int demanded, const char **out)
{
    const json_t *v = json_object_get(o, key);
    *out = "";
    if (!v && !demanded) return KERF_OK;
    const char *text = json_string_value(v);
    if (!text || (demanded && !*text) || strlen(text) > 400) {
        return BAD(l, "%.200s: %s: %s must be a text of 1 to 400 bytes", l->path, where, key);
    }
    return kf_hardware_keep_text(l->out, text, out, l->err);
}

/* A number in [lo, hi]; left alone when absent and not demanded. */
static kerf_status read_number(loader *l, const json_t *o, const char *where, const char *key,
                               int demanded, double lo, double hi, double *out)
{
    const json_t *v = json_object_get(o, key);
    if (!v && !demanded) return KERF_OK;
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(x >= lo && x <= hi)) {
        return BAD(l, "%.200s: %s: %s must be a number from %g to %g", l->path, where, key, lo, hi);
    }
    *out = x;
    return KERF_OK;
}

/* Every key of an object must be in `known`, a list of words with a blank before and after each. */
static kerf_status check_keys(loader *l, json_t *o, const char *where, const char *known)
{
    const char *key;
    json_t *value;
    if (!json_is_object(o)) return BAD(l, "%.200s: %s must be an object", l->path, where);
    json_object_foreach(o, key, value)
    {
        char word[80];
        int n = snprintf(word, sizeof word, " %s ", key);
        if (strstr(key, "spars")) {
            return BAD(l,
                       "%.200s: %s: %.60s: sparse figures count work that is never done; give the "
                       "dense one",
                       l->path, where, key);
        }
        if (n < 0 || n >= (int)sizeof word || !strstr(known, word)) {
            return BAD(l, "%.200s: %s: unknown key %.60s; known:%s", l->path, where, key, known);
        }
    }
    return KERF_OK;
}

/* --- facts --------------------------------------------------------------------------------- */

static kerf_status read_fact(loader *l, const char *key, json_t *o)
{
    char where[80];
    kerf_fact_id id = 0;
    while (id < KERF_FACT_COUNT && strcmp(kerf_fact_key(id), key) != 0) id++;
    snprintf(where, sizeof where, "facts: %.60s", key);
    if (strstr(key, "spars")) {
        return BAD(l,
                   "%.200s: %s: sparse figures count work that is never done; give the dense one",
                   l->path, where);
    }
    if (id == KERF_FACT_COUNT) {
        return BAD(l, "%.200s: facts: unknown key %.60s; kerf hardware h200 --json shows them",
                   l->path, key);
    }
    kerf_fact *f = &l->out->fact[id];
    KF_TRY(check_keys(l, o, where, " value unit source date unverified text "));
    KF_TRY(read_number(l, o, where, "value", 1, 1e-3, 1e9, &f->value));
    KF_TRY(read_text(l, o, where, "source", 1, &f->source));
    KF_TRY(read_text(l, o, where, "date", 1, &f->date));
    const json_t *unit = json_object_get(o, "unit");
    if (unit && (!json_is_string(unit) || strcmp(json_string_value(unit), kerf_fact_unit(id)))) {
        return BAD(l, "%.200s: %s: its unit is %s", l->path, where, kerf_fact_unit(id));
    }
    f->unverified = json_is_true(json_object_get(o, "unverified"));
    if (strstr(f->source, "with sparsity")) {
        return BAD(l, "%.200s: %s: the source says it is a sparse figure; give the dense one",
                   l->path, where);
    }
    return KERF_OK;
}

/* No tensor unit is more than this much faster than bf16 with sums in fp32: twice per halving of
 * the element, twice more where fp32 sums run at half rate, 8 for fp4. What lies above is a sparse
 * figure beside a dense one. */
static kerf_status check_ratios(loader *l)
{
    static const struct {
        kerf_fact_id fact;
        double most;
    } ratio[] = {{KERF_FACT_FP16_ACC16, 2}, {KERF_FACT_FP8, 2},  {KERF_FACT_FP8_ACC16, 4},
                 {KERF_FACT_INT8, 4},       {KERF_FACT_INT4, 8}, {KERF_FACT_FP4, 8}};
    const kerf_fact *fact = l->out->fact;
    double bf16 = fact[KERF_FACT_BF16].value;
    for (size_t i = 0; bf16 > 0 && i < sizeof ratio / sizeof *ratio; i++) {
        double x = fact[ratio[i].fact].value;
        if (x <= ratio[i].most * bf16 * 1.05) continue;
        return BAD(l,
                   "%.200s: facts: %s is %.1f times bf16_tflops, more than any dense unit: is "
                   "it a sparse figure?",
                   l->path, kerf_fact_key(ratio[i].fact), x / bf16);
    }
    return KERF_OK;
}

/* --- what was measured --------------------------------------------------------------------- */

static kerf_status read_format(loader *l, const json_t *o, const char *where, const char **out)
{
    KF_TRY(read_text(l, o, where, "format", 1, out));
    if (kerf_format_find(*out)) return KERF_OK;
    if (strcmp(*out, KERF_FIT_ALL_REDUCE) == 0 && strstr(where, "fits")) return KERF_OK;
    return BAD(l, "%.200s: %s: unknown format %.60s; kerf formats lists them", l->path, where,
               *out);
}

/* A list of numbers up to 1e6, one for each way in which rows end; all zeros when absent. */
static kerf_status read_by_end(loader *l, const json_t *o, const char *where, const char *key,
                               double out[KERF_ROW_ENDS])
{
    const json_t *a = json_object_get(o, key);
    if (!a) return KERF_OK;
    int fits = json_array_size(a) == KERF_ROW_ENDS;
    for (size_t i = 0; fits && i < KERF_ROW_ENDS; i++) {
        const json_t *v = json_array_get(a, i);
        out[i] = json_is_number(v) ? json_number_value(v) : NAN;
        fits = out[i] >= 0 && out[i] <= 1e6;
    }
    if (fits) return KERF_OK;
    return BAD(l, "%.200s: %s: %s must be %d numbers from 0 to 1e6", l->path, where, key,
               (int)KERF_ROW_ENDS);
}

static kerf_status read_fit(loader *l, json_t *o, size_t i, kerf_fit *f)
{
    char where[40];
    double lo = 1, hi = 1;
    snprintf(where, sizeof where, "fits[%zu]", i);
    KF_TRY(check_keys(l, o, where,
                      " format batch fixed_us bandwidth_gbps decode_gweights tflops input_us "
                      "round_us stage_us error_median error_p90 source date "));
    KF_TRY(read_format(l, o, where, &f->format));
    const json_t *batch = json_object_get(o, "batch");
    if (json_array_size(batch) == 2) {
        lo = json_number_value(json_array_get(batch, 0));
        hi = json_number_value(json_array_get(batch, 1));
    } else {
        lo = 0;
    }
    if (!(lo >= 1 && hi >= lo && hi <= 1e9)) {
        return BAD(l, "%.200s: %s: batch must be [least, most]", l->path, where);
    }
    f->batch_min = (uint64_t)lo;
    f->batch_max = (uint64_t)hi;
    KF_TRY(read_number(l, o, where, "fixed_us", 1, 0, 1e6, &f->fixed_us));
    KF_TRY(read_number(l, o, where, "bandwidth_gbps", 1, 1e-3, 1e9, &f->bandwidth_gbps));
    KF_TRY(read_number(l, o, where, "decode_gweights", 0, 1e-3, 1e9, &f->decode_gweights));
    KF_TRY(read_number(l, o, where, "tflops", 0, 1e-6, 1e9, &f->tflops));
    KF_TRY(read_number(l, o, where, "input_us", 0, 0, 1e6, &f->input_us));
    KF_TRY(read_by_end(l, o, where, "round_us", f->round_us));
    KF_TRY(read_by_end(l, o, where, "stage_us", f->stage_us));
    KF_TRY(read_number(l, o, where, "error_median", 0, 0, 1e3, &f->error_median));
    KF_TRY(read_number(l, o, where, "error_p90", 0, 0, 1e3, &f->error_p90));
    KF_TRY(read_text(l, o, where, "source", 1, &f->source));
    return read_text(l, o, where, "date", 1, &f->date);
}

/* One number of each anchor; the first list says how many there are. */
static kerf_status read_list(loader *l, const json_t *o, const char *where, const char *key,
                             double least, size_t *count, const double **out)
{
    const json_t *a = json_object_get(o, key);
    size_t n = json_array_size(a);
    double *x = NULL;
    if (n < 1 || n > MAX_ANCHORS || (*count && n != *count)) {
        return BAD(l, "%.200s: %s: n, k and us must be lists of 1 to %d numbers, all as long",
                   l->path, where, MAX_ANCHORS);
    }
    *count = n;
    KF_TRY(kf_hardware_keep(l->out, n, sizeof *x, &x, l->err));
    for (size_t i = 0; i < n; i++) {
        x[i] = json_number_value(json_array_get(a, i));
        if (x[i] >= least && x[i] <= 1e12) continue;
        return BAD(l, "%.200s: %s: %s must hold numbers above 0", l->path, where, key);
    }
    *out = x;
    return KERF_OK;
}

static kerf_status read_table(loader *l, json_t *o, size_t i, kerf_anchors *t)
{
    char where[40];
    double batch = 0;
    snprintf(where, sizeof where, "tables[%zu]", i);
    KF_TRY(check_keys(l, o, where, " format batch n k us error_median error_p90 source date "));
    KF_TRY(read_format(l, o, where, &t->format));
    KF_TRY(read_number(l, o, where, "batch", 1, 1, 1e9, &batch));
    t->batch = (uint64_t)batch;
    KF_TRY(read_list(l, o, where, "n", 1, &t->count, &t->n));
    KF_TRY(read_list(l, o, where, "k", 1, &t->count, &t->k));
    KF_TRY(read_list(l, o, where, "us", 1e-12, &t->count, &t->us));
    KF_TRY(read_number(l, o, where, "error_median", 0, 0, 1e3, &t->error_median));
    KF_TRY(read_number(l, o, where, "error_p90", 0, 0, 1e3, &t->error_p90));
    KF_TRY(read_text(l, o, where, "source", 1, &t->source));
    return read_text(l, o, where, "date", 1, &t->date);
}

static kerf_status read_kernels(loader *l, const json_t *doc)
{
    const json_t *fits = json_object_get(doc, "fits"), *tables = json_object_get(doc, "tables");
    kerf_hardware *h = l->out;
    kerf_fit *fit = NULL;
    kerf_anchors *anchors = NULL;
    if ((fits && !json_is_array(fits)) || (tables && !json_is_array(tables)) ||
        json_array_size(fits) > MAX_KERNELS || json_array_size(tables) > MAX_KERNELS) {
        return BAD(l, "%.200s: fits and tables must be lists of at most %d", l->path, MAX_KERNELS);
    }
    KF_TRY(kf_hardware_keep(h, json_array_size(fits), sizeof *fit, &fit, l->err));
    KF_TRY(kf_hardware_keep(h, json_array_size(tables), sizeof *anchors, &anchors, l->err));
    h->fit = fit;
    h->anchors = anchors;
    for (; h->fits < json_array_size(fits); h->fits++) {
        KF_TRY(read_fit(l, json_array_get(fits, h->fits), h->fits, &fit[h->fits]));
    }
    for (; h->tables < json_array_size(tables); h->tables++) {
        KF_TRY(read_table(l, json_array_get(tables, h->tables), h->tables, &anchors[h->tables]));
    }
    return KERF_OK;
}

/* --- tuning -------------------------------------------------------------------------------- */

static kerf_status read_factor(loader *l, const json_t *factors, const char *key,
                               kerf_gemv_tuning *t)
{
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++)
        if (strcmp(kerf_gemv_factor_key((kerf_gemv_factor)i), key) == 0)
            return read_number(l, factors, "tuning", key, 1, KERF_GEMV_FACTOR_LEAST,
                               KERF_GEMV_FACTOR_MOST, &t->factor[i]);
    return BAD(l,
               "%.200s: tuning: unknown factor %.60s; kerf hardware --measure --device cuda "
               "writes what this kerf has",
               l->path, key);
}

static kerf_status read_tuning(loader *l, json_t *o)
{
    kerf_gemv_tuning tuning = {.rules = 0};
    double rules = 0;
    const char *source, *date, *key;
    json_t *value, *factors = json_object_get(o, "factors");
    KF_TRY(check_keys(l, o, "tuning", " factors rules source date "));
    KF_TRY(read_number(l, o, "tuning", "rules", 1, 1, 1e6, &rules));
    tuning.rules = (unsigned)rules;
    if (strcmp(l->out->kind, "gpu") != 0)
        return BAD(l, "%.200s: tuning: only a GPU has one", l->path);
    if (!json_is_object(factors))
        return BAD(l, "%.200s: tuning: factors must be an object", l->path);
    json_object_foreach(factors, key, value) KF_TRY(read_factor(l, factors, key, &tuning));
    KF_TRY(read_text(l, o, "tuning", "source", 1, &source));
    KF_TRY(read_text(l, o, "tuning", "date", 1, &date));
    return kf_hardware_keep_tuning(l->out, &tuning, source, date, l->err);
}

/* --- document ------------------------------------------------------------------------------ */

static kerf_status read_document(loader *l, json_t *doc)
{
    kerf_hardware *h = l->out;
    const char *key, *schema = json_string_value(json_object_get(doc, "schema"));
    json_t *value, *facts = json_object_get(doc, "facts");
    if (!schema || strcmp(schema, "kerf.hardware/1") != 0) {
        return BAD(l, "%.200s: its schema is not kerf.hardware/1", l->path);
    }
    KF_TRY(check_keys(l, doc, "the document",
                      " schema name title kind arch native note facts fits tables tuning "));
    KF_TRY(read_text(l, doc, "the document", "name", 1, &h->name));
    KF_TRY(read_text(l, doc, "the document", "title", 0, &h->title));
    KF_TRY(read_text(l, doc, "the document", "kind", 1, &h->kind));
    KF_TRY(read_text(l, doc, "the document", "arch", 0, &h->arch));
    KF_TRY(read_text(l, doc, "the document", "native", 0, &h->native));
    KF_TRY(read_text(l, doc, "the document", "note", 0, &h->note));
    if (strcmp(h->kind, "gpu") != 0 && strcmp(h->kind, "cpu") != 0) {
        return BAD(l, "%.200s: kind must be gpu or cpu", l->path);
    }
    if (!json_is_object(facts)) return BAD(l, "%.200s: facts must be an object", l->path);
    json_object_foreach(facts, key, value) KF_TRY(read_fact(l, key, value));
    if (!(h->fact[KERF_FACT_BANDWIDTH].value > 0)) {
        return BAD(l, "%.200s: facts: bandwidth_gbps is missing", l->path);
    }
    KF_TRY(check_ratios(l));
    json_t *tuning = json_object_get(doc, "tuning");
    if (tuning) KF_TRY(read_tuning(l, tuning));
    return read_kernels(l, doc);
}

kerf_status kerf_hardware_open(const char *path, kerf_hardware **out, kerf_error *err)
{
    json_t *doc;
    *out = NULL;
    KF_TRY(kf_json_read(path, KF_JSON_MAX_CONFIG_BYTES, KF_JSON_STRICT, &doc, err));
    loader l = {.path = path, .err = err};
    kerf_status s = kf_hardware_new(&l.out, err);
    if (s == KERF_OK) s = read_document(&l, doc);
    json_decref(doc);
    if (s == KERF_OK) {
        *out = l.out;
    } else {
        kerf_hardware_close(l.out);
    }
    return s;
}
