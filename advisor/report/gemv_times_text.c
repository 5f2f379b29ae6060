/* gemv_times_text.c - measured products for people. */
#include <kerf/measure.h>

#include "base/text_page.h"

/* What the table's figures are. */
static void put_notes(kf_page *p, const kerf_gemv_times *all)
{
    const char *x = kerf_dtype_name(all->x);
    if (all->device.name[0]) {
        fprintf(
            p->to,
            "\n%s; x and y %s, weights cold; this machine reads %.1f GB/s and copies %.1f.\n"
            "us: of a product in a graph of many, which may read weights while the one before it\n"
            "works; plain: which waits. of a read: time to only read the same bytes so, over that\n"
            "of the product.\n",
            all->device.name, x, all->stream_gbps, all->copy_gbps);
        return;
    }
    fprintf(
        p->to,
        "\n%d threads; x %s, y fp32, weights cold; this machine reads %.1f GB/s and copies %.1f.\n"
        "of a read: time to read the same bytes right before each run, over the time of the run.\n",
        all->threads, x, all->stream_gbps, all->copy_gbps);
}

static void put_row(kf_page *p, const kerf_gemv_times *all, size_t i)
{
    const kerf_gemv_time *g = &all->time[i];
    kf_table_cell(p, "%llux%llu", (unsigned long long)g->rows, (unsigned long long)g->cols);
    kf_table_cell(p, "%u", g->columns);
    kf_table_cell(p, "%s", g->format->name);
    kf_table_cell(p, "%s", g->backend);
    kf_table_cell(p, "%.2f", g->us);
    kf_table_cell(p, "%.2f %.2f", g->low_us, g->high_us);
    kf_table_cell(p, "%.2f", g->bytes / g->us * 1e-3);
    kf_table_cell(p, "%.2f", g->share);
    if (all->device.name[0]) {
        kf_table_cell(p, "%.2f", g->plain_us);
        kf_table_cell(p, "%.2f", g->plain_share);
    }
    if (!all->energy) return;
    kf_table_cell(p, "%.4g", all->energy[i].joules * 1e3);
    kf_table_cell(p, "%.0f", all->energy[i].watts);
    kf_table_cell(p, "%.3g", kerf_joules_per_gb(all, i));
}

static void put(kf_page *p, const void *ctx)
{
    const kerf_gemv_times *all = ctx;
    char headings[160];
    snprintf(headings, sizeof headings,
             "NxK|>batch|format|+backend|>us|+>quartiles|>GB/s|>of a read%s%s",
             all->device.name[0] ? "|>plain us|>of a read" : "",
             all->energy ? "|>mJ|>W|>J/GB" : "");
    kf_table_begin(p, headings);
    for (size_t i = 0; i < all->count; i++) put_row(p, all, i);
    kf_table_end(p);
    put_notes(p, all);
    if (all->energy)
        fprintf(p->to, "mJ: of one product done for %.0f s, idle power (%.0f W) included.\n",
                all->count ? all->energy[0].seconds : 0, all->idle_w);
}

kerf_status kerf_gemv_times_text(const kerf_gemv_times *t, const kerf_text_form *form, char **text,
                                 size_t *n, kerf_error *err)
{
    return kf_page_print(put, t, form, text, n, err);
}
