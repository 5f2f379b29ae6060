/* vector_check.c - takes the lines of golden vectors in turn: a tensor; then, per encoder, its
 * planes, which are compared with those that we encode; and the values that the planes decode to.
 */
#include "selftest/vector_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "selftest/vector_text.h"

#include <kerf/encode_matrix.h>

enum {
    POISON = 0xA5,         /* what is not written must show */
    MAX_ELEMENTS = 1 << 22 /* of one vector */
};

/* What is known at one line. */
typedef struct vector_state {
    kf_vector_check *check;
    const char *file;
    kf_vector_reader reader;
    char label[64];
    kerf_geometry geometry;
    kerf_dtype dtype; /* of the source; NONE: planes to decode only */
    kerf_span src, out;
    const kerf_encoder *encoder; /* NULL: none yet in this case */
    kerf_span ours[KERF_PLANES], golden[KERF_PLANES];
    int open;  /* planes are expected ...                    */
    int given; /* ... and these were there: 1 << plane       */
    int wrong; /* ours differ from planes that are not there */
} vector_state;

static kerf_status malformed(const vector_state *v, kerf_error *err, const char *what)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s, line %u: %s; tests/golden/README.md has the form", v->file, v->reader.line,
                   what);
}

static void differs(vector_state *v, const char *fmt, ...) KERF_PRINTF(2, 3);
static void differs(vector_state *v, const char *fmt, ...)
{
    char text[512];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    v->check->differs(v->check->context,
                      &(kf_vector_difference){v->encoder, v->file, v->label, v->reader.line, text});
}

static kerf_status resize(kerf_span *s, uint64_t n, kerf_error *err)
{
    free(s->p);
    s->n = 0;
    KF_TRY(kf_allocate(&s->p, (size_t)n + 1, 1, err)); /* an empty plane is given all the same */
    s->n = (size_t)n;
    memset(s->p, POISON, s->n);
    return KERF_OK;
}

static kerf_status copy(kerf_span *s, const kf_vector_line *line, kerf_error *err)
{
    KF_TRY(resize(s, line->n, err));
    if (line->n) memcpy(s->p, line->p, line->n);
    return KERF_OK;
}

/* Says how ours differs from a line of items of `size` bytes; 0: not at all. */
static int compare(vector_state *v, const char *what, kerf_span ours, const kf_vector_line *golden,
                   size_t size)
{
    const unsigned char *mine = ours.p;
    size_t differ = 0, first = 0;
    if (golden->digested) {
        if (kerf_hash(ours.p, ours.n) == golden->digest) return 0;
        differs(v, "%s differ", what);
        return 1;
    }
    if (ours.n != golden->n) {
        differs(v, "%s: %zu bytes, golden has %zu", what, ours.n, golden->n);
        return 1;
    }
    for (size_t i = 0; i + size <= ours.n; i += size) {
        if (memcmp(mine + i, golden->p + i, size) != 0 && differ++ == 0) first = i;
    }
    if (differ == 0) return 0;
    while (mine[first] == golden->p[first]) first++;
    differs(v, "%s: byte %zu is %02x, golden has %02x; %zu of %zu %s differ", what, first,
            mine[first], golden->p[first], differ, ours.n / size, size == 1 ? "bytes" : "values");
    return 1;
}

/* --- what the lines do ----------------------------------------------------------------------- */

/* Every plane that the format has must have been given. */
static void close_planes(vector_state *v)
{
    for (kerf_plane_id p = 0; v->open && p < KERF_PLANES; p++) {
        uint64_t bytes = v->geometry.plane[p].bytes;
        if (bytes && !(v->given & 1 << p))
            differs(v, "%s: %" PRIu64 " bytes, golden has none", kf_vector_plane_name(p), bytes);
    }
    v->open = 0;
}

static kerf_status open_planes(vector_state *v, kerf_error *err)
{
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        KF_TRY(resize(&v->ours[p], v->geometry.plane[p].bytes, err));
        KF_TRY(resize(&v->golden[p], 0, err));
    }
    v->open = 1;
    v->given = v->wrong = 0;
    return KERF_OK;
}

static kerf_status begin_case(vector_state *v, const kf_vector_line *line, kerf_error *err)
{
    KF_TRY(kf_job_check(v->check->job, err));
    memcpy(v->label, line->name, sizeof v->label);
    v->dtype = line->dtype;
    v->encoder = NULL;
    if (kerf_geometry_init(&v->geometry, v->check->format, &line->shape, err) != KERF_OK)
        return kf_fail_at(err, KERF_E_DATA, v->file);
    if (v->geometry.elements > MAX_ELEMENTS) return malformed(v, err, "a tensor of this size");
    KF_TRY(resize(&v->src, 0, err));
    if (line->key == KF_VECTOR_CASE) return KERF_OK;
    v->check->decoded++;
    return open_planes(v, err);
}

/* That a call fails is a finding about it, unless it is this machine that has no memory. */
static kerf_status judge(vector_state *v, const char *what, kerf_status s, const kerf_error *why,
                         kerf_error *err)
{
    if (s == KERF_E_NOMEM) return kf_fail(err, s, KF_NOWHERE, "%s", why->text);
    if (s != KERF_OK) differs(v, "%s%s: %s", what, kerf_status_name(s), why->text);
    return KERF_OK;
}

static kerf_status encode(vector_state *v, kerf_error *err)
{
    const kerf_cspan src = {v->src.p, v->src.n};
    kerf_error why;
    kerf_status s = kerf_encode_matrix(&v->geometry, v->encoder, src, v->dtype, v->ours,
                                       v->check->exec, NULL, &why);
    return judge(v, "", s, &why, err);
}

static uint64_t count_blocks(const kerf_geometry *g)
{
    unsigned bits = kerf_dtype_bits(g->plane[KERF_PLANE_SCALES].dtype);
    return bits == 0 ? g->elements : g->plane[KERF_PLANE_SCALES].bytes * 8 / bits;
}

static kerf_status begin_encoder(vector_state *v, const kf_vector_line *line, kerf_error *err)
{
    const kerf_format *f = v->check->format;
    size_t i = 0, n = kerf_encoder_count(f);
    if (v->dtype == KERF_DTYPE_NONE) return malformed(v, err, "an encoder outside of a case");
    if (v->src.n * 8 != v->geometry.elements * kerf_dtype_bits(v->dtype))
        return malformed(v, err, "the source has not as many bytes as its shape says");
    while (i < n && strcmp(kerf_encoder_at(f, i)->name, line->name) != 0) i++;
    if (i == n || i >= KF_VECTOR_ENCODERS) return malformed(v, err, "unknown encoder");
    v->encoder = kerf_encoder_at(f, i);
    v->check->tally[i].vectors++;
    v->check->tally[i].blocks += count_blocks(&v->geometry);
    KF_TRY(open_planes(v, err));
    return encode(v, err);
}

static kerf_status check_plane(vector_state *v, const kf_vector_line *line, kerf_error *err)
{
    kerf_plane_id p = line->plane;
    if (!v->open) return malformed(v, err, "a plane outside of a case");
    if (line->digested && v->dtype == KERF_DTYPE_NONE)
        return malformed(v, err, "a digest cannot be decoded");
    v->given |= 1 << p;
    int wrong =
        v->dtype != KERF_DTYPE_NONE && compare(v, kf_vector_plane_name(p), v->ours[p], line, 1);
    if (!line->digested) return copy(&v->golden[p], line, err);
    v->wrong |= wrong;
    KF_TRY(resize(&v->golden[p], v->ours[p].n, err));
    if (v->ours[p].n) memcpy(v->golden[p].p, v->ours[p].p, v->ours[p].n);
    return KERF_OK;
}

/* What the golden planes decode to. */
static kerf_status check_values(vector_state *v, const kf_vector_line *line, kerf_error *err)
{
    const kerf_geometry *g = &v->geometry;
    kerf_cspan planes[KERF_PLANES];
    kerf_error why;
    if (!v->open) return malformed(v, err, "values outside of a case");
    if (v->wrong) return KERF_OK; /* said already, and the golden planes are not here */
    KF_TRY(resize(&v->out, g->elements * kerf_dtype_bits(line->dtype) / 8, err));
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++)
        planes[p] = (kerf_cspan){v->golden[p].p, v->golden[p].n};
    kerf_status s = kerf_decode(g, 0, g->bands, planes, v->out, line->dtype, v->check->exec, &why);
    char what[32];
    snprintf(what, sizeof what, "decode to %s: ", kerf_dtype_name(line->dtype));
    KF_TRY(judge(v, what, s, &why, err));
    if (s != KERF_OK) return KERF_OK;
    kf_vector_unify_nans(line->dtype, v->out.p, v->out.n);
    if (!line->digested) kf_vector_unify_nans(line->dtype, line->p, line->n);
    compare(v, kerf_dtype_name(line->dtype), v->out, line, kerf_dtype_bits(line->dtype) / 8);
    return KERF_OK;
}

static kerf_status on_line(vector_state *v, const kf_vector_line *line, kerf_error *err)
{
    if (line->key < KF_VECTOR_PLANE) close_planes(v);
    switch (line->key) {
    case KF_VECTOR_FILE: return malformed(v, err, "a file within a file");
    case KF_VECTOR_CASE:
    case KF_VECTOR_DECODE: return begin_case(v, line, err);
    case KF_VECTOR_SRC: return copy(&v->src, line, err);
    case KF_VECTOR_ENC: return begin_encoder(v, line, err);
    case KF_VECTOR_PLANE: return check_plane(v, line, err);
    case KF_VECTOR_VALUES: return check_values(v, line, err);
    }
    return KERF_OK;
}

kerf_status kf_vector_check_text(kf_vector_check *c, const char *file, const char *text, size_t n,
                                 kerf_error *err)
{
    vector_state v = {.check = c, .file = file, .reader = {.at = text, .end = text + n}};
    kf_vector_line line;
    const char *problem = NULL;
    kerf_status s = KERF_OK;
    int more = 1;
    while (s == KERF_OK && more) {
        more = kf_vector_next(&v.reader, &line, &problem);
        if (more < 0)
            s = problem ? malformed(&v, err, problem)
                        : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", file);
        else if (more)
            s = on_line(&v, &line, err);
    }
    if (s == KERF_OK) close_planes(&v);
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        free(v.ours[p].p);
        free(v.golden[p].p);
    }
    free(v.src.p);
    free(v.out.p);
    kf_vector_reader_close(&v.reader);
    return s;
}
