/* verb_words.c - the table's fields become options, so that a request and a command line are
 * checked, refused and answered by the same code. */
#include "serve/verb_words.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "output.h"
#include "serve/http.h"
#include "serve/json_taken.h"

/* --- lists --------------------------------------------------------------------------------- */

static kerf_status KERF_PRINTF(3, 4) words_add(word_list *l, kerf_error *err, const char *fmt, ...)
{
    char *text = NULL;
    va_list list;
    if (l->count + 2 > l->room) {
        const size_t room = l->room ? 2 * l->room : 16;
        char **word = realloc(l->word, room * sizeof *word);
        if (!word) return kerf_fail(err, KERF_E_NOMEM, "no memory for a command line");
        l->word = word;
        l->room = room;
    }
    va_start(list, fmt);
    const int n = vasprintf(&text, fmt, list);
    va_end(list);
    if (n < 0) return kerf_fail(err, KERF_E_NOMEM, "no memory for a command line");
    l->word[l->count++] = text;
    l->word[l->count] = NULL;
    return KERF_OK;
}

void words_free(word_list *l)
{
    for (size_t i = 0; i < l->count; i++) free(l->word[i]);
    free(l->word);
    *l = (word_list){0};
}

/* --- values -------------------------------------------------------------------------------- */

/* A value as an option has it; room is BODY_MOST at most, for it came in a body of that. */
static kerf_status text_of(const field *f, const json_t *v, char **out, kerf_error *err)
{
    *out = NULL;
    if (f->kind == FIELD_MODEL || f->kind == FIELD_MODELS)
        return model_at(json_string_value(v), out, err);
    int n = 0;
    if (f->kind == FIELD_SHAPES)
        n = asprintf(out, "%.0fx%.0f", json_number_value(json_array_get(v, 0)),
                     json_number_value(json_array_get(v, 1)));
    else if (f->kind == FIELD_OUTPUT)
        n = asprintf(out, "%s/%s", serving.output ? serving.output : "", json_string_value(v));
    else if (json_is_number(v))
        n = asprintf(out, "%.0f", json_number_value(v));
    else
        n = asprintf(out, "%s", json_string_value(v));
    if (n < 0) *out = NULL;
    return n >= 0 ? KERF_OK : kerf_fail(err, KERF_E_NOMEM, "no memory for a command line");
}

static kerf_status add_list(word_list *l, const field *f, const json_t *v, kerf_error *err)
{
    char *joined = NULL, *text = NULL, *longer = NULL;
    kerf_status s = KERF_OK;
    for (size_t i = 0; s == KERF_OK && i < json_array_size(v); i++) {
        s = text_of(f, json_array_get(v, i), &text, err);
        if (s == KERF_OK && f->repeats) {
            s = f->option ? words_add(l, err, "--%s=%s", f->option, text)
                          : words_add(l, err, "%s", text);
        } else if (s == KERF_OK) {
            if (asprintf(&longer, "%s%s%s", joined ? joined : "", joined ? "," : "", text) < 0)
                s = kerf_fail(err, KERF_E_NOMEM, "no memory for a command line");
            free(joined);
            joined = s == KERF_OK ? longer : NULL;
        }
        free(text);
    }
    if (s == KERF_OK && joined) s = words_add(l, err, "--%s=%s", f->option, joined);
    free(joined);
    return s;
}

static kerf_status add_config(word_list *l, const field *f, const json_t *v, const char *path,
                              kerf_error *err)
{
    if (!path || json_dump_file(v, path, 0) != 0)
        return kerf_fail(err, KERF_E_IO, "a config cannot be kept for the verb");
    return f->option ? words_add(l, err, "--%s=%s", f->option, path)
                     : words_add(l, err, "%s", path);
}

static kerf_status add_field(word_list *l, const field *f, const json_t *v, const char *config,
                             kerf_error *err)
{
    char *text = NULL;
    if (f->option && !f->option[0]) return KERF_OK; /* the endpoint takes it */
    if (f->kind == FIELD_SWITCH)
        return json_is_true(v) ? words_add(l, err, "--%s", f->option) : KERF_OK;
    if (f->kind == FIELD_CONFIG) return add_config(l, f, v, config, err);
    if (json_is_array(v)) return add_list(l, f, v, err);
    TRY(text_of(f, v, &text, err));
    const kerf_status s =
        f->option ? words_add(l, err, "--%s=%s", f->option, text) : words_add(l, err, "%s", text);
    free(text);
    return s;
}

void config_make(const json_t *body, char path[CONFIG_PATH])
{
    snprintf(path, CONFIG_PATH, "/tmp/kerf-serve-XXXXXX-config.json");
    const int fd = json_object_get(body, "config") ? mkstemps(path, 12) : -1;
    if (fd < 0 || (close(fd) != 0 && unlink(path) == 0)) path[0] = 0;
}

void config_end(const char *path, char *text)
{
    const char *own = unlink(path) == 0 ? strstr(path, "config.json") : NULL; /* "": no file */
    for (char *at = text; own && (at = strstr(at, path)) != NULL;)
        memmove(at, at + (own - path), strlen(at + (own - path)) + 1);
}

/* Options first, then what is no option behind "--". */
kerf_status words_of(const route *r, const json_t *body, const char *config,
                     const char *const *extra, word_list *out, kerf_error *err)
{
    TRY(words_add(out, err, "%s", r->verb));
    TRY(words_add(out, err, "--json"));
    for (; extra && *extra; extra++) TRY(words_add(out, err, "--%s", *extra));
    for (int operands = 0; operands < 2; operands++) {
        if (operands) TRY(words_add(out, err, "--"));
        if (operands && r->operand) TRY(words_add(out, err, "%s", r->operand));
        for (const field *f = r->fields; f && f->name; f++) {
            const json_t *v = json_object_get(body, f->name);
            if (v && (f->option == NULL) == operands) TRY(add_field(out, f, v, config, err));
        }
    }
    return KERF_OK;
}

int device_of(const json_t *body)
{
    const char *text = json_string_value(json_object_get(body, "device"));
    if (!text || strcmp(text, "cpu") == 0) return 0;
    return text[4] == ':' ? 1 + text[5] - '0' : 1;
}

/* --- here and now -------------------------------------------------------------------------- */

/* Verbs print to one stream and keep texts in static buffers: one at a time. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static kerf_status run_words(const word_list *l, FILE *to, kerf_error *err)
{
    const verb *v = NULL, *other;
    args *a = NULL;
    int help = 0;
    for (size_t i = 0; (other = verb_at(i)) != NULL; i++)
        if (strcmp(other->name, l->word[0]) == 0) v = other;
    if (!v) return kerf_fail(err, KERF_E_NOSUP, "this kerf has no verb %.40s", l->word[0]);
    TRY(args_parse(v, (int)l->count - 1, l->word + 1, &a, &help, err));
    set_documents(to);
    const int result = help ? EXIT_INTERNAL : v->run(a, err);
    set_documents(NULL);
    args_free(a);
    if (result <= 0) return (kerf_status)result;
    return kerf_fail(err, KERF_E_DATA, "kerf %.40s ended with %d", l->word[0], result);
}

kerf_status run_here(const word_list *l, char **text, size_t *n, kerf_error *err)
{
    *text = NULL;
    FILE *to = open_memstream(text, n);
    if (!to) return kerf_fail(err, KERF_E_NOMEM, "no memory for an answer");
    pthread_mutex_lock(&one_at_a_time);
    (void)json_lacked_memory();
    kerf_status s = run_words(l, to, err);
    const int lacked = json_lacked_memory();
    pthread_mutex_unlock(&one_at_a_time);
    if ((fclose(to) != 0 && s == KERF_OK) || lacked)
        s = kerf_fail(err, KERF_E_NOMEM, "no memory for an answer");
    if (s == KERF_OK) return KERF_OK;
    free(*text);
    *text = NULL;
    return s;
}
