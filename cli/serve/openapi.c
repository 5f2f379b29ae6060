/* openapi.c - the table of routes as an OpenAPI 3.1 document: what is checked and what is
 * documented are the same rows. */
#include <string.h>

#include <kerf/hardware.h>

#include "serve/json_built.h"
#include "serve/routes.h"

/* --- fields -------------------------------------------------------------------------------- */

static json_t *words_json(const char *words)
{
    json_t *all = json_array();
    for (const char *p = words; *p;) {
        const size_t n = strcspn(p, "|");
        json_add(&all, json_stringn(p, n));
        p += n + (p[n] == '|');
    }
    return all;
}

static json_t *names_json(field_kind k)
{
    json_t *all = json_array();
    const kerf_hardware *h;
    const kerf_format *f;
    for (size_t i = 0; k == FIELD_HARDWARE && (h = kerf_hardware_at(i)) != NULL; i++)
        json_add(&all, json_string(h->name));
    for (size_t i = 0; k != FIELD_HARDWARE && (f = kerf_format_at(i)) != NULL; i++)
        json_add(&all, json_string(f->name));
    return all;
}

static json_t *pattern_json(const char *pattern)
{
    return json_pack("{s:s, s:s, s:i}", "type", "string", "pattern", pattern, "maxLength", 240);
}

static json_t *one_json(const field *f)
{
    const json_int_t lo = (json_int_t)f->lo, hi = (json_int_t)f->hi;
    switch (f->kind) {
    case FIELD_INTEGER:
    case FIELD_INTEGERS:
        return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", lo, "maximum", hi);
    case FIELD_NUMBER:
        return json_pack("{s:s, s:f, s:f}", "type", "number", "minimum", f->lo, "maximum", f->hi);
    case FIELD_SWITCH: return json_pack("{s:s}", "type", "boolean");
    case FIELD_WORD: return json_pack("{s:s, s:o}", "type", "string", "enum", words_json(f->words));
    case FIELD_HARDWARE:
    case FIELD_FORMAT:
    case FIELD_FORMATS:
        return json_pack("{s:s, s:o}", "type", "string", "enum", names_json(f->kind));
    case FIELD_CODEC: return pattern_json("^[A-Za-z0-9:/._-]+$");
    case FIELD_CODECS: return pattern_json("^[A-Za-z0-9:/._*?\\[\\]-]+$");
    case FIELD_LIMITS: return pattern_json("^[0-9][A-Za-z0-9.:/]*$");
    case FIELD_RANGE: return pattern_json("^[0-9][0-9:]*$");
    case FIELD_GLOBS: return pattern_json("^[A-Za-z0-9._*?\\[\\]/!-]+$");
    case FIELD_RULES:
        return pattern_json("^[A-Za-z0-9._*?\\[\\]/!:-]*=[A-Za-z0-9._*?\\[\\]/!=:-]*$");
    case FIELD_SHAPES:
        return json_pack("{s:s, s:i, s:i, s:{s:s, s:I, s:I}}", "type", "array", "minItems", 2,
                         "maxItems", 2, "items", "type", "integer", "minimum", lo, "maximum", hi);
    case FIELD_MODEL:
    case FIELD_MODELS: return pattern_json("^(?!/)(?!(.*/)?\\.\\.(/|$))[^\\x00-\\x1f\\x7f]+$");
    case FIELD_CONFIG: return json_pack("{s:s}", "type", "object");
    case FIELD_OUTPUT: return pattern_json("^[A-Za-z0-9_][A-Za-z0-9._-]*$");
    }
    return NULL;
}

static json_t *field_json(const field *f)
{
    json_t *one = one_json(f);
    if (field_is_list(f->kind))
        one = json_pack("{s:s, s:i, s:i, s:o}", "type", "array", "minItems", 1, "maxItems",
                        FIELD_LIST_MOST, "items", one);
    json_set(&one, "description", json_string(f->note));
    return one;
}

static json_t *body_json(const route *r)
{
    json_t *all = json_object(), *needed = json_array();
    for (const field *f = r->fields; f->name; f++) {
        json_set(&all, f->name, field_json(f));
        if (f->required) json_add(&needed, json_string(f->name));
    }
    json_t *schema = json_pack("{s:s, s:b, s:o}", "type", "object", "additionalProperties", 0,
                               "properties", all);
    if (json_array_size(needed))
        json_set(&schema, "required", needed);
    else
        json_decref(needed);
    if (json_object_get(all, "config")) /* and the other one is left out */
        json_set(&schema, "oneOf",
                 json_pack("[{s:[s]}, {s:[s]}]", "required", "model", "required", "config"));
    json_t *type = json_pack("{s:o}", "schema", schema);
    if (r->example) json_set(&type, "example", json_loads(r->example, 0, NULL));
    return json_pack("{s:b, s:{s:o}}", "required", 1, "content", "application/json", type);
}

/* --- answers ------------------------------------------------------------------------------- */

static json_t *answer_json(const route *r)
{
    if (!r->schema)
        return json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", r->note, "content", r->type,
                         "schema", "type", "string");
    char schema[64];
    snprintf(schema, sizeof schema, "kerf.%s/1", r->schema);
    json_t *shape = json_pack("{s:s}", "type", "object");
    const int other = strcmp(r->schema, "openapi") == 0 || strcmp(r->schema, "result") == 0;
    if (!other) json_set(&shape, "properties", json_pack("{s:{s:s}}", "schema", "const", schema));
    if (!other) json_set(&shape, "required", json_pack("[s]", "schema"));
    return json_pack("{s:s, s:{s:{s:o}}}", "description", r->note, "content", "application/json",
                     "schema", shape);
}

static json_t *failure_json(const char *what)
{
    return json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", what, "content", "application/json",
                     "schema", "$ref", "#/components/schemas/Error");
}

static json_t *answers_json(const route *r, int with_token)
{
    char status[8];
    snprintf(status, sizeof status, "%d", r->status);
    json_t *all = json_pack("{s:o}", status, answer_json(r));
    json_set(&all, "403", failure_json("another page asks"));
    json_set(&all, "421", failure_json("another host is asked"));
    if (with_token) json_set(&all, "401", failure_json("no token, or another"));
    if (strchr(r->path, '{')) {
        json_set(&all, "404", failure_json("no such job"));
        json_set(&all, "409", failure_json("the job is not as far, or is no such job"));
    }
    if (!r->fields) return all;
    static const char *const codes[] = {"400", "408", "413", "415"};
    static const char *const words[] = {"the body is not as it must be", "the body came too slowly",
                                        "the body is too large", "the body is no JSON"};
    for (size_t i = 0; i < 4; i++) json_set(&all, codes[i], failure_json(words[i]));
    if (!json_object_get(all, "404")) json_set(&all, "404", failure_json("no such model"));
    json_set(&all, "422", failure_json("well formed, and cannot be done"));
    json_set(&all, "429", failure_json("too many jobs wait"));
    json_set(&all, "503", failure_json("there is no memory for it"));
    return all;
}

static json_t *operation_json(const route *r, int with_token)
{
    json_t *op =
        json_pack("{s:s, s:o}", "summary", r->note, "responses", answers_json(r, with_token));
    if (r->fields) json_set(&op, "requestBody", body_json(r));
    if (strchr(r->path, '{'))
        json_set(&op, "parameters",
                 json_pack("[{s:s, s:s, s:b, s:{s:s, s:i}}]", "name", "id", "in", "path",
                           "required", 1, "schema", "type", "integer", "minimum", 1));
    return op;
}

json_t *openapi_document(int with_token)
{
    json_t *paths = json_object();
    const route *r;
    int failed = 0;
    for (size_t i = 0; (r = route_at(i)) != NULL; i++) {
        char method[8] = "";
        for (size_t k = 0; k + 1 < sizeof method && r->method[k]; k++)
            method[k] = (char)(r->method[k] | 0x20);
        json_t *path = json_object_get(paths, r->path);
        if (!path) {
            failed |= json_object_set_new(paths, r->path, json_object());
            path = json_object_get(paths, r->path);
        }
        failed |= json_object_set_new(path, method, operation_json(r, with_token));
    }
    json_t *doc = json_pack(
        "{s:s, s:{s:s, s:s, s:s}, s:o, s:{s:{s:{s:s, s:[s,s], s:{s:{s:s}, s:{s:s}}}}}}", "openapi",
        "3.1.0", "info", "title", "kerf", "version", KERF_VERSION_TEXT, "description",
        "What the command kerf does, over HTTP. Every answer is the document of --json.", "paths",
        paths, "components", "schemas", "Error", "type", "object", "required", "schema", "error",
        "properties", "schema", "const", "kerf.error/1", "error", "type", "string");
    if (with_token) {
        failed |= json_object_set_new(
            json_object_get(doc, "components"), "securitySchemes",
            json_pack("{s:{s:s, s:s}}", "token", "type", "http", "scheme", "bearer"));
        failed |= json_object_set_new(doc, "security", json_pack("[{s:[]}]", "token"));
    }
    if (!failed) return doc;
    json_decref(doc); /* there is no memory for all of it */
    return NULL;
}
