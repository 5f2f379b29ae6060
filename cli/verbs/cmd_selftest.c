/* cmd_selftest.c - kerf selftest: are the bytes of this machine the bytes of every machine?
 *
 * Two questions per codec. Golden vectors: on every backend, does it write what an independent
 * program, or the package that it is named after, has written? Trials (trial.c): does every backend
 * agree with the scalar reference, and the reference with the digest recorded in digests.h? */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "args.h"
#include "selftest/digests.h"
#include "selftest/golden.h"
#include "output.h"
#include "progress.h"
#include "options.h"
#include "selftest/trial.h"
#include "selftest/vector_check.h"

typedef struct selftest {
    kerf_exec exec; /* device: tried instead of the processor's backends */
    int trials;     /* 0: vectors of a file only */
    specimen specimens[SPECIMENS];
    golden golden;
    table *table;
    json_t *codecs;
    size_t passed, failed, unrecorded, printed;
    uint64_t vectors;
} selftest;

/* The verdicts on one format: its encoders, in the order of the table. */
typedef struct verdicts {
    const char *backend; /* that is being tried */
    const kerf_format *format;
    verdict of[VECTOR_ENCODERS];
} verdicts;

/* --- golden vectors ------------------------------------------------------------------------ */

/* What is only decoded counts against the default encoder. */
static void vector_differs(void *context, const vector_difference *d)
{
    verdicts *v = context;
    size_t i = 0;
    while (d->encoder && kerf_encoder_at(v->format, i) != d->encoder) i++;
    verdict_add(&v->of[i], "%s: %s, %s \"%s\" (line %u): %s", v->backend, d->file,
                d->encoder ? "case" : "decode", d->label, d->line, d->what);
}

static size_t backends(const selftest *t)
{
    return t->exec.device ? 1 : kerf_backend_count();
}

static const char *backend_at(const selftest *t, size_t i)
{
    return t->exec.device ? "cuda" : kerf_backend_at(i);
}

/* The vectors of one file on every backend. */
static kerf_status check_file(const selftest *t, verdicts *v, const golden_file *file,
                              kerf_error *err)
{
    for (size_t i = 0; i < backends(t); i++) {
        v->backend = backend_at(t, i);
        const kerf_exec exec = {.threads = 1, .backend = v->backend, .device = t->exec.device};
        vector_check c = {
            .format = v->format, .exec = &exec, .differs = vector_differs, .context = v};
        TRY(vector_check_text(&c, file->name, file->text, file->n, err));
        if (i > 0) continue; /* the same vectors */
        v->of[0].vectors += c.decoded;
        for (size_t e = 0; e < VECTOR_ENCODERS; e++) v->of[e].vectors += c.tally[e].vectors;
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

static kerf_status try_codec(const selftest *t, kerf_codec codec, verdict *v, kerf_error *err)
{
    char name[64];
    kerf_codec_name(codec, name, sizeof name);
    for (size_t i = 0; i < SPECIMENS; i++) {
        kerf_status s = trial_encode(codec, &t->specimens[i], t->exec.device, v, err);
        if (s == KERF_E_NOSUP) continue; /* a shape or source type that this codec is not for */
        if (s != KERF_OK) return fail_at(err, s, name);
    }
    const recorded_digest *known = find_recorded(name);
    if (known && known->digest != v->digest)
        verdict_add(v, "the recorded digest is %016llx", (unsigned long long)known->digest);
    return KERF_OK;
}

/* --- a format ------------------------------------------------------------------------------ */

static void add_row(selftest *t, const char *name, const char *digest, int recorded,
                    const verdict *v)
{
    const char *first = json_string_value(json_array_get(v->texts, 0));
    table_cell(t->table, "%s", name);
    table_cell(t->table, "%s", digest ? digest : "-");
    table_cell(t->table, "%llu", (unsigned long long)v->vectors);
    if (v->problems == 0)
        table_cell(t->table, "%s", recorded || !digest ? "pass" : "pass; no digest recorded");
    else if (v->problems == 1)
        table_cell(t->table, "%s", first);
    else
        table_cell(t->table, "%s; and %zu more", first, v->problems - 1);
}

static void report_codec(selftest *t, kerf_codec codec, const verdict *v)
{
    char name[64], word[24];
    kerf_codec_name(codec, name, sizeof name);
    snprintf(word, sizeof word, "%016llx", (unsigned long long)v->digest);
    const char *digest = t->trials ? word : NULL;
    int recorded = t->trials && find_recorded(name) != NULL;
    add_row(t, name, digest, recorded, v);
    t->vectors += v->vectors;
    t->unrecorded += t->trials && !recorded;
    *(v->problems == 0 ? &t->passed : &t->failed) += 1;
    json_array_append_new(t->codecs,
                          json_pack("{s:s, s:s*, s:b, s:I, s:b, s:I, s:O*}", "format", name,
                                    "digest", digest, "recorded", recorded, "vectors",
                                    (json_int_t)v->vectors, "pass", v->problems == 0, "problems",
                                    (json_int_t)v->problems, "first_problems", v->texts));
}

static kerf_status test_format(selftest *t, verdicts *v, kerf_error *err)
{
    golden_file file;
    for (size_t at = 0; golden_next(&t->golden, v->format, &at, &file);)
        TRY(check_file(t, v, &file, err));
    TRY(trial_decode(v->format, t->exec.device, &v->of[0], err));
    uint64_t decoding = v->of[0].digest;
    for (size_t e = 0; e < kerf_encoder_count(v->format); e++) {
        kerf_codec codec = {v->format, kerf_encoder_at(v->format, e)};
        v->of[e].digest = decoding;
        TRY(try_codec(t, codec, &v->of[e], err));
        report_codec(t, codec, &v->of[e]);
    }
    return KERF_OK;
}

static void free_verdicts(verdicts *v)
{
    for (size_t e = 0; e < VECTOR_ENCODERS; e++) verdict_free(&v->of[e]);
}

static kerf_status test_all(selftest *t, kerf_error *err)
{
    kerf_status s = golden_open(&t->golden, err);
    for (size_t i = 0; i < SPECIMENS && s == KERF_OK; i++)
        s = specimen_make(i, &t->specimens[i], err);
    for (size_t i = 0; i < kerf_format_count() && s == KERF_OK; i++) {
        verdicts v = {.format = kerf_format_at(i)};
        s = test_format(t, &v, err);
        free_verdicts(&v);
    }
    return s;
}

/* --- the vectors of a file ----------------------------------------------------------------- */

static kerf_status read_text(const char *path, golden *out, kerf_error *err)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0) {
        if (f) fclose(f);
        return fail(err, KERF_E_IO, "%.300s: %s", path, strerror(errno));
    }
    kerf_status s = KERF_OK;
    if (!S_ISREG(st.st_mode) || st.st_size > 1 << 28)
        s = fail(err, KERF_E_LIMIT, "%.300s: not a file of up to 256 MiB", path);
    if (s == KERF_OK) s = allocate(&out->text, (size_t)st.st_size + 1, 1, err);
    if (s == KERF_OK) out->n = fread(out->text, 1, (size_t)st.st_size, f);
    if (s == KERF_OK && ferror(f)) s = fail(err, KERF_E_IO, "%.300s cannot be read", path);
    fclose(f);
    return s;
}

/* The name of the file is that of a format, as in tests/golden. */
static const kerf_format *format_of(const char *path)
{
    for (size_t i = 0; i < kerf_format_count(); i++)
        if (golden_is_of(path, kerf_format_at(i))) return kerf_format_at(i);
    return NULL;
}

static kerf_status test_file(selftest *t, const char *path, kerf_error *err)
{
    verdicts v = {.format = format_of(path)};
    if (!v.format)
        return USAGE(err, "--vectors %.200s: name the file after its format, as in nvfp4.txt",
                     path);
    TRY(read_text(path, &t->golden, err));
    golden_file file = {.text = t->golden.text, .n = t->golden.n};
    const char *slash = strrchr(path, '/');
    snprintf(file.name, sizeof file.name, "%s", slash ? slash + 1 : path);
    kerf_status s = check_file(t, &v, &file, err);
    for (size_t e = 0; s == KERF_OK && e < kerf_encoder_count(v.format); e++) {
        kerf_codec codec = {v.format, kerf_encoder_at(v.format, e)};
        if (v.of[e].vectors) report_codec(t, codec, &v.of[e]);
    }
    free_verdicts(&v);
    return s;
}

/* --- verb ---------------------------------------------------------------------------------- */

static kerf_status print_report(const args *a, const selftest *t, double seconds, kerf_error *err)
{
    json_t *tried = json_array();
    for (size_t i = 0; i < backends(t); i++)
        json_array_append_new(tried, json_string(backend_at(t, i)));
    json_t *doc =
        json_pack("{s:b, s:I, s:I, s:I, s:I, s:f, s:o, s:O}", "pass", t->failed == 0, "passed",
                  (json_int_t)t->passed, "failed", (json_int_t)t->failed, "unrecorded",
                  (json_int_t)t->unrecorded, "vectors", (json_int_t)t->vectors, "seconds", seconds,
                  "backends", tried, "codecs", t->codecs);
    if (args_has(a, "json")) return print_json("selftest", doc, err);
    json_decref(doc);
    TRY(table_print(t->table, stdout, err));
    printf("\n%s: %zu codecs pass, %zu fail; %llu golden vectors", t->failed ? "failed" : "passed",
           t->passed, t->failed, (unsigned long long)t->vectors);
    if (t->trials) printf(", up to %d tensors each", (int)SPECIMENS);
    printf("; backends");
    for (size_t i = 0; i < backends(t); i++) printf(" %s", backend_at(t, i));
    printf("; %.1f s\n", seconds);
    return KERF_OK;
}

static int run_selftest(const args *a, kerf_error *err)
{
    const char *file = args_value(a, "vectors");
    double started = now_s();
    selftest *t = NULL;
    TRY(allocate(&t, 1, sizeof *t, err));
    t->trials = file == NULL;
    t->codecs = json_array();
    kerf_status s = option_exec_open(a, &t->exec, err);
    if (s == KERF_OK) s = table_open(&t->table, "format|digest|>vectors|result", err);
    if (s == KERF_OK) s = file ? test_file(t, file, err) : test_all(t, err);
    if (s == KERF_OK) s = print_report(a, t, now_s() - started, err);
    int failed = t->failed != 0;
    for (size_t i = 0; i < SPECIMENS; i++) specimen_free(&t->specimens[i]);
    golden_close(&t->golden);
    option_exec_close(&t->exec);
    table_close(t->table);
    json_decref(t->codecs);
    free(t);
    if (s != KERF_OK) return s;
    return failed ? EXIT_MISMATCH : EXIT_OK;
}

static const option own_options[] = {
    {"vectors", 0, "FILE", "only the golden vectors in FORMAT.txt (see tests/golden/README.md)"},
    {0},
};

const verb verb_selftest = {
    .name = "selftest",
    .summary = "check every codec and backend on this machine",
    .usage = "[--vectors FILE] [--device D] [--json]",
    .details =
        "Holds every format and encoder, on every backend, against golden vectors: tensors\n"
        "and their bytes as an independent program, or the package that the encoder is named\n"
        "after, wrote them. Then encodes tensors of all shapes and numbers (every finite\n"
        "bfloat16, ties of every width), decodes every code under every 8-bit scale, and\n"
        "compares backends, thread counts and cuts with the scalar reference. The digest of\n"
        "a codec must be the one recorded when this version was made: the same on every\n"
        "machine. With --device cuda a GPU is tried instead of the processor's backends, and\n"
        "its bytes give the digests, which must be the same. Exit code 1 on a failure, which\n"
        "names the vector or the tensor.",
    .examples = "  kerf selftest\n"
                "  kerf selftest --json | jq '.codecs[] | select(.pass | not)'\n"
                "  kerf selftest --device cuda\n"
                "  kerf selftest --vectors nvfp4.txt\n",
    .options = own_options,
    .shared = {&option_device, &option_json},
    .run = run_selftest,
};
