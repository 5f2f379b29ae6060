/* weight_json.c - shapes and places of weights as JSON. */
#include "model/weight_json.h"

json_t *kf_shape_json(const kerf_shape *shape)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < shape->rank; i++)
        kf_json_add(&array, json_integer((json_int_t)shape->dim[i]));
    return array;
}

json_t *kf_stored_shape_json(const kerf_weight *w)
{
    return kf_shape_json(w->stored.rank ? &w->stored : &w->shape);
}

void kf_json_set_place(json_t **object, const kerf_place *p)
{
    static const char *const orientations[] = {"out,in", "in,out", "unknown"};
    static const char *const stacks[] = {NULL, "first", "last", "rows"};
    kf_json_set(object, "role", json_string(kerf_role_name(p->role)));
    kf_json_set(object, "piece", p->piece ? json_string(kerf_piece_name(p->piece)) : json_null());
    kf_json_set(object, "orientation", json_string(orientations[p->orientation]));
    kf_json_set(object, "stack", p->stack ? json_string(stacks[p->stack]) : json_null());
}

void kf_weight_cells(kf_page *p, const kerf_weight *w)
{
    char place[KERF_SHAPE_TEXT], shape[KERF_SHAPE_TEXT], format[64];
    kf_table_cell(p, "%s", w->name);
    kf_table_cell(p, "%s", kerf_place_text(&w->place, place, sizeof place));
    kf_table_cell(p, "%s", kerf_shape_text(w->stored.rank ? &w->stored : &w->shape, shape));
    kf_table_cell(p, "%s", kerf_weight_format(w, format, sizeof format));
}

double kf_bits_per_weight(uint64_t bytes, uint64_t elements)
{
    return elements ? 8 * (double)bytes / (double)elements : 0;
}
