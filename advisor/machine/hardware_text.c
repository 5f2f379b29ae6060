/* hardware_text.c - what is known of machines, for people: a table of all, or one with the source
 * of each fact. */
#include <kerf/hardware.h>

#include "base/text_page.h"

/* --- the registry -------------------------------------------------------------------------- */

/* The fact as it stands in the list, a question mark behind what nothing confirms. */
static void put_fact(kf_page *p, const kerf_fact *f)
{
    if (f->value == 0) {
        kf_table_cell(p, "-");
    } else {
        kf_table_cell(p, "%g%s", f->value, f->unverified ? "?" : "");
    }
}

static void put_list(kf_page *p)
{
    static const kerf_fact_id shown[] = {KERF_FACT_BANDWIDTH, KERF_FACT_STREAM, KERF_FACT_MEMORY,
                                         KERF_FACT_BF16,      KERF_FACT_FP8,    KERF_FACT_INT8,
                                         KERF_FACT_FP4};
    kf_table_begin(p, "name|+machine|>GB/s|>measured|>GB|>bf16|>fp8|>int8|>fp4|>ridge");
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        const kerf_hardware *h = kerf_hardware_at(i);
        kf_table_cell(p, "%s", h->name);
        kf_table_cell(p, "%s", h->title);
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) put_fact(p, &h->fact[shown[k]]);
        double peak = h->fact[KERF_FACT_BF16].value;
        if (peak == 0) peak = h->fact[KERF_FACT_FP32].value;
        kf_table_cell(p, "%.0f", peak * 1e3 / h->fact[KERF_FACT_BANDWIDTH].value);
    }
    kf_table_end(p);
    fprintf(p->to,
            "\nDense TFLOPS, sums in fp32. ridge: bf16 (else fp32) operations per byte above\n"
            "which arithmetic is the limit. ?: unverified. kerf hardware NAME shows "
            "sources.\n");
}

/* --- a machine ----------------------------------------------------------------------------- */

/* What plans on this GPU do otherwise than by kerf's rules. */
static void put_tuning(kf_page *p, const kerf_hardware *h)
{
    size_t rows = 0;
    fprintf(p->to, "\nTuning of its products (%s, %s):", kf_page_plain(p, h->tuning_source),
            kf_page_plain(p, h->tuning_date));
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++)
        rows += h->tuning->factor[i] != 0 && h->tuning->factor[i] != 1;
    fputs(rows ? "\n\n" : " kerf's rules stay as they are.\n", p->to);
    if (h->tuning->rules && h->tuning->rules != KERF_GEMV_RULES)
        fprintf(p->to, "Found against other rules than this kerf's: measure again.\n");
    if (!rows) return;
    kf_table_begin(p, "threshold|>times|~what it is");
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++) {
        double f = h->tuning->factor[i];
        if (f == 0 || f == 1) continue;
        kf_table_cell(p, "%s", kerf_gemv_factor_key((kerf_gemv_factor)i));
        kf_table_cell(p, "%g", f);
        kf_table_cell(p, "%s", kerf_gemv_factor_text((kerf_gemv_factor)i));
    }
    kf_table_end(p);
}

static void put_machine(kf_page *p, const kerf_hardware *h)
{
    fprintf(p->to, "%s: %s", kf_page_plain(p, h->name),
            kf_page_plain(p, h->title[0] ? h->title : h->kind));
    if (h->arch[0]) fprintf(p->to, ", %s", kf_page_plain(p, h->arch));
    if (h->native[0]) fprintf(p->to, "; matrix instructions: %s", kf_page_plain(p, h->native));
    fprintf(p->to, "\n");
    if (h->note[0]) fprintf(p->to, "Note: %s.\n", kf_page_plain(p, h->note));
    fprintf(p->to, "\n");
    kf_table_begin(p, "fact|>value|unit|+date|~source");
    for (kerf_fact_id id = 0; id < KERF_FACT_COUNT; id++) {
        const kerf_fact *f = &h->fact[id];
        if (f->value == 0) continue;
        kf_table_cell(p, "%s", kerf_fact_key(id));
        kf_table_cell(p, "%g", f->value);
        kf_table_cell(p, "%s", kerf_fact_unit(id));
        kf_table_cell(p, "%s", f->date);
        kf_table_cell(p, "%s%s", f->unverified ? "unverified: " : "", f->source);
    }
    kf_table_end(p);
    if (h->fits || h->tables)
        fprintf(p->to, "\n%zu fitted kernels, %zu tables of measured shapes\n", h->fits, h->tables);
    if (h->tuning) put_tuning(p, h);
}

static void put(kf_page *p, const void *h)
{
    if (h)
        put_machine(p, h);
    else
        put_list(p);
}

kerf_status kerf_hardware_text(const kerf_hardware *h, const kerf_text_form *form, char **text,
                               size_t *n, kerf_error *err)
{
    return kf_page_print(put, h, form, text, n, err);
}
