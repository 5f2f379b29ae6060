/* page_file.c - the page as one file that needs no server: style and script stand in it, and the
 * answers that its controls can ask for, computed beforehand by the same verbs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <kerf/file.h>
#include <kerf/hardware.h>

#include "options_products.h"
#include "output.h"
#include "serve/job_journal.h"
#include "serve/jobs.h"
#include "serve/json_built.h"
#include "serve/page.h"
#include "serve/verb_words.h"

#define SHAPES                                                                               \
    "4096x4096,6144x4096,4096x14336,14336x4096,28672x4096,128256x4096,8192x8192,8192x28672," \
    "28672x8192,57344x8192,2048x7168,7168x2048"
#define BATCHES "1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192"

static kerf_status ask_verb(const char *const *word, json_t **doc, kerf_error *err)
{
    word_list words = {.word = (char **)(uintptr_t)word};
    char *text = NULL;
    size_t n = 0;
    while (word[words.count]) words.count++;
    TRY(run_here(&words, &text, &n, err));
    *doc = json_loadb(text, n, 0, NULL);
    free(text);
    return *doc ? KERF_OK : kerf_fail(err, KERF_E_NOMEM, "no memory for the page");
}

static int has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (; *words; words += strcspn(words, " "), words += *words == ' ')
        if (strncmp(words, word, n) == 0 && (!words[n] || words[n] == ' ')) return 1;
    return 0;
}

/* The page has no use for other keys, of which there are thousands of rows. */
static void keep_keys(json_t *row, const char *keys)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(row, next, key, value)
    {
        if (!has_word(keys, key)) json_object_del(row, key);
    }
}

/* --- products and steps ---------------------------------------------------------------------- */

static kerf_status add_products(json_t **page, const page_options *o, kerf_error *err)
{
    json_t *doc = NULL, *row;
    size_t i;
    const char *const words[] = {"predict",    "--json",
                                 "--hardware", o->hardware,
                                 "--shape",    o->shapes ? o->shapes : SHAPES,
                                 "-f",         PRODUCT_FORMATS,
                                 "--batch",    BATCHES,
                                 NULL};
    TRY(ask_verb(words, &doc, err));
    json_t *rows = json_object_get(doc, "predictions");
    json_array_foreach(rows, i, row) keep_keys(
        row, "n k batch format tier low_us us high_us intensity ridge bound bytes flops speedup");
    json_set(page, "products", json_incref(rows));
    json_decref(doc);
    return KERF_OK;
}

static void trim_step(json_t *doc)
{
    size_t i, k;
    json_t *p, *operator_;
    json_array_foreach(json_object_get(doc, "predictions"), i, p)
        json_array_foreach(json_object_get(p, "operators"), k, operator_)
            keep_keys(operator_, "name count bytes us bound");
}

/* Every phase, type of the cache and context that the page offers. */
static kerf_status add_steps(json_t **page, const char *hardware, const char *model,
                             kerf_error *err)
{
    static const char *const contexts[] = {"1024", "4096", "16384", "65536"};
    static const char *const caches[] = {"bf16", "fp8-e4m3"};
    json_t *steps = json_array();
    kerf_status s = KERF_OK;
    for (int i = 0; s == KERF_OK && i < 16; i++) {
        json_t *doc = NULL;
        const char *const words[] = {"predict", "--json",        "--hardware",
                                     hardware,  "--model",       model,
                                     "-f",      PRODUCT_FORMATS, "--batch",
                                     "1,8,32",  "--context",     contexts[i / 4],
                                     "--kv",    caches[i & 1],   i & 2 ? "--prefill" : NULL,
                                     NULL};
        s = ask_verb(words, &doc, err);
        trim_step(doc);
        json_set(&doc, "kv", json_string(caches[i & 1]));
        if (s == KERF_OK) json_add(&steps, doc);
    }
    if (s != KERF_OK) json_decref(steps);
    if (s == KERF_OK) json_set(page, "steps", steps);
    return s;
}

/* --- what was advised ------------------------------------------------------------------------ */

static kerf_status read_advice(const page_options *o, json_t **advice, kerf_error *err)
{
    if (!o->advice) return KERF_OK;
    TRY(document_read(o->advice, advice, err));
    const char *schema = json_string_value(json_object_get(*advice, "schema"));
    if (schema && strcmp(schema, "kerf.advise/1") == 0) return KERF_OK;
    json_decref(*advice);
    *advice = NULL;
    return kerf_fail(err, KERF_E_DATA,
                     "%.300s is no advice; kerf advise MODEL --budget B --json > %.60s makes one",
                     o->advice, "advice.json");
}

static kerf_status add_advice(json_t **page, json_t *advice, const char *source, kerf_error *err)
{
    json_t *solutions = NULL;
    const char *name = strrchr(source, '/');
    TRY(advice_solutions(advice, &solutions, err));
    json_set(page, "solutions", solutions);
    json_set(page, "advice", json_incref(advice));
    json_set(page, "jobs",
             json_pack("[{s:i, s:s, s:s, s:{s:o, s:[s]}}]", "id", 1, "verb", "advise", "state",
                       "done", "request", "model", json_path(name && name[1] ? name + 1 : source),
                       "budget", "as advised"));
    return KERF_OK;
}

/* --- the file -------------------------------------------------------------------------------- */

/* Where a line of the page is that names another file; what stands there is put in its place. */
static kerf_status put_page(FILE *to, const char *data, kerf_error *err)
{
    static const char style[] = "<link rel=\"stylesheet\" href=\"page.css\">";
    static const char script[] = "<script src=\"page.js\" defer></script>", end[] = "</body>";
    const char *html = (const char *)page_html, *last = html + page_html_size;
    const char *at = memmem(html, page_html_size, style, sizeof style - 1);
    const char *js = memmem(html, page_html_size, script, sizeof script - 1);
    const char *body = memmem(html, page_html_size, end, sizeof end - 1);
    if (!at || js < at || body < js)
        return kerf_fail(err, KERF_E_NOSUP, "this kerf's page is none that can be one file");
    fwrite(html, 1, (size_t)(at - html), to);
    fprintf(to, "<style>\n%.*s</style>", (int)page_css_size, (const char *)page_css);
    at += sizeof style - 1;
    fwrite(at, 1, (size_t)(js - at), to);
    js += sizeof script - 1;
    fwrite(js, 1, (size_t)(body - js), to);
    fputs("<script type=\"application/json\" id=\"data\">", to);
    for (; *data; data++) /* no text in it may end or begin an element */
        if (*data == '<')
            fputs("\\u003c", to);
        else
            putc(*data, to);
    fprintf(to, "</script>\n<script>\n%.*s</script>\n", (int)page_js_size, (const char *)page_js);
    fwrite(body, 1, (size_t)(last - body), to);
    return KERF_OK;
}

static kerf_status write_page(const page_options *o, json_t *page, kerf_error *err)
{
    char *text = NULL, *data = page ? json_dumps(page, JSON_COMPACT) : NULL;
    size_t n = 0;
    FILE *to = data ? open_memstream(&text, &n) : NULL;
    kerf_status s = to ? put_page(to, data, err) : KERF_OK;
    const int whole = to && !ferror(to);
    if (!to || fclose(to) != 0 || !whole)
        s = kerf_fail(err, KERF_E_NOMEM, "no memory for the page");
    if (s == KERF_OK) s = write_file(o->path, text, n, o->overwrite, err);
    free(text);
    free(data);
    return s;
}

/* The advice may name its model and its machine, so this is known only after it was read. */
static kerf_status check_sources(const page_options *o, kerf_error *err)
{
    const char *source[3];
    kerf_files f = {.source = source, .output = &o->path, .outputs = 1};
    if (o->advice) source[f.sources++] = o->advice;
    if (o->model) source[f.sources++] = o->model;
    if (!kerf_hardware_find(o->hardware)) source[f.sources++] = o->hardware;
    return kerf_files_check(&f, err);
}

kerf_status page_write(const page_options *given, kerf_error *err)
{
    static const char *const version[] = {"version", "--json", NULL};
    page_options o = *given;
    json_t *page = json_object(), *advice = NULL, *doc = NULL;
    struct stat st;
    kerf_status s = read_advice(&o, &advice, err);
    const char *source = json_string_value(json_object_get(advice, "source"));
    if (!o.hardware) o.hardware = json_string_value(json_object_get(advice, "hardware"));
    if (!o.hardware) o.hardware = "h200";
    if (!o.model && source && stat(source, &st) == 0) o.model = source;
    /* what a file says is no option of a verb */
    const char *const machine[] = {"hardware", "--json", "--", o.hardware, NULL};
    if (s == KERF_OK) s = check_sources(&o, err);
    if (s == KERF_OK) s = ask_verb(version, &doc, err);
    if (s == KERF_OK) json_set(&page, "version", doc);
    if (s == KERF_OK) s = ask_verb(machine, &doc, err);
    if (s == KERF_OK) json_set(&page, "hardware", doc);
    if (s == KERF_OK) s = add_products(&page, &o, err);
    if (s == KERF_OK && o.model) s = add_steps(&page, o.hardware, o.model, err);
    if (s == KERF_OK && advice) s = add_advice(&page, advice, source ? source : "?", err);
    if (s == KERF_OK) s = write_page(&o, page, err);
    json_decref(page);
    json_decref(advice);
    return s;
}
