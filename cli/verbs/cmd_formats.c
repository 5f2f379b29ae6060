/* cmd_formats.c - kerf formats: prints the tables of formats, encoders and layouts. */
#include <string.h>

#include "args.h"
#include "options.h"
#include "output.h"

static const kerf_shape example = {2, {4096, 4096}};

static kerf_status example_bpw(const kerf_format *f, double *out, kerf_error *err)
{
    kerf_geometry g;
    TRY(kerf_geometry_init(&g, f, &example, err));
    *out = kerf_geometry_bpw(&g);
    return KERF_OK;
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

static kerf_status add_row(table *t, const kerf_format *f, kerf_error *err)
{
    char text[TEXT_SIZE], encoders[256];
    double bpw = 0;
    TRY(example_bpw(f, &bpw, err));
    table_cell(t, "%s", f->name);
    table_cell(t, "%u", f->bits);
    table_cell(t, "%s", kerf_element_text(f->element));
    table_cell(t, "%s", kerf_group_text(f, text, sizeof text));
    table_cell(t, "%s", kerf_scale_text(f, text, sizeof text));
    table_cell(t, "%.3f", bpw);
    table_cell(t, "%s", encoders_text(f, encoders, sizeof encoders));
    table_cell(t, "%s", f->note);
    return KERF_OK;
}

/* --- layouts ------------------------------------------------------------------------------- */

static void print_layouts(void)
{
    printf("\nlayouts, for --layout, and how many formats each is written in:\n");
    for (size_t i = 0; i < kerf_layout_count(); i++) {
        const kerf_layout *l = kerf_layout_at(i);
        size_t n = 0;
        for (size_t k = 0; k < kerf_format_count(); k++) {
            int written;
            n += kerf_layout_scheme(l, kerf_format_at(k), &written) && written;
        }
        printf("%-18s %2zu  %s\n", l->name, n, l->note);
    }
}

static void print_layouts_of(const kerf_format *f)
{
    printf("  layouts\n");
    for (size_t i = 0; i < kerf_layout_count(); i++) {
        const kerf_layout *l = kerf_layout_at(i);
        int written;
        const char *scheme = kerf_layout_scheme(l, f, &written);
        if (scheme) printf("    %-24s %s%s\n", l->name, scheme, written ? "" : " (read only)");
    }
}

/* --- formats ------------------------------------------------------------------------------- */

static kerf_status print_list(kerf_error *err)
{
    table *t = NULL;
    TRY(table_open(&t, "format|+>bits|+element|group|scale|>bpw|+encoders, default first|+note",
                   err));
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < kerf_format_count() && s == KERF_OK; i++) {
        s = add_row(t, kerf_format_at(i), err);
    }
    TRY(table_end(t, s, err));
    printf("\nbpw: bits per weight of a 4096x4096 tensor, all scales counted.\n"
           "kerf formats FORMAT shows its encoders and layouts, --wide those of all.\n");
    print_layouts();
    return KERF_OK;
}

static kerf_status print_one(const kerf_format *f, kerf_error *err)
{
    char text[TEXT_SIZE];
    double bpw = 0;
    TRY(example_bpw(f, &bpw, err));
    printf("%s%s%s\n", f->name, f->note[0] ? ": " : "", f->note);
    printf("  element  %s, %u bits\n", kerf_element_text(f->element), f->bits);
    printf("  group    %s\n", kerf_group_text(f, text, sizeof text));
    printf("  scale    %s\n", kerf_scale_text(f, text, sizeof text));
    printf("  size     %.4f bits per weight of a 4096x4096 tensor\n", bpw);
    printf("  encoders, the default first\n");
    for (size_t i = 0; i < kerf_encoder_count(f); i++) {
        const kerf_encoder *e = kerf_encoder_at(f, i);
        char name[64];
        printf("    %-24s %s\n", kerf_codec_name((kerf_codec){f, e}, name, sizeof name), e->source);
    }
    print_layouts_of(f);
    return KERF_OK;
}

static int run_formats(const args *a, kerf_error *err)
{
    const char *name = args_operand(a, 0);
    kerf_codec codec = {0};
    char *text = NULL;
    if (name) TRY(option_codec(name, &codec, err));
    if (args_has(a, "json"))
        return put_document(kerf_formats_write(codec.format, &text, NULL, err), &text, err);
    return name ? print_one(codec.format, err) : print_list(err);
}

const verb verb_formats = {
    .name = "formats",
    .summary = "number formats, their encoders, and the layouts that store them",
    .usage = "[FORMAT] [--wide] [--json]",
    .details = "Lists every format: what one code is, which elements share a scale, what it\n"
               "costs in bits, and the encoders that can choose its bytes. With FORMAT: where\n"
               "each comes from, and which layouts store it.",
    .examples = "  kerf formats\n"
                "  kerf formats nvfp4\n",
    .shared = {&option_json, &option_wide},
    .operands_max = 1,
    .run = run_formats,
};
