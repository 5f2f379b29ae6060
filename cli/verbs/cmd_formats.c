/* cmd_formats.c - kerf formats: prints the tables of formats, encoders and layouts. */
#include <string.h>

#include "args.h"
#include "options.h"
#include "output.h"

static const kerf_shape example = {2, {4096, 4096}};

/* "32", "row", "128x128": which elements share a scale; out holds TEXT_SIZE bytes. */
static const char *group_text(const kerf_format *f, char *out)
{
    switch (f->geometry) {
    case KERF_GROUP_NONE: return "-";
    case KERF_GROUP_TENSOR: return "matrix";
    case KERF_GROUP_ROW: return "row";
    case KERF_GROUP_BLOCK: snprintf(out, TEXT_SIZE, "%u", f->group); return out;
    case KERF_GROUP_TILE: snprintf(out, TEXT_SIZE, "%ux%u", f->group, f->group); return out;
    case KERF_GROUP_FLAT: snprintf(out, TEXT_SIZE, "%u flat", f->group); return out;
    case KERF_GROUP_STRUCT: snprintf(out, TEXT_SIZE, "%u inline", f->group); return out;
    case KERF_GROUP_SUPER: snprintf(out, TEXT_SIZE, "%u nested", f->group); return out;
    }
    return "?";
}

static const char *element_text(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_F32: return "F32";
    case KERF_ELEM_F16: return "F16";
    case KERF_ELEM_BF16: return "BF16";
    case KERF_ELEM_E4M3: return "E4M3";
    case KERF_ELEM_E5M2: return "E5M2";
    case KERF_ELEM_E2M3: return "E2M3";
    case KERF_ELEM_E3M2: return "E3M2";
    case KERF_ELEM_E2M1: return "E2M1";
    case KERF_ELEM_MXI8: return "INT8/64";
    case KERF_ELEM_NF4: return "NF4";
    case KERF_ELEM_S8: return "INT8";
    case KERF_ELEM_S4: return "INT4";
    case KERF_ELEM_S2: return "INT2";
    case KERF_ELEM_U4: return "UINT4";
    case KERF_ELEM_U2: return "UINT2";
    case KERF_ELEM_U3: return "UINT3";
    case KERF_ELEM_U5: return "UINT5";
    case KERF_ELEM_U6: return "UINT6";
    }
    return "?";
}

/* "E4M3 + F32", "BF16 + zero"; out holds TEXT_SIZE bytes. */
static const char *scale_text(const kerf_format *f, char *out)
{
    static const char *const scales[] = {"-", "F32", "F16", "BF16", "E8M0", "E4M3", "8-bit map"};
    static const char *const seconds[] = {"", " + F32", " + F32/256"};
    static const char *const zeros[] = {"", " + zero", " + F32 offset"};
    snprintf(out, TEXT_SIZE, "%s%s%s", scales[f->scale], seconds[f->second], zeros[f->zero]);
    return out;
}

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
    table_cell(t, "%s", element_text(f->element));
    table_cell(t, "%s", group_text(f, text));
    table_cell(t, "%s", scale_text(f, text));
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

static json_t *layouts_json(const kerf_format *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < kerf_layout_count(); i++) {
        const kerf_layout *l = kerf_layout_at(i);
        int written;
        const char *scheme = kerf_layout_scheme(l, f, &written);
        if (!scheme) continue;
        json_add(&list, json_pack("{s:s, s:s, s:b}", "layout", l->name, "scheme", scheme, "written",
                                  written));
    }
    return list;
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
    printf("  element  %s, %u bits\n", element_text(f->element), f->bits);
    printf("  group    %s\n", group_text(f, text));
    printf("  scale    %s\n", scale_text(f, text));
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

static kerf_status format_json(const kerf_format *f, json_t **formats, kerf_error *err)
{
    char text[TEXT_SIZE];
    double bpw = 0;
    TRY(example_bpw(f, &bpw, err));
    json_t *encoders = json_array();
    for (size_t i = 0; i < kerf_encoder_count(f); i++) {
        const kerf_encoder *e = kerf_encoder_at(f, i);
        json_add(&encoders, json_pack("{s:s, s:s}", "name", e->name, "source", e->source));
    }
    json_t *row = json_pack("{s:s, s:i, s:i, s:s}", "name", f->name, "wire", (int)f->id, "bits",
                            (int)f->bits, "element", element_text(f->element));
    json_set(&row, "group", json_string(group_text(f, text)));
    json_set(&row, "scale", json_string(scale_text(f, text)));
    json_set(&row, "bpw_4096x4096", json_real(bpw));
    json_set(&row, "encoders", encoders);
    json_set(&row, "note", json_string(f->note));
    json_set(&row, "layouts", layouts_json(f));
    json_add(formats, row);
    return KERF_OK;
}

static int run_formats(const args *a, kerf_error *err)
{
    const char *name = args_operand(a, 0);
    kerf_codec codec = {0};
    if (name) TRY(option_codec(name, &codec, err));
    if (!args_has(a, "json")) return name ? print_one(codec.format, err) : print_list(err);
    json_t *formats = json_array();
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (!name || f == codec.format) TRY(format_json(f, &formats, err));
    }
    return print_json("formats", json_pack("{s:o}", "formats", formats), err);
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
