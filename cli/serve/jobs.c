/* jobs.c - queues and their runners: a thread for each device that has ever been asked for. */
#include "serve/jobs.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "progress.h"
#include "serve/child.h"
#include "serve/job_journal.h"
#include "serve/json_built.h"
#include "serve/verb_words.h"

enum { KNOWN_MOST = 256, WAITING_MOST = 64, DEVICES = 9 };

typedef struct job {
    struct job *next; /* in the order of their numbers */
    int id, device;   /* 0: the processor, i: GPU i - 1 */
    const route *route;
    json_t *body;
    job_state state;
    double created_s, began_s, ended_s; /* unix time; 0: not yet */
    pid_t pid;
    int exit_code, canceled, claimed; /* claimed: a runner has it */
    char *result, error[1024];
    size_t result_n;
    topic *topic;
} job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static job *jobs;
static int last_id, closing, journal_is_known; /* it is never written before it was read */
static pthread_t runner[DEVICES];
static int runs[DEVICES];

const char *job_state_name(job_state s)
{
    static const char *const names[] = {"queued", "running", "done", "failed", "canceled", "cut"};
    return names[s];
}

static double unix_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static job *find_job(int id)
{
    job *j = jobs;
    while (j && j->id != id) j = j->next;
    return j;
}

static int has_ended(const job *j)
{
    return j->state > JOB_RUNNING;
}

/* --- as documents: of their own, for who prints one holds no lock -------------------------- */

static json_t *describe(const job *j)
{
    json_t *doc = json_pack("{s:s, s:i, s:s, s:s, s:o, s:f, s:o, s:o}", "schema", "kerf.job/1",
                            "id", j->id, "verb", j->route->verb, "state", job_state_name(j->state),
                            "request", json_deep_copy(j->body), "created_unix_s", j->created_s,
                            "began_unix_s", j->began_s > 0 ? json_real(j->began_s) : json_null(),
                            "ended_unix_s", j->ended_s > 0 ? json_real(j->ended_s) : json_null());
    json_set(&doc, "error", j->error[0] ? json_path(j->error) : json_null());
    json_set(&doc, "exit_code", has_ended(j) ? json_integer(j->exit_code) : json_null());
    return doc;
}

json_t *job_json(int id)
{
    pthread_mutex_lock(&lock);
    const job *j = find_job(id);
    json_t *doc = j ? describe(j) : NULL;
    pthread_mutex_unlock(&lock);
    return doc;
}

json_t *jobs_json(void)
{
    json_t *all = json_array();
    pthread_mutex_lock(&lock);
    for (const job *j = jobs; j; j = j->next) json_add(&all, describe(j));
    pthread_mutex_unlock(&lock);
    return json_pack("{s:s, s:o}", "schema", "kerf.jobs/1", "jobs", all);
}

void jobs_count(size_t count[JOB_STATES])
{
    memset(count, 0, JOB_STATES * sizeof *count);
    pthread_mutex_lock(&lock);
    for (const job *j = jobs; j; j = j->next) count[j->state]++;
    pthread_mutex_unlock(&lock);
}

/* Tells those who follow the job. Under the lock. */
static void tell_state(job *j)
{
    json_t *doc = describe(j);
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    if (text) topic_publish(j->topic, "state", text);
    free(text);
    json_decref(doc);
}

/* --- the journal --------------------------------------------------------------------------- */

/* What waits and runs, so that the next server goes on with it. Under the lock. */
static void keep_journal(void)
{
    if (!serving.output || !journal_is_known) return;
    json_t *all = json_array();
    for (const job *j = jobs; j; j = j->next)
        if (!has_ended(j) || j->state == JOB_CUT)
            json_add(&all, json_pack("{s:i, s:s, s:O}", "id", j->id, "path", j->route->path,
                                     "request", j->body));
    journal_write(json_pack("{s:s, s:o}", "schema", "kerf.serve-jobs/1", "jobs", all));
}

static void free_job(job *j)
{
    topic_close(j->topic);
    json_decref(j->body);
    free(j->result);
    free(j);
}

/* --- runners ------------------------------------------------------------------------------- */

static void tell_progress(void *ctx, const char *line)
{
    topic_publish(ctx, "progress", line);
}

static kerf_status command_of(const job *j, const char *config, word_list *words, kerf_error *err)
{
    static const char *const usual[] = {"progress=json", NULL};
    static const char *const resuming[] = {"progress=json", "resume", NULL};
    const int resumes = strcmp(j->route->verb, "quantize") == 0;
    return words_of(j->route, j->body, config, resumes ? resuming : usual, words, err);
}

/* Why the run failed: what is known already, its document, or its last line. */
static void keep_error(job *j, const child *c, const char *text)
{
    json_t *doc = c->text ? json_loads(c->text, 0, NULL) : NULL;
    if (!text) text = json_string_value(json_object_get(doc, "error"));
    if (!text) text = c->last[0] ? c->last : "it ended without a word";
    snprintf(j->error, sizeof j->error, "%.1000s", text);
    json_decref(doc);
}

static void run_job(job *j)
{
    char config[CONFIG_PATH];
    kerf_error err = {0};
    word_list words = {0};
    child c = {0};
    config_make(j->body, config);
    kerf_status s = command_of(j, config[0] ? config : NULL, &words, &err);
    pthread_mutex_lock(&lock);
    int why = s == KERF_OK && !j->canceled ? child_start(&c, words.word) : 0;
    if (c.pid > 0) {
        j->pid = c.pid;
        j->state = JOB_RUNNING;
        j->began_s = unix_s();
        tell_state(j);
    }
    topic *t = j->topic;
    pthread_mutex_unlock(&lock);
    const int code = c.pid > 0 ? child_wait(&c, tell_progress, t) : 70;
    pthread_mutex_lock(&lock);
    j->pid = 0;
    j->exit_code = code;
    j->ended_s = unix_s();
    j->state = code == EXIT_OK || code == EXIT_MISMATCH ? JOB_DONE : JOB_FAILED;
    if (closing && code == 128 + SIGTERM) j->canceled = 2; /* by who ends a whole service */
    if (j->canceled) j->state = j->canceled > 1 ? JOB_CUT : JOB_CANCELED;
    const char *unborn = c.pid > 0 ? NULL : why ? strerror(why) : err.text;
    if (j->state == JOB_FAILED) keep_error(j, &c, unborn);
    config_end(config, j->error);
    if (j->state == JOB_DONE) {
        j->result = c.text;
        j->result_n = c.n;
        c.text = NULL;
    }
    keep_journal();
    tell_state(j);
    topic_end(j->topic);
    j->claimed = 0;
    pthread_mutex_unlock(&lock);
    free(c.text);
    words_free(&words);
}

static void *run_device(void *ctx)
{
    const int device = (int)(intptr_t)ctx;
    pthread_mutex_lock(&lock);
    while (!closing) {
        job *j = jobs;
        while (j && (j->state != JOB_QUEUED || j->device != device)) j = j->next;
        if (!j) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        j->claimed = 1;
        pthread_mutex_unlock(&lock);
        run_job(j);
        pthread_mutex_lock(&lock);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* --- submitting ---------------------------------------------------------------------------- */

/* Forgets the oldest that have ended; -1: too many wait. Under the lock. */
static int make_room(void)
{
    size_t known = 0, waiting = 0;
    for (const job *j = jobs; j; j = j->next) {
        known++;
        waiting += !has_ended(j);
    }
    if (waiting >= WAITING_MOST) return -1;
    for (job **at = &jobs; *at && known >= KNOWN_MOST;) {
        job *j = *at;
        if (!has_ended(j) || j->claimed) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        free_job(j);
        known--;
    }
    return 0;
}

/* Under the lock. */
static kerf_status append(job *j, kerf_error *err)
{
    if (closing) return kerf_fail(err, KERF_E_CANCELED, "the server ends: it takes no more jobs");
    if (make_room() != 0) return kerf_fail(err, KERF_E_LIMIT, "%d jobs wait already", WAITING_MOST);
    if (!runs[j->device]) {
        const int why =
            pthread_create(&runner[j->device], NULL, run_device, (void *)(intptr_t)j->device);
        if (why) return kerf_fail(err, KERF_E_NOMEM, "no thread for a job: %s", strerror(why));
        runs[j->device] = 1;
    }
    if (j->id == 0) j->id = last_id + 1;
    if (j->id > last_id) last_id = j->id;
    job **at = &jobs;
    while (*at) at = &(*at)->next;
    *at = j;
    keep_journal();
    tell_state(j);
    pthread_cond_broadcast(&changed);
    return KERF_OK;
}

kerf_status job_submit(const route *r, const json_t *body, int *id, kerf_error *err)
{
    job *j = NULL;
    TRY(allocate(&j, 1, sizeof *j, err));
    j->id = *id;
    j->route = r;
    j->body = json_deep_copy(body);
    j->device = device_of(body);
    j->created_s = unix_s();
    j->topic = topic_open();
    kerf_status s =
        j->body && j->topic ? KERF_OK : kerf_fail(err, KERF_E_NOMEM, "no memory for a job");
    pthread_mutex_lock(&lock);
    if (s == KERF_OK) s = append(j, err);
    *id = j->id;
    pthread_mutex_unlock(&lock);
    if (s != KERF_OK) free_job(j);
    return s;
}

int job_cancel(int id)
{
    pthread_mutex_lock(&lock);
    job **at = &jobs;
    while (*at && (*at)->id != id) at = &(*at)->next;
    job *j = *at;
    if (j && has_ended(j) && !j->claimed) {
        *at = j->next;
        free_job(j);
    } else if (j && j->state == JOB_QUEUED && !j->claimed) {
        j->state = JOB_CANCELED;
        j->ended_s = unix_s();
        keep_journal();
        tell_state(j);
        topic_end(j->topic);
    } else if (j) {
        j->canceled = 1;
        if (j->pid > 0) kill(j->pid, SIGTERM);
    }
    pthread_mutex_unlock(&lock);
    return j != NULL;
}

/* --- results ------------------------------------------------------------------------------- */

static char *copy_result(const job *j, size_t *n)
{
    char *text = j->result ? malloc(j->result_n + 1) : NULL;
    if (text) memcpy(text, j->result, j->result_n + 1);
    if (n) *n = j->result_n;
    return text;
}

char *job_result(int id, size_t *n, job_state *state, const char **name)
{
    pthread_mutex_lock(&lock);
    const job *j = find_job(id);
    char *text = j ? copy_result(j, n) : NULL;
    *name = j ? j->route->verb : NULL;
    if (j) *state = j->state;
    pthread_mutex_unlock(&lock);
    return text;
}

char *job_known(const char *name, const json_t *body, int *id)
{
    char *text = NULL;
    *id = 0;
    pthread_mutex_lock(&lock);
    for (const job *j = jobs; j && !text; j = j->next) {
        if (strcmp(j->route->verb, name) != 0 || !json_equal(j->body, body)) continue;
        if (j->state == JOB_DONE) text = copy_result(j, NULL);
        if (j->state == JOB_DONE || !has_ended(j)) *id = j->id;
    }
    pthread_mutex_unlock(&lock);
    return text;
}

/* The lock is held until the stream counts as the topic's reader. */
int job_follow(request *r, int id)
{
    pthread_mutex_lock(&lock);
    job *j = find_job(id);
    const int answered = j ? topic_reply(r, j->topic) : -1;
    pthread_mutex_unlock(&lock);
    return answered;
}

/* --- beginning and end --------------------------------------------------------------------- */

kerf_status jobs_open(kerf_error *err)
{
    char allowed[40];
    const char *part;
    size_t i;
    json_t *row, *doc;
    if (!serving.output) return KERF_OK;
    TRY(journal_read(&doc, err));
    kerf_status s = KERF_OK;
    json_array_foreach(json_object_get(doc, "jobs"), i, row)
    {
        const char *where = json_string_value(json_object_get(row, "path"));
        const json_t *body = json_object_get(row, "request");
        const route *r = where ? route_find("POST", where, &part, allowed) : NULL;
        int id = (int)json_integer_value(json_object_get(row, "id"));
        kerf_error why = {0};
        if (!r || !r->verb || id < 1 || body_check(r, body, &why) != KERF_OK)
            fprintf(stderr, "kerf: kerf-jobs.json: job %d is none of this server%s%s\n", id,
                    why.text[0] ? ": " : "", why.text);
        else if ((s = job_submit(r, body, &id, err)) != KERF_OK)
            break;
    }
    json_decref(doc);
    journal_is_known = s == KERF_OK; /* what was not taken up stays there for the next server */
    return s;
}

/* Under the lock. */
static int anything_runs(void)
{
    for (const job *j = jobs; j; j = j->next)
        if (j->claimed) return 1;
    return 0;
}

static void wait_until_quiet(double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)ceil(seconds);
    while (anything_runs() && pthread_cond_timedwait(&changed, &lock, &until) == 0) continue;
}

void jobs_close(double drain_s)
{
    pthread_mutex_lock(&lock);
    closing = 1;
    for (job *j = jobs; j; j = j->next) {
        if (j->state != JOB_QUEUED || j->claimed) continue;
        j->state = JOB_CUT;
        tell_state(j);
    }
    keep_journal();
    pthread_cond_broadcast(&changed);
    wait_until_quiet(drain_s);
    for (job *j = jobs; j; j = j->next) {
        if (!j->claimed) continue;
        j->canceled = 2;
        if (j->pid > 0) kill(j->pid, SIGTERM);
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < DEVICES; i++)
        if (runs[i]) pthread_join(runner[i], NULL);
    pthread_mutex_lock(&lock);
    for (job *j = jobs, *next; j; j = next) {
        next = j->next;
        free_job(j);
    }
    jobs = NULL;
    pthread_mutex_unlock(&lock);
}
