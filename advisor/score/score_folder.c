/* score_folder.c - writes scores into a folder, or one part of it. */
#include "score/score_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>
#include <kerf/parts.h>

#include "base/divide.h"
#include "base/growing_text.h"
#include "base/work.h"
#include "file/json/json_text.h"

/* The same files for every number of parts. So many that 64 parts have four each, whose work is
 * then nearly equal, and not so many that the folder of a large model is one. */
enum { MOST_FILES = 256, SHARD_NAME = 64 };

size_t kf_score_files(size_t tensors)
{
    return tensors < MOST_FILES ? tensors : MOST_FILES;
}

/* --- what is kept of a score --------------------------------------------------------------- */

void kf_score_take_apart(const kerf_score *s, double sums[KF_SCORE_SUMS],
                         uint64_t counts[KF_SCORE_COUNTS])
{
    const double d[KF_SCORE_SUMS] = {s->signal,          s->noise,          s->cross,
                                     s->weighted_signal, s->weighted_noise, s->max_error,
                                     s->rest_signal,     s->rest_noise};
    const uint64_t n[KF_SCORE_COUNTS] = {s->elements, s->bytes,       s->clipped,    s->nonfinite,
                                         s->zeroed,   s->lost_blocks, s->code_bytes, s->zstd_bytes};
    memcpy(sums, d, sizeof d);
    memcpy(counts, n, sizeof n);
}

void kf_score_put_together(const double d[KF_SCORE_SUMS], const uint64_t n[KF_SCORE_COUNTS],
                           kerf_score *out)
{
    *out = (kerf_score){.elements = n[0],
                        .bytes = n[1],
                        .clipped = n[2],
                        .nonfinite = n[3],
                        .signal = d[0],
                        .noise = d[1],
                        .cross = d[2],
                        .weighted_signal = d[3],
                        .weighted_noise = d[4],
                        .max_error = d[5],
                        .rest_signal = d[6],
                        .rest_noise = d[7],
                        .zeroed = n[4],
                        .lost_blocks = n[5],
                        .code_bytes = n[6],
                        .zstd_bytes = n[7]};
}

/* --- the folder ---------------------------------------------------------------------------- */

/* The codecs in the order of the table, and why others are not in it. */
static json_t *list_codecs(const kerf_scores *s)
{
    char name[64];
    json_t *list = json_array();
    for (size_t c = 0; c < s->codecs; c++)
        kf_json_add(&list, json_string(kerf_codec_name(s->codec[c], name, sizeof name)));
    return list;
}

static json_t *list_left_out(const kerf_scores *s)
{
    char name[64];
    json_t *list = json_array();
    for (size_t i = 0; i < s->left_outs; i++)
        kf_json_add(&list, json_pack("{s:s, s:o}", "format",
                                     kerf_codec_name(s->left_out[i].codec, name, sizeof name),
                                     "reason", kf_json_path(s->left_out[i].reason)));
    return list;
}

static kerf_status describe(const kerf_scores *s, char **text, kerf_error *err)
{
    json_t *tensors = json_array();
    for (size_t i = 0; i < s->tensors; i++) kf_json_add(&tensors, json_string(s->weight[i]->name));
    json_t *doc =
        json_pack("{s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "schema", KF_SCORES_SCHEMA, "source",
                  kf_json_path(s->source), "imatrix", kf_json_path(s->imatrix), "considered",
                  (json_int_t)s->considered, "zstd_level", (json_int_t)s->zstd_level, "formats",
                  list_codecs(s), "left_out", list_left_out(s), "tensors", tensors);
    return kf_json_write(doc, JSON_INDENT(1), text, NULL, err);
}

static kerf_status fingerprint(const kerf_checkpoint *c, uint64_t *out, kerf_error *err)
{
    *out = 0;
    return c ? kerf_reader_fingerprint(kerf_checkpoint_reader(c), out, err) : KERF_OK;
}

/* A number for all that decides the scores besides version, source and names. Paths are not in it:
 * machines may have the source elsewhere. */
static kerf_status hash_work(const kerf_scores *s, const kerf_score_request *r,
                             const kerf_team *team, uint64_t *out, kerf_error *err)
{
    char *text, name[64];
    size_t n;
    kf_text all = {0};
    uint64_t imatrix, calibration;
    const kerf_nan nan = team && team->count ? team->member[0].nan : KERF_NAN_ERROR;
    KF_TRY(fingerprint(r->imatrix, &imatrix, err));
    KF_TRY(fingerprint(r->calibration ? kerf_calibration_imatrix(r->calibration) : NULL,
                       &calibration, err));
    FILE *to = kf_text_stream(&all);
    if (to) {
        fprintf(to, "score %d %d %d %016" PRIx64 " %016" PRIx64 "\n", (int)nan, r->zstd_level,
                r->feedback, imatrix, calibration);
        for (size_t c = 0; c < s->codecs; c++)
            fprintf(to, "%s\n", kerf_codec_name(s->codec[c], name, sizeof name));
    }
    if (!kf_text_close(&all, to, &text, &n))
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to describe the scores");
    *out = kerf_hash(text, n);
    free(text);
    return KERF_OK;
}

char *kf_score_join(const char *name, const char *suffix)
{
    const size_t room = strlen(name) + strlen(suffix) + 1;
    char *text = kf_alloc(room, 1);
    if (text) snprintf(text, room, "%s%s", name, suffix);
    return text;
}

static kerf_status list_entries(kf_score_folder *f, const unsigned *file, kerf_error *err)
{
    const kerf_scores *s = f->scores;
    KF_TRY(kf_allocate(&f->entry, 2 * s->tensors, sizeof *f->entry, err));
    for (size_t i = 0; i < s->tensors; i++) {
        const kerf_shape sums = {2, {s->codecs, KF_SCORE_SUMS}},
                         counts = {2, {s->codecs, KF_SCORE_COUNTS}};
        const char *name = s->weight[i]->name;
        f->entry[2 * i] = (kerf_entry){kf_score_join(name, KF_SUMS_NAME), KERF_F64, sums, file[i]};
        f->entry[2 * i + 1] =
            (kerf_entry){kf_score_join(name, KF_COUNTS_NAME), KERF_U64, counts, file[i]};
        if (!f->entry[2 * i].name || !f->entry[2 * i + 1].name)
            return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    }
    return KERF_OK;
}

/* Which tensors stand in which file, and which files are this part's. */
static kerf_status divide(kf_score_folder *f, const kerf_score_request *r, const uint64_t *work,
                          unsigned *file, kerf_error *err)
{
    const size_t tensors = f->scores->tensors, files = kf_score_files(tensors);
    uint64_t *load = NULL;
    unsigned *part = NULL;
    KF_TRY(kf_divide(work, tensors, (unsigned)files, file, err));
    kerf_status s = kf_allocate(&f->own, files, 1, err);
    if (s == KERF_OK) s = kf_allocate(&load, files, sizeof *load, err);
    if (s == KERF_OK) s = kf_allocate(&part, files, sizeof *part, err);
    for (size_t i = 0; s == KERF_OK && i < tensors; i++) load[file[i]] += work[i];
    if (s == KERF_OK) s = kf_divide(load, files, r->parts ? r->parts : 1, part, err);
    for (size_t i = 0; s == KERF_OK && i < files; i++)
        f->own[i] = r->parts == 0 || part[i] + 1 == r->part;
    free(load);
    free(part);
    return s;
}

typedef struct naming {
    char (*text)[SHARD_NAME]; /* [files] */
    const char **shard;
} naming;

static kerf_status name_shards(naming *n, size_t files, kerf_error *err)
{
    KF_TRY(kf_allocate(&n->text, files, sizeof *n->text, err));
    KF_TRY(kf_allocate(&n->shard, files, sizeof *n->shard, err));
    for (size_t i = 0; i < files; i++) {
        snprintf(n->text[i], SHARD_NAME, "scores-%05zu-of-%05zu.safetensors", i + 1, files);
        n->shard[i] = n->text[i];
    }
    return KERF_OK;
}

static kerf_status open_writer(kf_score_folder *f, const kerf_checkpoint *source,
                               const kerf_score_request *r, const kerf_team *team,
                               const char *const *shard, char *about, kerf_error *err)
{
    const kerf_scores *s = f->scores;
    kerf_resume resume = {.goes_on = r->resume && !r->ranks};
    const kerf_companion companion = {KF_SCORES_NAME, about};
    const kerf_own_part part = {r->part, r->parts, f->own, "score"};
    const kerf_writer_options opt = {.overwrite = r->overwrite,
                                     .shard = shard,
                                     .shards = kf_score_files(s->tensors),
                                     .companion = &companion,
                                     .companions = 1,
                                     .part = r->parts ? &part : NULL,
                                     .resume = &resume,
                                     .job = &f->quiet};
    KF_TRY(fingerprint(source, &resume.source, err));
    KF_TRY(hash_work(s, r, team, &resume.work, err));
    return kerf_writer_create(r->path, f->entry, 2 * s->tensors, &opt, &f->writer, err);
}

static kerf_status check_request(const kerf_score_request *r, kerf_error *err)
{
    static const char *const files[] = {".safetensors", ".safetensors.zst", ".gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (kf_has_suffix(r->path, files[i]))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "%.300s: scores are kept in a folder, and this is the name of a file",
                           r->path);
    if (r->parts && (r->part == 0 || r->part > r->parts || r->parts > KERF_PARTS_MOST))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are counted from 1/N to N/N, N at most %u", r->part,
                       r->parts, KERF_PARTS_MOST);
    return KERF_OK;
}

kerf_status kf_score_folder_create(kf_score_folder *f, const kerf_scores *s,
                                   const kerf_checkpoint *source, const kerf_score_request *request,
                                   const uint64_t *work, const kerf_team *team, const kerf_job *job,
                                   kerf_error *err)
{
    unsigned *file = NULL;
    char *about = NULL;
    naming names = {0};
    *f = (kf_score_folder){.scores = s};
    if (job) f->quiet = (kerf_job){.cancel = job->cancel, .ctx = job->ctx};
    KF_TRY(check_request(request, err));
    KF_TRY(kf_allocate(&file, s->tensors, sizeof *file, err));
    kerf_status status = divide(f, request, work, file, err);
    if (status == KERF_OK) status = list_entries(f, file, err);
    if (status == KERF_OK) status = name_shards(&names, kf_score_files(s->tensors), err);
    if (status == KERF_OK)
        status = kf_allocate(&f->sums, s->codecs * KF_SCORE_SUMS, sizeof *f->sums, err);
    if (status == KERF_OK)
        status = kf_allocate(&f->counts, s->codecs * KF_SCORE_COUNTS, sizeof *f->counts, err);
    if (status == KERF_OK) status = describe(s, &about, err);
    if (status == KERF_OK) status = open_writer(f, source, request, team, names.shard, about, err);
    free(about);
    free(names.shard);
    free(names.text);
    free(file);
    return status;
}

int kf_score_folder_elsewhere(const kf_score_folder *f, size_t tensor)
{
    return !f->own[f->entry[2 * tensor].shard];
}

int kf_score_folder_found(const kf_score_folder *f, size_t tensor)
{
    uint64_t note;
    return kerf_writer_marked(f->writer, 2 * tensor, 2, &note);
}

kerf_status kf_score_folder_put(kf_score_folder *f, size_t tensor, kerf_error *err)
{
    const size_t codecs = f->scores->codecs;
    for (size_t c = 0; c < codecs; c++)
        kf_score_take_apart(&f->scores->score[tensor * codecs + c], f->sums + c * KF_SCORE_SUMS,
                            f->counts + c * KF_SCORE_COUNTS);
    KF_TRY(kerf_writer_write(f->writer, 2 * tensor, 0, f->sums,
                             codecs * KF_SCORE_SUMS * sizeof *f->sums, err));
    KF_TRY(kerf_writer_write(f->writer, 2 * tensor + 1, 0, f->counts,
                             codecs * KF_SCORE_COUNTS * sizeof *f->counts, err));
    return kerf_writer_mark(f->writer, 2 * tensor, 2, 0, err);
}

kerf_status kf_score_folder_commit(kf_score_folder *f, kerf_error *err)
{
    kerf_writer *w = f->writer;
    f->writer = NULL;
    return w ? kerf_writer_commit(w, err) : KERF_OK;
}

void kf_score_folder_close(kf_score_folder *f)
{
    kerf_writer_abort(f->writer);
    for (size_t i = 0; f->entry && i < 2 * f->scores->tensors; i++)
        free((char *)(uintptr_t)f->entry[i].name);
    free(f->entry);
    free(f->own);
    free(f->sums);
    free(f->counts);
    *f = (kf_score_folder){0};
}
