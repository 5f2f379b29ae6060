/* fields.c - checks bodies of requests against the rows of their route. */
#include <math.h>
#include <string.h>

#include <kerf/hardware.h>

#include "serve/routes.h"

enum { TEXT_MOST = 240 };

/* --- texts --------------------------------------------------------------------------------- */

static int is_word_of(const char *words, const char *text)
{
    const size_t n = strlen(text);
    for (const char *p = words; n && *p;) {
        const size_t k = strcspn(p, "|");
        if (k == n && strncmp(p, text, n) == 0) return 1;
        p += k + (p[k] == '|');
    }
    return 0;
}

/* Letters and digits, and these others. */
static int is_made_of(const char *text, const char *others)
{
    static const char usual[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const size_t n = strlen(text);
    while (*text && (strchr(usual, *text) || strchr(others, *text))) text++;
    return n > 0 && n <= TEXT_MOST && !*text;
}

/* Text of any script on one line. */
static int is_line(const char *text)
{
    size_t n = 0;
    for (; *text; n += (*text++ & 0xc0) != 0x80) /* not for bytes that continue a character */
        if ((unsigned char)*text < 0x20 || *text == 0x7f) return 0;
    return n > 0 && n <= TEXT_MOST;
}

/* A path that stays below where it begins. */
static int is_below(const char *text)
{
    if (text[0] == '/' || !is_line(text)) return 0;
    for (const char *p = text; p; p = strchr(p, '/')) {
        if (*p == '/') p++;
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return 0;
    }
    return 1;
}

static int text_fits(const field *f, const char *text)
{
    switch (f->kind) {
    case FIELD_WORD: return is_word_of(f->words, text);
    case FIELD_HARDWARE: return kerf_hardware_find(text) != NULL;
    case FIELD_FORMAT:
    case FIELD_FORMATS: return kerf_format_find(text) != NULL;
    case FIELD_CODEC: return is_made_of(text, ":/._-");
    case FIELD_CODECS: return is_made_of(text, ":/._-*?[]");
    case FIELD_LIMITS: return text[0] >= '0' && text[0] <= '9' && is_made_of(text, ".:/");
    case FIELD_RANGE: return text[0] >= '0' && text[0] <= '9' && !text[strspn(text, "0123456789:")];
    case FIELD_GLOBS: return is_made_of(text, "._-*?[]/!");
    case FIELD_RULES: return strchr(text, '=') && is_made_of(text, "._-*?[]/!=:");
    case FIELD_MODEL:
    case FIELD_MODELS: return is_below(text);
    case FIELD_OUTPUT: return text[0] != '.' && text[0] != '-' && is_made_of(text, "._-");
    default: return 0;
    }
}

/* What a text of this kind is, for errors. */
static const char *text_wanted(const field *f)
{
    switch (f->kind) {
    case FIELD_WORD: return f->words;
    case FIELD_HARDWARE: return "a name that /api/v1/hardware lists";
    case FIELD_FORMAT:
    case FIELD_FORMATS: return "a name that /api/v1/formats lists";
    case FIELD_CODEC:
    case FIELD_CODECS: return "FORMAT or FORMAT:ENCODER";
    case FIELD_LIMITS: return "a limit, as 4.5bits, 3GiB, 250us or 90tok/s";
    case FIELD_RANGE: return "rows from and to, as 128:256";
    case FIELD_GLOBS: return "a pattern of tensor names";
    case FIELD_RULES: return "GLOB=FORMAT";
    case FIELD_MODEL:
    case FIELD_MODELS: return "a name that /api/v1/models lists";
    default: return "a name of letters, digits, dots and dashes";
    }
}

/* --- values -------------------------------------------------------------------------------- */

int field_is_list(field_kind k)
{
    return k == FIELD_FORMATS || k == FIELD_CODECS || k == FIELD_LIMITS || k == FIELD_GLOBS ||
           k == FIELD_RULES || k == FIELD_INTEGERS || k == FIELD_SHAPES || k == FIELD_MODELS;
}

static int in_range(const field *f, const json_t *v)
{
    const double x = json_number_value(v);
    return json_is_number(v) && x >= f->lo && x <= f->hi &&
           (f->kind == FIELD_NUMBER || floor(x) == x);
}

static kerf_status check_one(const field *f, const json_t *v, kerf_error *err)
{
    if (f->kind == FIELD_SHAPES) {
        if (json_array_size(v) == 2 && in_range(f, json_array_get(v, 0)) &&
            in_range(f, json_array_get(v, 1)))
            return KERF_OK;
        return USAGE(err, "%s: expected [outputs, inputs], from 1 each", f->name);
    }
    if (f->kind == FIELD_INTEGER || f->kind == FIELD_INTEGERS || f->kind == FIELD_NUMBER) {
        if (in_range(f, v)) return KERF_OK;
        return USAGE(err, "%s: expected a %snumber from %g to %.10g", f->name,
                     f->kind == FIELD_NUMBER ? "" : "whole ", f->lo, f->hi);
    }
    if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v) &&
        text_fits(f, json_string_value(v)))
        return KERF_OK;
    return USAGE(err, "%s: expected %s", f->name, text_wanted(f));
}

kerf_status field_check(const field *f, const json_t *v, kerf_error *err)
{
    if (f->kind == FIELD_SWITCH)
        return json_is_boolean(v) ? KERF_OK : USAGE(err, "%s: expected true or false", f->name);
    if (f->kind == FIELD_CONFIG)
        return json_is_object(v) ? KERF_OK : USAGE(err, "%s: expected an object", f->name);
    if (!field_is_list(f->kind)) return check_one(f, v, err);
    const size_t n = json_array_size(v);
    if (n < 1 || n > FIELD_LIST_MOST)
        return USAGE(err, "%s: expected a list of 1 to %d", f->name, FIELD_LIST_MOST);
    for (size_t i = 0; i < n; i++) TRY(check_one(f, json_array_get(v, i), err));
    return KERF_OK;
}

static const field *find_field(const field *f, const char *name)
{
    for (; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

kerf_status body_check(const route *r, const json_t *body, kerf_error *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(body)) return USAGE(err, "the body is no JSON object");
    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        const field *f = find_field(r->fields, name);
        if (!f) return USAGE(err, "no such field: %.80s; /api/v1/openapi.json has them", name);
        TRY(field_check(f, value, err));
    }
    for (const field *f = r->fields; f->name; f++)
        if (f->required && !json_object_get(body, f->name))
            return USAGE(err, "%s is missing: %s", f->name, f->note);
    return KERF_OK;
}
