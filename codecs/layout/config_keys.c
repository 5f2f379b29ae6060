/* config_keys.c - objects of JSON from tables of keys, and what most layouts say of weights. */
#include "layout/config_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/json/text.h"

int kf_give(json_t **out, json_t *value)
{
    *out = value;
    return value != NULL;
}

int kf_leave_out(json_t **out)
{
    *out = NULL;
    return 1;
}

int kf_set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* --- objects from keys ---------------------------------------------------------------------- */

json_t *kf_config_object(const kf_config_key *key, const kf_configured *q, const kerf_format *f)
{
    json_t *object = json_object(), *value;
    int ok = object != NULL;
    for (; ok && key->name; key++) {
        ok = key->value(key, q, f, &value);
        if (ok && value) ok = kf_set(object, key->name, value);
    }
    if (ok) return object;
    json_decref(object);
    return NULL;
}

json_t *kf_config_groups(const kf_configured *q,
                         json_t *(*group)(const kf_configured *q, const kerf_format *f))
{
    json_t *groups = json_object();
    int ok = groups != NULL;
    for (size_t i = 0; ok && i < q->formats; i++) {
        char name[32];
        snprintf(name, sizeof name, "group_%zu", i);
        ok = kf_set(groups, name, group(q, q->format[i]));
    }
    if (ok) return groups;
    json_decref(groups);
    return NULL;
}

const char *kf_config_contradiction(const kf_config_key *key, const json_t *object,
                                    const kf_configured *q, const kerf_format *f)
{
    for (; key->name; key++) {
        const json_t *there = json_object_get(object, key->name);
        json_t *ours = NULL;
        if (!key->agrees || !there || !key->value(key, q, f, &ours) || !ours) continue;
        const int agrees = key->agrees(there, ours, q, f);
        json_decref(ours);
        if (!agrees) return key->name;
    }
    return NULL;
}

/* Values of another type say nothing that could be wrong: null, "auto". */
int kf_is_same(const json_t *there, const json_t *ours, const kf_configured *q,
               const kerf_format *f)
{
    (void)q;
    (void)f;
    if (json_is_boolean(there) && json_is_boolean(ours))
        return json_is_true(there) == json_is_true(ours);
    return json_typeof(there) != json_typeof(ours) || json_equal(there, ours);
}

/* --- values that several layouts have ------------------------------------------------------- */

/* Written back and compared: when memory runs out, jansson may read a text with a letter less. */
int kf_say_literal(KF_VALUE_ARGS)
{
    kf_text t = {0};
    (void)q;
    (void)f;
    *out = json_loads(k->literal, JSON_DECODE_ANY, NULL);
    kf_text_add_json(&t, *out, JSON_ENCODE_ANY);
    const int ok = !t.failed && strcmp(t.p, k->literal) == 0;
    free(t.p);
    if (ok) return 1;
    json_decref(*out);
    return kf_give(out, NULL);
}

int kf_say_bits(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    return kf_give(out, json_integer((json_int_t)f->bits));
}

int kf_say_group(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    if (f->geometry != KERF_GROUP_BLOCK) return kf_leave_out(out);
    return kf_give(out, json_integer((json_int_t)f->group));
}

int kf_say_symmetric(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    return kf_give(out, json_boolean(f->zero == KERF_ZERO_NONE));
}

/* What both compressed-tensors and Model-Optimizer call the element. */
int kf_say_type(KF_VALUE_ARGS)
{
    const int is_float = f->element == KERF_ELEM_E2M1 || f->element == KERF_ELEM_E4M3;
    (void)k;
    (void)q;
    return kf_give(out, json_string(is_float ? "float" : "int"));
}

int kf_say_tile(KF_VALUE_ARGS)
{
    (void)k;
    (void)q;
    if (f->geometry != KERF_GROUP_TILE) return kf_leave_out(out);
    return kf_give(out, json_pack("[i, i]", f->group, f->group));
}

/* --- layers that are not quantized ---------------------------------------------------------- */

const json_t *kf_config_kept(const json_t *object)
{
    static const char *const keys[] = {"ignore", "exclude_modules", "modules_to_not_convert",
                                       "llm_int8_skip_modules", "ignored_layers"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *list = json_object_get(object, keys[i]);
        if (json_is_array(list)) return list;
    }
    return NULL;
}

/* Stacked experts are parameters of a module, not modules: X.experts has X.experts.down_proj. */
static int is_module(const kerf_weight *w)
{
    return kf_has_suffix(w->name, ".weight") || (w->shape.rank == 3 && strchr(w->name, '.'));
}

json_t *kf_module_name(const kerf_weight *w)
{
    return json_stringn(w->name, (size_t)(strrchr(w->name, '.') - w->name));
}

static int is_listed(const json_t *list, const json_t *name)
{
    size_t i;
    const json_t *other;
    json_array_foreach(list, i, other)
    {
        if (json_equal(other, name)) return 1;
    }
    return 0;
}

/* Every module with a matrix that was not quantized. The output head is named even when it is not
 * in the files: tied to the embedding, it is a layer all the same. */
int kf_say_kept(KF_VALUE_ARGS)
{
    json_t *list = json_array();
    int has_head = 0, ok = list != NULL;
    (void)k;
    (void)f;
    for (size_t i = 0; ok && i < q->count; i++) {
        const kerf_weight *w = &q->weights[i];
        has_head |= w->place.role == KERF_ROLE_HEAD;
        if (w->codec.format || !is_module(w) || w->shape.rank < 2) continue;
        json_t *name = kf_module_name(w);
        const int is_there = w->shape.rank == 3 && is_listed(list, name); /* other stacks of it */
        ok = name && (is_there || json_array_append(list, name) == 0);
        json_decref(name);
    }
    if (ok && !has_head) ok = json_array_append_new(list, json_string("lm_head")) == 0;
    if (ok) return kf_give(out, list);
    json_decref(list);
    return kf_give(out, NULL);
}

json_t *kf_modules_of(const kf_configured *q, const kerf_format *f)
{
    json_t *list = json_array();
    int ok = list != NULL;
    for (size_t i = 0; ok && i < q->count; i++)
        if (q->weights[i].codec.format == f)
            ok = json_array_append_new(list, kf_module_name(&q->weights[i])) == 0;
    if (ok) return list;
    json_decref(list);
    return NULL;
}

/* --- scales of inputs ----------------------------------------------------------------------- */

int kf_config_has_scale(const kf_configured *q, const kerf_format *f, const char *name)
{
    char end[64];
    size_t weights = 0, scales = 0;
    snprintf(end, sizeof end, ".%s", name);
    for (size_t i = 0; i < q->count; i++) {
        const kerf_weight *w = &q->weights[i];
        weights += w->codec.format == f;
        scales += !w->codec.format && w->dtype == KERF_F32 && kf_has_suffix(w->name, end);
    }
    return scales >= weights;
}

int kf_config_has_inputs(const kf_configured *q, const kerf_format *f)
{
    int is_inverse, is_vector;
    const char *name = kerf_layout_input(q->layout, f, &is_inverse, &is_vector);
    return name && kf_config_has_scale(q, f, name);
}
