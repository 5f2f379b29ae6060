/* score_open.c - reads scores that were kept in a folder (score_folder.h). Everything in it is
 * checked before memory is taken for it. */
#include <kerf/score.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file/json/json_read.h"
#include "score/score_folder.h"
#include "file/json/json_text.h"

/* What the names of opened scores stand in. */
struct kerf_scores_kept {
    json_t *doc;
    kerf_weight *weight;
};

static kerf_status fail_record(const char *path, const char *what, kerf_error *err)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%.300s: is no whole folder of scores (%s): kerf score -o writes one", path,
                   what);
}

kerf_status kerf_scores_find(const char *path, int *is, kerf_error *err)
{
    struct stat st;
    char *name = kf_score_join(path, "/" KF_SCORES_NAME);
    *is = 0;
    if (!name) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    const int why = stat(name, &st) == 0 ? 0 : errno;
    free(name);
    *is = why == 0 && S_ISREG(st.st_mode);
    if (!why || why == ENOENT || why == ENOTDIR || why == ENAMETOOLONG || why == ELOOP)
        return KERF_OK;
    return kf_fail_errno(err, why, "%s: cannot look for scores in it", path);
}

/* --- kerf-scores.json ---------------------------------------------------------------------- */

static int take_count(const json_t *doc, const char *key, size_t *out)
{
    const json_t *v = json_object_get(doc, key);
    *out = (size_t)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static int take_codec(const json_t *name, kerf_codec *out)
{
    return json_is_string(name) && kerf_codec_find(json_string_value(name), out, NULL) == KERF_OK;
}

static kerf_status take_left_out(kerf_scores *s, const json_t *list, int *whole, kerf_error *err)
{
    KF_TRY(kf_allocate(&s->left_out, json_array_size(list), sizeof *s->left_out, err));
    for (; *whole && s->left_outs < json_array_size(list); s->left_outs++) {
        const json_t *row = json_array_get(list, s->left_outs);
        kerf_left_out *out = &s->left_out[s->left_outs];
        const char *reason = json_string_value(json_object_get(row, "reason"));
        *whole = reason && take_codec(json_object_get(row, "format"), &out->codec);
        if (*whole) snprintf(out->reason, sizeof out->reason, "%s", reason);
    }
    return KERF_OK;
}

static kerf_status take_names(kerf_scores *s, const json_t *list, int *whole, kerf_error *err)
{
    struct kerf_scores_kept *k = s->kept;
    const size_t n = json_array_size(list);
    KF_TRY(kf_allocate(&k->weight, n, sizeof *k->weight, err));
    KF_TRY(kf_allocate(&s->weight, n, sizeof *s->weight, err));
    for (; *whole && s->tensors < n; s->tensors++) {
        k->weight[s->tensors].name = json_string_value(json_array_get(list, s->tensors));
        s->weight[s->tensors] = &k->weight[s->tensors];
        *whole = k->weight[s->tensors].name != NULL;
    }
    return KERF_OK;
}

static kerf_status take_record(kerf_scores *s, const char *path, kerf_error *err)
{
    const json_t *doc = s->kept->doc, *formats = json_object_get(doc, "formats"),
                 *left_out = json_object_get(doc, "left_out"),
                 *tensors = json_object_get(doc, "tensors"),
                 *imatrix = json_object_get(doc, "imatrix");
    size_t level;
    s->source = json_string_value(json_object_get(doc, "source"));
    s->imatrix = json_string_value(imatrix);
    int whole = kf_json_has_schema(doc, KF_SCORES_SCHEMA) && s->source &&
                (s->imatrix || json_is_null(imatrix)) && json_array_size(tensors) > 0 &&
                json_array_size(formats) > 0 && json_is_array(left_out) &&
                take_count(doc, "considered", &s->considered) &&
                take_count(doc, "zstd_level", &level) && level <= 22;
    if (!whole) return fail_record(path, KF_SCORES_NAME, err);
    s->zstd_level = (int)level;
    KF_TRY(kf_allocate(&s->codec, json_array_size(formats), sizeof *s->codec, err));
    for (; whole && s->codecs < json_array_size(formats); s->codecs++)
        whole = take_codec(json_array_get(formats, s->codecs), &s->codec[s->codecs]);
    KF_TRY(take_left_out(s, left_out, &whole, err));
    KF_TRY(take_names(s, tensors, &whole, err));
    return whole ? KERF_OK : fail_record(path, KF_SCORES_NAME, err);
}

/* --- the numbers --------------------------------------------------------------------------- */

/* Every tensor of the folder has a row for each codec: the memory for all is then no more than what
 * is on the disk. */
static kerf_status check_tensors(const kerf_scores *s, const kerf_reader *r, const char *path,
                                 kerf_error *err)
{
    const kerf_tensor *t;
    const size_t n = kerf_reader_count(r);
    if (n % 2 != 0 || n / 2 != s->tensors) return fail_record(path, "their number", err);
    for (size_t i = 0; (t = kerf_reader_at(r, i)) != NULL; i++)
        if ((t->dtype != KERF_F64 && t->dtype != KERF_U64) || t->shape.rank != 2 ||
            t->shape.dim[0] != s->codecs || t->shape.dim[1] != KF_SCORE_SUMS)
            return fail_record(path, "their shapes", err);
    return KERF_OK;
}

static kerf_status read_rows(const kerf_scores *s, const kerf_reader *r, const char *path, size_t i,
                             const char *suffix, kerf_dtype dtype, void *rows, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 1];
    const int n = snprintf(name, sizeof name, "%s%s", s->weight[i]->name, suffix);
    const kerf_tensor *t = n > 0 && (size_t)n < sizeof name ? kerf_reader_find(r, name) : NULL;
    if (!t || t->dtype != dtype) return fail_record(path, "a tensor is missing", err);
    return kerf_reader_read(r, t, 0, rows, (size_t)t->bytes, err);
}

static kerf_status read_scores(kerf_scores *s, const kerf_reader *r, const char *path,
                               kerf_error *err)
{
    double *sums = NULL;
    uint64_t *counts = NULL;
    KF_TRY(check_tensors(s, r, path, err));
    KF_TRY(kf_allocate(&s->score, s->tensors * s->codecs, sizeof *s->score, err));
    KF_TRY(kf_allocate(&s->total, s->codecs, sizeof *s->total, err));
    kerf_status status = kf_allocate(&sums, s->codecs * KF_SCORE_SUMS, sizeof *sums, err);
    if (status == KERF_OK)
        status = kf_allocate(&counts, s->codecs * KF_SCORE_COUNTS, sizeof *counts, err);
    for (size_t i = 0; status == KERF_OK && i < s->tensors; i++) {
        status = read_rows(s, r, path, i, KF_SUMS_NAME, KERF_F64, sums, err);
        if (status == KERF_OK)
            status = read_rows(s, r, path, i, KF_COUNTS_NAME, KERF_U64, counts, err);
        for (size_t c = 0; status == KERF_OK && c < s->codecs; c++)
            kf_score_put_together(sums + c * KF_SCORE_SUMS, counts + c * KF_SCORE_COUNTS,
                                  &s->score[i * s->codecs + c]);
    }
    free(sums);
    free(counts);
    for (size_t i = 0; status == KERF_OK && i < s->tensors * s->codecs; i++)
        kerf_score_merge(&s->total[i % s->codecs], &s->score[i]);
    s->measured = s->tensors;
    return status;
}

static kerf_status open_scores(kerf_scores *s, const char *path, kerf_error *err)
{
    kerf_reader *r = NULL;
    KF_TRY(kf_allocate(&s->kept, 1, sizeof *s->kept, err));
    KF_TRY(kerf_reader_open(path, &r, err)); /* it also knows of parts that are not merged */
    char *name = kf_score_join(path, "/" KF_SCORES_NAME);
    struct stat st;
    const int is_there = !name || lstat(name, &st) == 0 || errno != ENOENT;
    kerf_status status =
        name ? kf_json_read(name, KF_JSON_MAX_DOCUMENT_BYTES, KF_JSON_STRICT, &s->kept->doc, err)
             : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    free(name);
    if (status == KERF_E_IO && !is_there)
        status = kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: no folder of scores", path);
    if (status == KERF_OK) status = take_record(s, path, err);
    if (status == KERF_OK) status = read_scores(s, r, path, err);
    if (status == KERF_OK) status = kerf_reader_check(r, err);
    kerf_reader_close(r);
    return status;
}

kerf_status kerf_scores_open(const char *path, kerf_scores **out, kerf_error *err)
{
    kerf_scores *s = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&s, 1, sizeof *s, err));
    kerf_status status = open_scores(s, path, err);
    if (status == KERF_OK)
        *out = s;
    else
        kerf_scores_close(s);
    return status;
}

void kerf_scores_close(kerf_scores *s)
{
    if (!s) return;
    if (s->kept) {
        json_decref(s->kept->doc);
        free(s->kept->weight);
        free(s->kept);
    }
    free(s->weight);
    free(s->codec);
    free(s->score);
    free(s->total);
    free(s->left_out);
    free(s);
}
