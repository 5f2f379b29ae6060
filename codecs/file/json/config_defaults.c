/* config_defaults.c - the table of what configurations leave out (config_defaults.def). */
#include "file/json/config_defaults.h"

#include <string.h>

static const struct {
    const char *types, *json;
} classes[] = {
#define KERF_CONFIG_DEFAULTS(types, ...) {types, #__VA_ARGS__},
#include "file/json/config_defaults.def"
#undef KERF_CONFIG_DEFAULTS
};

static const char *defaults_of(const char *type)
{
    const size_t n = strlen(type);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        for (const char *at = classes[i].types; *at;) {
            const size_t m = strcspn(at, " ");
            if (m == n && memcmp(at, type, n) == 0) return classes[i].json;
            at += m + (at[m] == ' ');
        }
    return NULL;
}

kerf_status kf_config_complete(const json_t *language, const char *outer, json_t **out,
                               kerf_error *err)
{
    const char *own = json_string_value(json_object_get(language, "model_type"));
    const char *type = own ? own : outer;
    const char *text = type ? defaults_of(type) : NULL;
    *out = json_copy((json_t *)language);
    json_t *defaults = text ? json_loads(text, 0, NULL) : NULL;
    if (*out && (!text || (defaults && json_object_update_missing(*out, defaults) == 0))) {
        json_decref(defaults);
        return KERF_OK;
    }
    json_decref(defaults);
    json_decref(*out);
    *out = NULL;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a configuration");
}
