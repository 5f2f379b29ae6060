/* answers.c - the rows of the table that are answered at once, and those that become jobs. */
#include <stdlib.h>
#include <string.h>

#include <kerf/cuda.h>

#include "serve/jobs.h"
#include "serve/json_built.h"
#include "serve/json_taken.h"
#include "serve/monitoring.h"
#include "serve/verb_words.h"

/* --- what the server is --------------------------------------------------------------------- */

int answer_index(request *r)
{
    json_t *all = json_array();
    const route *row;
    for (size_t i = 0; (row = route_at(i)) != NULL; i++)
        json_add(&all, json_pack("{s:s, s:s, s:s}", "method", row->method, "path", row->path,
                                 "note", row->note));
    return reply_json(r, 200, json_pack("{s:s, s:o}", "schema", "kerf.index/1", "routes", all));
}

int answer_openapi(request *r)
{
    return reply_json(r, 200, openapi_document(serving.token != NULL));
}

int answer_health(request *r)
{
    size_t count[JOB_STATES];
    json_t *by_state = json_object();
    jobs_count(count);
    for (int s = 0; s < JOB_STATES; s++)
        json_set(&by_state, job_state_name((job_state)s), json_integer((json_int_t)count[s]));
    return reply_json(r, 200,
                      json_pack("{s:s, s:s, s:o, s:I}", "schema", "kerf.health/1", "status", "ok",
                                "jobs", by_state, "streams", (json_int_t)streams_count()));
}

int answer_models(request *r)
{
    json_t *all = NULL;
    kerf_error err = {0};
    const kerf_status s = models_list(&all, &err);
    if (s != KERF_OK) return reply_failure(r, s, &err);
    return reply_json(r, 200,
                      json_pack("{s:s, s:o, s:b}", "schema", "kerf.models/1", "models", all,
                                "output", serving.output != NULL));
}

/* --- verbs that answer at once ------------------------------------------------------------- */

/* A row's verb with the body's options and one more. */
static kerf_status ask(const request *r, const char *extra, char **text, size_t *n, kerf_error *err)
{
    const char *const more[] = {extra, NULL};
    char config[CONFIG_PATH];
    word_list words = {0};
    config_make(r->json, config);
    kerf_status s = words_of(r->route, r->json, config[0] ? config : NULL, more, &words, err);
    if (s == KERF_OK) s = run_here(&words, text, n, err);
    config_end(config, err->text);
    words_free(&words);
    return s;
}

/* Models are looked for now, so that a wrong name is told to the one who asks. */
static kerf_status check_models(const request *r, kerf_error *err)
{
    char *path = NULL;
    for (const field *f = r->route->fields; f && f->name; f++) {
        const json_t *v = json_object_get(r->json, f->name);
        if (v && f->kind == FIELD_OUTPUT && !serving.output)
            return kerf_fail(err, KERF_E_NOSUP,
                             "nothing is written: kerf serve --output DIR allows it");
        if (!v || f->kind != FIELD_MODEL) continue;
        TRY(model_at(json_string_value(v), &path, err));
        free(path);
    }
    return KERF_OK;
}

int answer_verb(request *r)
{
    char *text = NULL;
    size_t n = 0;
    kerf_error err = {0};
    if (r->json && !json_object_get(r->json, "model") == !json_object_get(r->json, "config"))
        return reply_error(r, 400, "model or config: one of the two");
    kerf_status s = check_models(r, &err);
    if (s == KERF_E_IO && !err.native) return reply_error(r, 404, "%s", err.text);
    if (s == KERF_OK) s = ask(r, NULL, &text, &n, &err);
    return s == KERF_OK ? reply_text(r, 200, "application/json", text, n)
                        : reply_failure(r, s, &err);
}

/* --- one product ---------------------------------------------------------------------------- */

static json_int_t integer_of(const request *r, const char *key, json_int_t otherwise)
{
    const json_t *v = json_object_get(r->json, key);
    return v ? (json_int_t)json_number_value(v) : otherwise;
}

/* What `kerf bench` has said of this product on this machine; null with the number of the job that
 * finds out. */
static kerf_status add_measured(const request *r, json_t **doc, kerf_error *err)
{
    int gpus = 0, id = 0;
    char allowed[40];
    const char *part;
    kerf_error why = {0};
    if (kerf_device_count(&gpus, &why) != KERF_OK) gpus = 0;
    json_t *body =
        json_pack("{s:I, s:I, s:I, s:[O], s:s}", "rows", integer_of(r, "rows", 1), "cols",
                  integer_of(r, "cols", 1), "batch", integer_of(r, "batch", 1), "formats",
                  json_object_get(r->json, "format"), "device", gpus ? "cuda" : "cpu");
    const route *measure = route_find("POST", "/api/v1/measure", &part, allowed);
    char *text = body ? job_known("bench", body, &id) : NULL;
    kerf_status s = body ? KERF_OK : kerf_fail(err, KERF_E_NOMEM, "no memory for a job");
    if (s == KERF_OK) s = body_check(measure, body, err);
    if (s == KERF_OK && !id) s = job_submit(measure, body, &id, err);
    json_t *known = text ? json_loads(text, 0, NULL) : NULL;
    json_t *row = json_array_get(json_object_get(known, "results"), 0);
    json_set(doc, "measured", row ? json_incref(row) : json_null());
    json_set(doc, "job", json_integer(id));
    json_decref(known);
    json_decref(body);
    free(text);
    return s;
}

int answer_analyze(request *r)
{
    char shape[64], *text = NULL;
    size_t n = 0;
    kerf_error err = {0};
    snprintf(shape, sizeof shape, "shape=%lldx%lld", (long long)integer_of(r, "rows", 1),
             (long long)integer_of(r, "cols", 1));
    kerf_status s = ask(r, shape, &text, &n, &err);
    if (s != KERF_OK) return reply_failure(r, s, &err);
    if (!json_is_true(json_object_get(r->json, "measure")))
        return reply_text(r, 200, "application/json", text, n);
    json_error_t why;
    json_t *doc = json_taken(text, n, &why);
    free(text);
    s = add_measured(r, &doc, &err);
    if (s == KERF_OK) return reply_json(r, 200, doc);
    json_decref(doc);
    if (s == KERF_E_LIMIT) return reply_error(r, 429, "%s", err.text);
    return reply_failure(r, s, &err);
}

/* --- many products -------------------------------------------------------------------------- */

/* The answers of one shape after the other, a line for each. */
typedef struct sweep {
    request ask; /* of its own, for the body must outlive the request */
    json_t *shapes;
    size_t shape;
    char *lines;
    size_t n, sent;
} sweep;

static void free_sweep(void *ctx)
{
    sweep *s = ctx;
    json_decref(s->ask.json);
    json_decref(s->shapes);
    free(s->lines);
    free(s);
}

/* All shapes in all formats, of one batch each: what cannot be computed is said before the answer
 * begins. Copies are deep: without memory a flat one lacks members and does not say so. */
static kerf_status check_sweep(const request *r, kerf_error *err)
{
    char *text = NULL;
    size_t n = 0;
    request all = {.route = r->route, .json = json_deep_copy(r->json)};
    if (!all.json) return kerf_fail(err, KERF_E_NOMEM, "no memory for a sweep");
    json_object_del(all.json, "batches");
    const kerf_status s = ask(&all, NULL, &text, &n, err);
    json_decref(all.json);
    free(text);
    return s;
}

/* Makes the lines of the next shape; none are left after the last one. */
static kerf_status next_shape(sweep *s, kerf_error *err)
{
    char *text = NULL;
    size_t n = 0, i, whole = 0;
    json_t *row, *shape = json_array_get(s->shapes, s->shape++);
    free(s->lines);
    s->lines = NULL;
    s->n = s->sent = 0;
    if (!shape) return KERF_OK;
    json_set(&s->ask.json, "shapes", json_pack("[O]", shape));
    if (s->ask.json) TRY(ask(&s->ask, NULL, &text, &n, err));
    json_error_t why;
    json_t *doc = text ? json_taken(text, n, &why) : NULL;
    json_t *rows = json_object_get(doc, "predictions");
    FILE *to = rows ? open_memstream(&s->lines, &s->n) : NULL;
    json_array_foreach(rows, i, row) whole +=
        to && json_dumpf(row, to, JSON_COMPACT) == 0 && fputc('\n', to) != EOF;
    const int closed = to && fclose(to) == 0 && whole == json_array_size(rows);
    json_decref(doc);
    free(text);
    if (closed) return KERF_OK;
    return kerf_fail(err, KERF_E_NOMEM, "no memory for a line");
}

/* What fails after the answer has begun is its last line. 0: there is no memory even for that, and
 * the answer is cut, so that nobody takes it for whole. */
static int end_sweep(sweep *s, kerf_status status, const kerf_error *err)
{
    json_t *doc = failure_json(status, err);
    free(s->lines);
    s->lines = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    s->n = s->lines ? strlen(s->lines) : 0;
    if (s->n) s->lines[s->n++] = '\n'; /* where its end was marked */
    s->shape = json_array_size(s->shapes);
    json_decref(doc);
    return s->n != 0;
}

static ssize_t read_sweep(void *ctx, uint64_t pos, char *to, size_t most)
{
    sweep *s = ctx;
    kerf_error err = {0};
    (void)pos;
    const kerf_status status = s->sent == s->n ? next_shape(s, &err) : KERF_OK;
    if (status != KERF_OK && !end_sweep(s, status, &err)) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (s->n == 0) return MHD_CONTENT_READER_END_OF_STREAM;
    const size_t left = s->n - s->sent, n = left < most ? left : most;
    memcpy(to, s->lines + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

int answer_sweep(request *r)
{
    kerf_error err = {0};
    sweep *s = calloc(1, sizeof *s);
    if (!s) return reply_error(r, 503, "no memory for a sweep");
    s->ask.route = r->route;
    s->ask.json = json_deep_copy(r->json);
    s->shapes = json_incref(json_object_get(r->json, "shapes"));
    kerf_status begins = check_sweep(r, &err);
    if (begins == KERF_OK) begins = next_shape(s, &err);
    struct MHD_Response *response =
        begins == KERF_OK
            ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_sweep, s, free_sweep)
            : NULL;
    if (response) return reply_response(r, 200, response, r->route->type);
    free_sweep(s);
    return begins == KERF_OK ? reply_error(r, 503, "no memory") : reply_failure(r, begins, &err);
}

/* --- jobs ----------------------------------------------------------------------------------- */

/* The number in a path; 0: none. */
static int id_of(const request *r)
{
    char *end = NULL;
    const long id = r->id ? strtol(r->id, &end, 10) : 0;
    return id > 0 && id < 1 << 30 && !*end ? (int)id : 0;
}

static int no_job(request *r)
{
    return reply_error(r, 404, "there is no job %.20s; /api/v1/jobs lists them",
                       r->id ? r->id : "");
}

int answer_submit(request *r)
{
    int id = 0;
    kerf_error err = {0};
    const int chooses = strcmp(r->route->verb, "advise") == 0;
    if (chooses && !json_object_get(r->json, "model") == !json_object_get(r->json, "config"))
        return reply_error(r, 400, "model or config: one of the two");
    kerf_status s = check_models(r, &err);
    if (s == KERF_E_IO && !err.native) return reply_error(r, 404, "%s", err.text);
    if (s != KERF_OK) return reply_failure(r, s, &err);
    s = job_submit(r->route, r->json, &id, &err);
    if (s == KERF_E_LIMIT) return reply_error(r, 429, "%s", err.text);
    return s == KERF_OK ? reply_json(r, 202, job_json(id)) : reply_failure(r, s, &err);
}

int answer_jobs(request *r)
{
    return reply_json(r, 200, jobs_json());
}

int answer_job(request *r)
{
    json_t *doc = job_json(id_of(r));
    return doc ? reply_json(r, 200, doc) : no_job(r);
}

int answer_cancel(request *r)
{
    json_t *before = job_json(id_of(r));
    if (!before || !job_cancel(id_of(r))) {
        json_decref(before);
        return no_job(r);
    }
    json_t *after = job_json(id_of(r));
    if (after) json_decref(before);
    return reply_json(r, 200, after ? after : before);
}

int answer_result(request *r)
{
    size_t n = 0;
    const char *name;
    job_state state = JOB_QUEUED;
    char *text = job_result(id_of(r), &n, &state, &name);
    if (text) return reply_text(r, 200, "application/json", text, n);
    if (!name) return no_job(r);
    return reply_error(r, 409, "job %d is %s: there is no result", id_of(r), job_state_name(state));
}

int answer_events(request *r)
{
    const int answered = job_follow(r, id_of(r));
    return answered >= 0 ? answered : no_job(r);
}

/* --- counters ------------------------------------------------------------------------------- */

static double resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    const int got = f ? fscanf(f, "%*u %lu", &pages) : 0;
    if (f) fclose(f);
    return got == 1 ? (double)pages * (double)sysconf(_SC_PAGESIZE) : 0;
}

int answer_metrics(request *r)
{
    char *text = NULL;
    size_t n = 0, count[JOB_STATES];
    FILE *to = open_memstream(&text, &n);
    if (!to) return reply_json(r, 503, NULL);
    jobs_count(count);
    http_metrics(to);
    fprintf(to, "# HELP kerf_jobs Jobs that are known, by state.\n# TYPE kerf_jobs gauge\n");
    for (int s = 0; s < JOB_STATES; s++)
        fprintf(to, "kerf_jobs{state=\"%s\"} %zu\n", job_state_name((job_state)s), count[s]);
    fprintf(to,
            "# HELP kerf_streams Clients that follow events.\n# TYPE kerf_streams gauge\n"
            "kerf_streams %zu\n"
            "# HELP process_resident_memory_bytes Resident memory.\n"
            "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %.0f\n",
            streams_count(), resident_bytes());
    monitoring_metrics(to);
    if (fclose(to) != 0) return reply_error(r, 503, "no memory for counters");
    return reply_text(r, 200, r->route->type, text, n);
}
