/* place_weights.c - gives every weight its place in the model (kerf/roles.h), and turns what the
 * files have as [in, out]: such a weight is a view of its tensor, whose rows are the outputs, so
 * that all that works on weights has blocks along the inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/arranging.h"
#include "layout/config_file.h"
#include "layout/layout.h"
#include "layout/place_weights.h"
#include "roles/places.h"

/* A config.json that is not JSON says nothing; those who need it say so (kf_config_check_read). */
static kerf_status read_facts(const kerf_reader *r, kf_facts *out, kerf_error *err)
{
    json_t *config = NULL;
    const int is_gguf = kerf_reader_is_gguf(r);
    if (!is_gguf) KF_TRY(kf_config_load_sound(r, "config.json", &config, err));
    kf_facts_read(config, is_gguf ? kerf_reader_metadata(r, 0, "general.architecture") : NULL, out);
    json_decref(config);
    return KERF_OK;
}

kerf_status kf_weights_find_model(kerf_weights *w, const kerf_reader *r, kerf_error *err)
{
    kf_facts *facts = kf_weights_own(w, 1, sizeof *facts);
    if (!facts) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a model's sizes");
    KF_TRY(read_facts(r, facts, err));
    w->facts = facts;
    return KERF_OK;
}

kerf_status kf_weights_place(kerf_weights *w, kerf_error *err)
{
    kf_placed *list = NULL;
    kerf_place *place = NULL;
    kerf_status s = kf_allocate(&list, w->count, sizeof *list, err);
    if (s == KERF_OK) s = kf_allocate(&place, w->count, sizeof *place, err);
    for (size_t i = 0; s == KERF_OK && i < w->count; i++) {
        const kerf_weight *one = &w->weight[i];
        list[i] = (kf_placed){one->name, one->stored.rank ? &one->stored : &one->shape, &place[i]};
    }
    if (s == KERF_OK) kf_places_find(w->facts, list, w->count);
    for (size_t i = 0; s == KERF_OK && i < w->count; i++) /* what is turned stays so */
        if (!w->weight[i].stored.rank || !w->weight[i].place.evidence)
            w->weight[i].place = place[i];
    free(place);
    free(list);
    return s;
}

/* --- turning ------------------------------------------------------------------------------- */

static int can_be_turned(const kerf_weight *w)
{
    return w->place.orientation == KERF_IN_OUT && !w->stored.rank && kf_is_plain(w) &&
           !w->plane[0]->view && kerf_weight_elements(w) > 0;
}

/* [..., in, out] as [..., out, in]. */
static kerf_status turn(kerf_weights *w, kerf_weight *one, kerf_error *err)
{
    kf_arranging a = {.out = w, .err = err};
    const kerf_shape *s = &one->shape;
    const uint64_t out = s->dim[s->rank - 1];
    uint64_t in = s->dim[s->rank - 2];
    kerf_shape turned = *s;
    if (one->place.stack == KERF_STACK_ROWS) {
        in /= one->place.experts;
        turned = (kerf_shape){3, {one->place.experts, 0, 0}};
    }
    turned.dim[turned.rank - 2] = out;
    turned.dim[turned.rank - 1] = in;
    kerf_view v = {.rows = out, .cols = in, .row = 1, .col = out, .matrix = in * out};
    KF_TRY(kf_arrange_tensor(&a, one->plane[0], one->name, turned, v, &one->plane[0]));
    one->stored = one->shape;
    one->shape = turned;
    return KERF_OK;
}

static int is_quantized_stack(const kerf_weight *w)
{
    return w->codec.format && kf_is_stacks(w->layout) && kerf_weight_elements(w) > 0;
}

/* Tiles that are as high as they are wide are tiles of the turned matrix too. The scales of outputs
 * and of blocks along inputs have said which axis is which (recognize.c), unless the matrix is
 * square. */
static int may_be_turned(const kerf_weight *w)
{
    const kerf_group_kind kind = w->codec.format->geometry;
    const int is_square = w->shape.dim[1] == w->shape.dim[2];
    return kind == KERF_GROUP_ROW ? is_square : kind != KERF_GROUP_BLOCK;
}

static kerf_status turn_planes(kerf_weights *w, kerf_weight *one, kerf_error *err)
{
    kf_arranging a = {.out = w, .err = err};
    const kerf_geometry g = kerf_weight_geometry(one);
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        const kerf_tensor *t = one->plane[p];
        const int is_of_outputs =
            p != KERF_PLANE_CODES && one->codec.format->geometry == KERF_GROUP_ROW;
        if (!t || g.plane[p].per_matrix || is_of_outputs) continue;
        const uint64_t rows = t->shape.dim[1], cols = t->shape.dim[2];
        const kerf_shape turned = {3, {t->shape.dim[0], cols, rows}};
        const kerf_view v = {
            .rows = cols, .cols = rows, .row = 1, .col = cols, .matrix = rows * cols};
        KF_TRY(kf_arrange_tensor(&a, t, t->name, turned, v, &one->plane[p]));
    }
    return KERF_OK;
}

static kerf_status turn_stack(kerf_weights *w, kerf_weight *one, kerf_error *err)
{
    const kerf_shape *s = &one->shape;
    if (one->plane[KERF_PLANE_CODES]->view) return KERF_OK; /* it is turned already */
    if (one->stored.rank) {
        one->place.orientation = KERF_IN_OUT;
        return turn_planes(w, one, err);
    }
    if (!may_be_turned(one)) one->place.orientation = KERF_OUT_IN;
    if (one->place.orientation != KERF_IN_OUT) return KERF_OK;
    KF_TRY(turn_planes(w, one, err));
    one->stored = *s;
    one->shape = (kerf_shape){3, {s->dim[0], s->dim[2], s->dim[1]}};
    kerf_geometry g;
    return kerf_geometry_init(&g, one->codec.format, &one->shape, err);
}

kerf_status kf_weights_turn(kerf_weights *w, kerf_error *err)
{
    for (size_t i = 0; i < w->count; i++) {
        kerf_weight *one = &w->weight[i];
        if (can_be_turned(one)) KF_TRY(turn(w, one, err));
        if (is_quantized_stack(one)) KF_TRY(turn_stack(w, one, err));
    }
    return KERF_OK;
}

const kerf_tensor *kf_weight_tensor(const kerf_weight *w)
{
    const kerf_tensor *t = w->plane[0];
    return !w->codec.format && w->stored.rank && t->view ? t->view->from[0] : t;
}

const char *kerf_weights_model(const kerf_weights *w, int *known)
{
    *known = w->facts->family != NULL;
    return w->facts->type[0] ? w->facts->type : NULL;
}
