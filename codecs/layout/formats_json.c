/* formats_json.c - the tables of formats, encoders and layouts as one document. */
#include <kerf/layouts.h>

#include "base/base.h"
#include "file/json/json_text.h"

static json_t *encoders_json(const kerf_format *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < kerf_encoder_count(f); i++) {
        const kerf_encoder *e = kerf_encoder_at(f, i);
        kf_json_add(&list, json_pack("{s:s, s:s}", "name", e->name, "source", e->source));
    }
    return list;
}

static json_t *layouts_json(const kerf_format *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < kerf_layout_count(); i++) {
        const kerf_layout *l = kerf_layout_at(i);
        int written;
        const char *scheme = kerf_layout_scheme(l, f, &written);
        if (!scheme) continue;
        kf_json_add(&list, json_pack("{s:s, s:s, s:b}", "layout", l->name, "scheme", scheme,
                                     "written", written));
    }
    return list;
}

static kerf_status add_format(json_t **formats, const kerf_format *f, kerf_error *err)
{
    static const kerf_shape example = {2, {4096, 4096}};
    char group[KERF_FORMAT_TEXT], scale[KERF_FORMAT_TEXT];
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, f, &example, err));
    kf_json_add(formats, json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:f, s:o, s:s, s:o}", "name",
                                   f->name, "wire", (int)f->id, "bits", (int)f->bits, "element",
                                   kerf_element_text(f->element), "group",
                                   kerf_group_text(f, group, sizeof group), "scale",
                                   kerf_scale_text(f, scale, sizeof scale), "bpw_4096x4096",
                                   kerf_geometry_bpw(&g), "encoders", encoders_json(f), "note",
                                   f->note, "layouts", layouts_json(f)));
    return KERF_OK;
}

kerf_status kerf_formats_write(const kerf_format *f, char **text, size_t *n, kerf_error *err)
{
    json_t *formats = json_array();
    kerf_status s = KERF_OK;
    for (size_t i = 0; s == KERF_OK && i < kerf_format_count(); i++)
        if (!f || f == kerf_format_at(i)) s = add_format(&formats, kerf_format_at(i), err);
    if (s == KERF_OK)
        return kf_json_write(
            json_pack("{s:s, s:o}", "schema", "kerf.formats/1", "formats", formats), JSON_INDENT(2),
            text, n, err);
    json_decref(formats);
    return s;
}
