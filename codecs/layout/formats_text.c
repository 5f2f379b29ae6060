/* formats_text.c - the tables of formats, encoders and layouts for people. */
#include <kerf/layouts.h>

#include "base/text_page.h"

/* Bits per weight of the example that every page names; 0: it has none. */
static double example_bpw(const kerf_format *f)
{
    static const kerf_shape example = {2, {4096, 4096}};
    kerf_geometry g;
    return kerf_geometry_init(&g, f, &example, NULL) == KERF_OK ? kerf_geometry_bpw(&g) : 0;
}

/* Names of a format's encoders, the default first; out is cut to size. */
static const char *encoders_text(const kerf_format *f, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < kerf_encoder_count(f) && n < size; i++) {
        int k = snprintf(out + n, size - n, "%s%s", i ? ", " : "", kerf_encoder_at(f, i)->name);
        if (k > 0) n += (size_t)k;
    }
    return out;
}

/* --- all ----------------------------------------------------------------------------------- */

static void put_layouts(kf_page *p)
{
    fprintf(p->to, "\nlayouts, for --layout, and how many formats each is written in:\n");
    for (size_t i = 0; i < kerf_layout_count(); i++) {
        const kerf_layout *l = kerf_layout_at(i);
        size_t n = 0;
        for (size_t k = 0; k < kerf_format_count(); k++) {
            int written;
            n += kerf_layout_scheme(l, kerf_format_at(k), &written) && written;
        }
        fprintf(p->to, "%-18s %2zu  %s\n", l->name, n, l->note);
    }
}

static void put_list(kf_page *p)
{
    char text[KERF_FORMAT_TEXT], encoders[256];
    kf_table_begin(p, "format|+>bits|+element|group|scale|>bpw|+encoders, default first|+note");
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        kf_table_cell(p, "%s", f->name);
        kf_table_cell(p, "%u", f->bits);
        kf_table_cell(p, "%s", kerf_element_text(f->element));
        kf_table_cell(p, "%s", kerf_group_text(f, text, sizeof text));
        kf_table_cell(p, "%s", kerf_scale_text(f, text, sizeof text));
        kf_table_cell(p, "%.3f", example_bpw(f));
        kf_table_cell(p, "%s", encoders_text(f, encoders, sizeof encoders));
        kf_table_cell(p, "%s", f->note);
    }
    kf_table_end(p);
    fprintf(p->to, "\nbpw: bits per weight of a 4096x4096 tensor, all scales counted.\n"
                   "kerf formats FORMAT shows its encoders and layouts, --wide those of all.\n");
    put_layouts(p);
}

/* --- one ----------------------------------------------------------------------------------- */

static void put_layouts_of(kf_page *p, const kerf_format *f)
{
    fprintf(p->to, "  layouts\n");
    for (size_t i = 0; i < kerf_layout_count(); i++) {
        const kerf_layout *l = kerf_layout_at(i);
        int written;
        const char *scheme = kerf_layout_scheme(l, f, &written);
        if (scheme)
            fprintf(p->to, "    %-24s %s%s\n", l->name, scheme, written ? "" : " (read only)");
    }
}

static void put_one(kf_page *p, const kerf_format *f)
{
    char text[KERF_FORMAT_TEXT];
    fprintf(p->to, "%s%s%s\n", f->name, f->note[0] ? ": " : "", f->note);
    fprintf(p->to, "  element  %s, %u bits\n", kerf_element_text(f->element), f->bits);
    fprintf(p->to, "  group    %s\n", kerf_group_text(f, text, sizeof text));
    fprintf(p->to, "  scale    %s\n", kerf_scale_text(f, text, sizeof text));
    fprintf(p->to, "  size     %.4f bits per weight of a 4096x4096 tensor\n", example_bpw(f));
    fprintf(p->to, "  encoders, the default first\n");
    for (size_t i = 0; i < kerf_encoder_count(f); i++) {
        const kerf_encoder *e = kerf_encoder_at(f, i);
        char name[64];
        fprintf(p->to, "    %-24s %s\n", kerf_codec_name((kerf_codec){f, e}, name, sizeof name),
                e->source);
    }
    put_layouts_of(p, f);
}

static void put(kf_page *p, const void *f)
{
    if (f)
        put_one(p, f);
    else
        put_list(p);
}

kerf_status kerf_formats_text(const kerf_format *f, const kerf_text_form *form, char **text,
                              size_t *n, kerf_error *err)
{
    return kf_page_print(put, f, form, text, n, err);
}
