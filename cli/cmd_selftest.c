/* cmd_selftest.c - kerf selftest: are the bytes of this machine the bytes of every machine?
 *
 * Each codec encodes every specimen with the scalar reference; its planes give the digest that is
 * printed, which must be the one recorded in digests.h. Then every backend, other thread counts and
 * other cuts into calls must give the same planes and the same decoded values. */
#include <stdlib.h>
#include <string.h>

#include "decide.h"
#include "digests.h"
#include "output.h"
#include "progress.h"
#include "specimen.h"

typedef struct encoded {
    kerf_span all; /* every plane, one after the other */
    kerf_span plane[KERF_PLANES];
} encoded;

typedef struct bench {
    const specimen *specimen;
    kerf_codec codec;
    kerf_geometry geometry;
    kerf_stats *stats;
    encoded reference;
    kerf_span decoded[3]; /* by the reference, to types[] */
    char *problem;        /* TEXT_SIZE bytes; empty: none */
} bench;

static const kerf_dtype types[] = {KERF_F32, KERF_F16, KERF_BF16};

static kerf_cspan source_of(const bench *b)
{
    return (kerf_cspan){b->specimen->bytes.p, b->specimen->bytes.n};
}

static void complain(bench *b, const char *backend, const char *what)
{
    char shape[TEXT_SIZE];
    if (b->problem[0]) return;
    snprintf(b->problem, TEXT_SIZE, "%.12s: %.40s, %.24s %s", backend, what,
             shape_text(&b->specimen->shape, shape), kerf_dtype_name(b->specimen->dtype));
}

/* --- encode and decode --------------------------------------------------------------------- */

/* Planes begin at multiples of 8 bytes; what lies between is zero. */
static kerf_status make_planes(const kerf_geometry *g, encoded *out, kerf_error *err)
{
    size_t begin[KERF_PLANES];
    out->all.n = 0;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        begin[k] = out->all.n;
        out->all.n += ((size_t)g->plane[k].bytes + 7) / 8 * 8;
    }
    TRY(allocate(&out->all.p, out->all.n, 1, err));
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        out->plane[k] =
            (kerf_span){(unsigned char *)out->all.p + begin[k], (size_t)g->plane[k].bytes};
    }
    return KERF_OK;
}

/* Encodes bands [b0, b1) into their place in out. */
static kerf_status encode_bands(const bench *b, uint64_t b0, uint64_t b1, const encoded *out,
                                const kerf_exec *exec, kerf_error *err)
{
    const kerf_geometry *g = &b->geometry;
    kerf_span plane[KERF_PLANES];
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        kerf_extent e = kerf_band_bytes(g, k, b0, b1);
        unsigned char *base = out->plane[k].p;
        plane[k] = (kerf_span){base + (g->plane[k].band_bytes ? e.offset : 0), (size_t)e.count};
    }
    kerf_extent elements = kerf_band_elements(g, b0, b1);
    size_t size = kerf_dtype_bits(b->specimen->dtype) / 8;
    kerf_cspan src = {(const unsigned char *)b->specimen->bytes.p + elements.offset * size,
                      (size_t)elements.count * size};
    return kerf_encode(g, b->codec.encoder, b->stats, b0, b1, src, b->specimen->dtype, plane, exec,
                       err);
}

static kerf_status decode_all(const bench *b, kerf_dtype dtype, kerf_span out,
                              const kerf_exec *exec, kerf_error *err)
{
    kerf_cspan planes[KERF_PLANES];
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        planes[k] = (kerf_cspan){b->reference.plane[k].p, b->reference.plane[k].n};
    }
    return kerf_decode(&b->geometry, 0, b->geometry.bands, planes, out, dtype, exec, err);
}

static kerf_status make_reference(bench *b, kerf_error *err)
{
    static const kerf_exec reference = {.threads = 1, .backend = "ref"};
    const kerf_geometry *g = &b->geometry;
    TRY(make_planes(g, &b->reference, err));
    if (kerf_needs_stats(g)) {
        TRY(kerf_measure(g, 0, g->bands, source_of(b), b->specimen->dtype, b->stats, &reference,
                         err));
    }
    TRY(encode_bands(b, 0, g->bands, &b->reference, &reference, err));
    for (size_t i = 0; i < 3; i++) {
        b->decoded[i].n = (size_t)g->elements * (kerf_dtype_bits(types[i]) / 8);
        TRY(allocate(&b->decoded[i].p, b->decoded[i].n, 1, err));
        TRY(decode_all(b, types[i], b->decoded[i], &reference, err));
    }
    return KERF_OK;
}

/* --- checks -------------------------------------------------------------------------------- */

/* The reference itself: zeros stay zeros, and weights come back as something like themselves. */
static void check_reference(bench *b)
{
    const float *v = b->decoded[0].p;
    double signal = 0, noise = 0;
    for (uint64_t i = 0; i < b->geometry.elements; i++) {
        if (b->specimen->kind == SPECIMEN_ZEROS && v[i] != 0)
            complain(b, "ref", "zero is not zero");
        if (b->specimen->kind != SPECIMEN_BELL || b->specimen->dtype != KERF_F32) continue;
        double w = ((const float *)b->specimen->bytes.p)[i], d = (double)v[i] - w;
        signal += w * w;
        noise += d * d;
    }
    if (!(noise <= signal)) complain(b, "ref", "decoding is worse than zeros");
}

static kerf_status check_encode(bench *b, const kerf_exec *exec, uint64_t step, const char *what,
                                kerf_error *err)
{
    encoded mine = {0};
    kerf_status s = make_planes(&b->geometry, &mine, err);
    uint64_t bands = b->geometry.bands;
    for (uint64_t at = 0; s == KERF_OK && (at < bands || at == 0); at += step) {
        uint64_t end = bands - at < step ? bands : at + step;
        s = encode_bands(b, at, end, &mine, exec, err);
    }
    if (s == KERF_OK && memcmp(mine.all.p, b->reference.all.p, mine.all.n) != 0) {
        complain(b, exec->backend, what);
    }
    free(mine.all.p);
    return s;
}

static kerf_status check_decode(bench *b, const kerf_exec *exec, kerf_error *err)
{
    for (size_t i = 0; i < 3; i++) {
        void *out = NULL;
        TRY(allocate(&out, b->decoded[i].n, 1, err));
        kerf_status s = decode_all(b, types[i], (kerf_span){out, b->decoded[i].n}, exec, err);
        if (s == KERF_OK && memcmp(out, b->decoded[i].p, b->decoded[i].n) != 0) {
            complain(b, exec->backend, "decodes differently");
        }
        free(out);
        TRY(s);
    }
    return KERF_OK;
}

static kerf_status check_backend(bench *b, const char *backend, kerf_error *err)
{
    kerf_exec one = {.threads = 1, .backend = backend};
    kerf_exec many = {.threads = 4, .backend = backend};
    uint64_t bands = b->geometry.bands ? b->geometry.bands : 1;
    TRY(check_encode(b, &one, bands, "encodes differently", err));
    TRY(check_encode(b, &many, bands, "differs with 4 threads", err));
    TRY(check_encode(b, &one, 3, "differs in calls of 3 bands", err));
    return check_decode(b, &many, err);
}

/* --- one codec ----------------------------------------------------------------------------- */

static kerf_status run_checks(bench *b, kerf_error *err)
{
    TRY(kerf_geometry_init(&b->geometry, b->codec.format, &b->specimen->shape, err));
    TRY(allocate(&b->stats, (size_t)b->geometry.matrices, sizeof *b->stats, err));
    TRY(make_reference(b, err));
    check_reference(b);
    for (size_t i = 0; i < kerf_backend_count(); i++) {
        TRY(check_backend(b, kerf_backend_at(i), err));
    }
    return KERF_OK;
}

/* Adds the digest of one specimen to *digest. */
static kerf_status test_specimen(kerf_codec codec, const specimen *s, uint64_t *digest,
                                 char *problem, kerf_error *err)
{
    bench b = {.specimen = s, .codec = codec, .problem = problem};
    kerf_status status = run_checks(&b, err);
    if (status == KERF_OK) {
        uint64_t pair[2] = {*digest, kerf_hash(b.reference.all.p, b.reference.all.n)};
        *digest = kerf_hash(pair, sizeof pair);
    }
    for (size_t i = 0; i < 3; i++) free(b.decoded[i].p);
    free(b.reference.all.p);
    free(b.stats);
    return status;
}

typedef struct verdict {
    uint64_t digest;
    char problem[TEXT_SIZE];
} verdict;

static kerf_status test_codec(kerf_codec codec, const specimen *specimens, verdict *out,
                              kerf_error *err)
{
    *out = (verdict){0};
    for (size_t i = 0; i < SPECIMENS; i++) {
        kerf_status s = test_specimen(codec, &specimens[i], &out->digest, out->problem, err);
        if (s == KERF_E_NOSUP) continue; /* a shape or source type that this codec is not for */
        if (s != KERF_OK) {
            char name[64];
            return fail_at(err, s, kerf_codec_name(codec, name, sizeof name));
        }
    }
    return KERF_OK;
}

/* --- verb ---------------------------------------------------------------------------------- */

typedef struct report {
    table *table;
    json_t *codecs;
    size_t passed, failed, unrecorded;
} report;

/* NULL: none was recorded. */
static const recorded_digest *find_recorded(const char *name)
{
    for (size_t i = 0; i < sizeof recorded_digests / sizeof *recorded_digests; i++) {
        if (strcmp(recorded_digests[i].codec, name) == 0) return &recorded_digests[i];
    }
    return NULL;
}

static void add_verdict(report *r, kerf_codec codec, verdict *v)
{
    char name[64];
    char digest[24];
    kerf_codec_name(codec, name, sizeof name);
    const recorded_digest *known = find_recorded(name);
    if (known && known->digest != v->digest && v->problem[0] == 0) {
        snprintf(v->problem, sizeof v->problem, "the recorded digest is %016llx",
                 (unsigned long long)known->digest);
    }
    int pass = v->problem[0] == 0;
    const char *praise = known ? "pass" : "pass; no digest recorded";
    r->unrecorded += known == NULL;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)v->digest);
    r->passed += pass != 0;
    r->failed += pass == 0;
    table_cell(r->table, "%s", name);
    table_cell(r->table, "%s", digest);
    table_cell(r->table, "%s", pass ? praise : v->problem);
    json_array_append_new(r->codecs, json_pack("{s:s, s:s, s:b, s:b, s:s?}", "format", name,
                                               "digest", digest, "recorded", known != NULL, "pass",
                                               pass, "problem", pass ? NULL : v->problem));
}

static kerf_status test_all(report *r, const specimen *specimens, kerf_error *err)
{
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++) {
            verdict v;
            kerf_codec codec = {f, kerf_encoder_at(f, e)};
            TRY(test_codec(codec, specimens, &v, err));
            add_verdict(r, codec, &v);
        }
    }
    return KERF_OK;
}

static kerf_status print_report(const args *a, const report *r, double seconds, kerf_error *err)
{
    json_t *backends = json_array();
    for (size_t i = 0; i < kerf_backend_count(); i++) {
        json_array_append_new(backends, json_string(kerf_backend_at(i)));
    }
    json_t *doc = json_pack("{s:b, s:I, s:I, s:I, s:f, s:o, s:O}", "pass", r->failed == 0, "passed",
                            (json_int_t)r->passed, "failed", (json_int_t)r->failed, "unrecorded",
                            (json_int_t)r->unrecorded, "seconds", seconds, "backends", backends,
                            "codecs", r->codecs);
    if (args_has(a, "json")) return print_json("selftest", doc, err);
    json_decref(doc);
    TRY(table_print(r->table, stdout, err));
    printf("\n%s: %zu codecs pass, %zu fail, %d tensors each, backends",
           r->failed ? "failed" : "passed", r->passed, r->failed, (int)SPECIMENS);
    for (size_t i = 0; i < kerf_backend_count(); i++) printf(" %s", kerf_backend_at(i));
    printf(", %.1f s\n", seconds);
    return KERF_OK;
}

static int run_selftest(const args *a, kerf_error *err)
{
    specimen specimens[SPECIMENS] = {{{0}, 0, 0, 0, {0}}};
    report r = {0};
    double started = now_s();
    kerf_status s = table_open(&r.table, "format|digest|result", err);
    r.codecs = json_array();
    for (size_t i = 0; i < SPECIMENS && s == KERF_OK; i++) s = specimen_make(i, &specimens[i], err);
    if (s == KERF_OK) s = test_all(&r, specimens, err);
    if (s == KERF_OK) s = print_report(a, &r, now_s() - started, err);
    for (size_t i = 0; i < SPECIMENS; i++) specimen_free(&specimens[i]);
    table_close(r.table);
    json_decref(r.codecs);
    if (s != KERF_OK) return s;
    return r.failed ? EXIT_MISMATCH : EXIT_OK;
}

const verb verb_selftest = {
    .name = "selftest",
    .summary = "check every codec and backend on this machine",
    .usage = "[--json]",
    .details = "Encodes a fixed set of tensors with every format and encoder on every backend,\n"
               "with different thread counts and cuts, and compares bytes and decoded values\n"
               "with the scalar reference. The digest of a codec must be the one recorded when\n"
               "this version was made: the same on every machine.\n"
               "Exit code 1 on a failure.",
    .examples = "  kerf selftest\n"
                "  kerf selftest --json | jq '.codecs[] | select(.pass | not)'\n",
    .shared = {&option_json},
    .run = run_selftest,
};
