/* selftest.c - kerf_selftest: checks the golden vectors of every codec, makes trials with it, and
 * writes a row of results for each. */
#include <kerf/cuda.h>
#include <kerf/selftest.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/work.h"
#include "selftest/digests.h"
#include "selftest/golden.h"
#include "selftest/trial.h"
#include "selftest/vector_check.h"

enum { MOST_BACKENDS = 16, MOST_FILE_BYTES = 1 << 28 };

/* A result, with all that it points to. */
typedef struct selftest_run {
    kerf_selftest_result result; /* first: a kerf_selftest_result * from here is one to this */
    kerf_selftest_row *row;
    kf_verdict *verdict; /* of each row; owns its texts */
    size_t room;
    const char *backend[MOST_BACKENDS];
    kerf_device *device;
    kf_specimen specimen[KF_SPECIMENS];
    kf_golden golden;
    kf_work *work; /* NULL after the call */
} selftest_run;

/* The verdicts on one format: its encoders, in the order of the table. */
typedef struct format_verdicts {
    const char *backend; /* that is being tried */
    const kerf_format *format;
    kf_verdict of[KF_VECTOR_ENCODERS];
} format_verdicts;

static void free_verdicts(format_verdicts *v)
{
    for (size_t e = 0; e < KF_VECTOR_ENCODERS; e++) kf_verdict_free(&v->of[e]);
}

/* --- golden vectors ------------------------------------------------------------------------ */

/* What is only decoded counts against the default encoder. */
static void vector_differs(void *context, const kf_vector_difference *d)
{
    format_verdicts *v = context;
    size_t i = 0;
    while (d->encoder && kerf_encoder_at(v->format, i) != d->encoder) i++;
    kf_verdict_add(&v->of[i], "%s: %s, %s \"%s\" (line %u): %s", v->backend, d->file,
                   d->encoder ? "case" : "decode", d->label, d->line, d->what);
}

/* The vectors of one file on every backend. */
static kerf_status check_file(const selftest_run *t, format_verdicts *v, const kf_golden_file *file,
                              kerf_error *err)
{
    for (size_t i = 0; i < t->result.backends; i++) {
        v->backend = t->backend[i];
        const kerf_exec exec = {.threads = 1, .backend = v->backend, .device = t->device};
        kf_vector_check c = {.format = v->format,
                             .exec = &exec,
                             .job = t->work->job,
                             .differs = vector_differs,
                             .context = v};
        KF_TRY(kf_vector_check_text(&c, file->name, file->text, file->n, err));
        if (i > 0) continue; /* the same vectors */
        v->of[0].vectors += c.decoded;
        for (size_t e = 0; e < KF_VECTOR_ENCODERS; e++) v->of[e].vectors += c.tally[e].vectors;
    }
    return KERF_OK;
}

/* --- trials -------------------------------------------------------------------------------- */

/* NULL: none was recorded. */
static const recorded_digest *find_recorded(const char *name)
{
    for (size_t i = 0; i < sizeof recorded_digests / sizeof *recorded_digests; i++) {
        if (strcmp(recorded_digests[i].codec, name) == 0) return &recorded_digests[i];
    }
    return NULL;
}

static kerf_status try_codec(const selftest_run *t, kerf_codec codec, kf_verdict *v,
                             kerf_error *err)
{
    char name[64];
    kerf_codec_name(codec, name, sizeof name);
    kf_work_item(t->work, name, "selftest");
    for (size_t i = 0; i < KF_SPECIMENS; i++) {
        const kf_specimen *one = &t->specimen[i];
        kerf_error why = {0};
        kerf_status s = kf_trial_encode(codec, one, t->device, t->work->job, v, &why);
        /* KERF_E_NOSUP: a shape or source type that this codec is not for */
        if (s != KERF_OK && s != KERF_E_NOSUP) {
            if (err) *err = why;
            return kf_fail_at(err, s, name);
        }
        KF_TRY(kf_work_add(t->work, one->bytes.n, err));
    }
    const recorded_digest *known = find_recorded(name);
    if (known && known->digest != v->digest) {
        kf_verdict_add(v, "the recorded digest is %016llx", (unsigned long long)known->digest);
    }
    return KERF_OK;
}

/* --- rows ---------------------------------------------------------------------------------- */

static kerf_status make_room(selftest_run *t, kerf_error *err)
{
    if (t->result.rows < t->room) return KERF_OK;
    size_t room = t->room ? 2 * t->room : 64;
    kerf_selftest_row *row = realloc(t->row, room * sizeof *row);
    if (row) t->row = row;
    kf_verdict *verdict = row ? realloc(t->verdict, room * sizeof *verdict) : NULL;
    if (!verdict) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the results");
    t->verdict = verdict;
    t->room = room;
    return KERF_OK;
}

/* Takes the verdict over, texts and all. */
static kerf_status add_row(selftest_run *t, kerf_codec codec, int tried, kf_verdict *v,
                           kerf_error *err)
{
    char name[64];
    const recorded_digest *known = find_recorded(kerf_codec_name(codec, name, sizeof name));
    KF_TRY(make_room(t, err));
    kerf_selftest_row *r = &t->row[t->result.rows];
    *r = (kerf_selftest_row){.codec = codec,
                             .tried = tried,
                             .recorded = tried && known,
                             .digest = tried ? v->digest : 0,
                             .expected = tried && known ? known->digest : 0,
                             .vectors = v->vectors,
                             .problems = v->problems,
                             .texts = v->texts};
    t->verdict[t->result.rows++] = *v;
    *v = (kf_verdict){0};
    t->result.vectors += r->vectors;
    t->result.unrecorded += tried && !known;
    *(r->problems == 0 ? &t->result.passed : &t->result.failed) += 1;
    return KERF_OK;
}

static kerf_status test_format(selftest_run *t, format_verdicts *v, kerf_error *err)
{
    kf_golden_file file;
    for (size_t at = 0; kf_golden_next(&t->golden, v->format, &at, &file);) {
        KF_TRY(check_file(t, v, &file, err));
    }
    KF_TRY(kf_trial_decode(v->format, t->device, t->work->job, &v->of[0], err));
    uint64_t decoding = v->of[0].digest;
    for (size_t e = 0; e < kerf_encoder_count(v->format); e++) {
        kerf_codec codec = {v->format, kerf_encoder_at(v->format, e)};
        v->of[e].digest = decoding;
        KF_TRY(try_codec(t, codec, &v->of[e], err));
        KF_TRY(add_row(t, codec, 1, &v->of[e], err));
    }
    return KERF_OK;
}

static const kerf_format *format_at(const kerf_selftest_options *o, size_t i)
{
    if (o->formats == 0) return kerf_format_at(i);
    return i < o->formats ? o->format[i] : NULL;
}

static kerf_status test_formats(selftest_run *t, const kerf_selftest_options *o, kerf_error *err)
{
    const kerf_format *f;
    uint64_t bytes = 0, codecs = 0;
    t->result.tensors = KF_SPECIMENS;
    KF_TRY(kf_golden_open(&t->golden, err));
    for (size_t i = 0; i < KF_SPECIMENS; i++) {
        KF_TRY(kf_specimen_make(i, &t->specimen[i], err));
        bytes += t->specimen[i].bytes.n;
    }
    for (size_t i = 0; (f = format_at(o, i)) != NULL; i++) codecs += kerf_encoder_count(f);
    t->work->total = codecs * bytes;
    for (size_t i = 0; (f = format_at(o, i)) != NULL; i++) {
        format_verdicts v = {.format = f};
        kerf_status s = test_format(t, &v, err);
        free_verdicts(&v);
        KF_TRY(s);
    }
    return KERF_OK;
}

/* --- the vectors of a file ----------------------------------------------------------------- */

static kerf_status read_text(const char *path, kf_golden *out, kerf_error *err)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0) {
        int why = errno;
        if (f) fclose(f);
        return kf_fail_errno(err, why, "%.300s", path);
    }
    kerf_status s = KERF_OK;
    if (!S_ISREG(st.st_mode) || st.st_size > MOST_FILE_BYTES) {
        s = kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%.300s: not a file of up to 256 MiB", path);
    }
    if (s == KERF_OK) s = kf_allocate(&out->text, (uint64_t)st.st_size + 1, 1, err);
    if (s == KERF_OK) out->n = fread(out->text, 1, (size_t)st.st_size, f);
    if (s == KERF_OK && ferror(f)) {
        s = kf_fail(err, KERF_E_IO, KF_NOWHERE, "%.300s cannot be read", path);
    }
    fclose(f);
    return s;
}

/* The format that the file is named after. */
static const kerf_format *format_of(const char *path)
{
    for (size_t i = 0; i < kerf_format_count(); i++) {
        if (kf_golden_is_of(path, kerf_format_at(i))) return kerf_format_at(i);
    }
    return NULL;
}

static kerf_status test_file(selftest_run *t, const char *path, kerf_error *err)
{
    format_verdicts v = {.format = format_of(path)};
    if (!v.format) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "vectors in %.200s: name the file after its format, as in nvfp4.txt", path);
    }
    KF_TRY(read_text(path, &t->golden, err));
    kf_golden_file file = {.text = t->golden.text, .n = t->golden.n};
    const char *slash = strrchr(path, '/');
    snprintf(file.name, sizeof file.name, "%s", slash ? slash + 1 : path);
    kerf_status s = check_file(t, &v, &file, err);
    for (size_t e = 0; s == KERF_OK && e < kerf_encoder_count(v.format); e++) {
        kerf_codec codec = {v.format, kerf_encoder_at(v.format, e)};
        if (v.of[e].vectors) s = add_row(t, codec, 0, &v.of[e], err);
    }
    free_verdicts(&v);
    return s;
}

/* --- the call ------------------------------------------------------------------------------ */

static void list_backends(selftest_run *t)
{
    if (t->device) t->backend[t->result.backends++] = "cuda";
    for (size_t i = 0; !t->device && i < kerf_backend_count() && i < MOST_BACKENDS; i++) {
        t->backend[t->result.backends++] = kerf_backend_at(i);
    }
    t->result.backend = t->backend;
}

/* Only now do rows stay where they are. */
static void link_rows(selftest_run *t)
{
    t->result.row = t->row;
    for (size_t i = 0; i < t->result.rows; i++) {
        t->row[i].problem = (const char *const *)t->verdict[i].text;
    }
}

kerf_status kerf_selftest(const kerf_selftest_options *o, const kerf_job *job,
                          kerf_selftest_result **out, kerf_error *err)
{
    static const kerf_selftest_options defaults = {0};
    selftest_run *t = NULL;
    kf_work work;
    *out = NULL;
    if (!o) o = &defaults;
    const double began_s = kf_now_s();
    KF_TRY(kf_allocate(&t, 1, sizeof *t, err));
    t->device = o->device;
    t->work = &work;
    kf_work_open(&work, job);
    list_backends(t);
    kerf_status s = o->vectors ? test_file(t, o->vectors, err) : test_formats(t, o, err);
    kf_work_close(&work);
    t->work = NULL;
    for (size_t i = 0; i < KF_SPECIMENS; i++) kf_specimen_free(&t->specimen[i]);
    kf_golden_close(&t->golden);
    if (s == KERF_OK) {
        link_rows(t);
        t->result.seconds = kf_now_s() - began_s;
        *out = &t->result;
    } else {
        kerf_selftest_free(&t->result);
    }
    return s;
}

void kerf_selftest_free(kerf_selftest_result *r)
{
    selftest_run *t = (selftest_run *)r;
    if (!t) return;
    for (size_t i = 0; i < t->result.rows; i++) kf_verdict_free(&t->verdict[i]);
    free(t->verdict);
    free(t->row);
    free(t);
}
