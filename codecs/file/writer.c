/* writer.c - a checkpoint that appears whole or not at all.
 *
 * create   checks the target, lays out the files, reserves the disk, writes the headers, and copies
 *          the small files of a source folder: what can fail early does
 * write    puts bytes in place and notes their hash
 * commit   proves that every byte was written once, packs (*.zst), syncs, reads all back through
 *          the reader's own path and compares, then renames: a folder is built whole beside the
 *          target, its index last, and appears by one rename */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "file/blob.h"
#include "file/companions.h"
#include "file/index.h"
#include "file/ledger.h"
#include "file/plan.h"
#include "file/target.h"
#include "file/txn.h"

#define MODEL_NAME "model.safetensors"
#define DEFAULT_LEVEL 3

typedef struct out_file {
    char *name;    /* of a folder's shard; NULL: the target itself */
    int is_packed; /* pack on commit                               */
    kf_temp temp;  /* of the unpacked file until then              */
} out_file;

struct kerf_writer {
    kf_target target;
    kf_temp root; /* folder */
    kf_plan plan;
    kf_ledger ledger;
    out_file *file; /* plan.files of them */
    int overwrite, threads, level;
};

static kerf_status no_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for the writer");
}

/* --- create --- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Shards are told apart by their unpacked names, which the index lists. */
static kerf_status check_shard_names(const kerf_writer_options *opt, kerf_error *err)
{
    char **name = kf_alloc_zero(opt->shards, sizeof *name);
    kerf_status s = name ? KERF_OK : no_memory(err);
    for (size_t i = 0; i < opt->shards && s == KERF_OK; i++) {
        const char *file = opt->shard[i];
        if (!kf_is_shard_name(file) || strlen(file) > 255)
            s = kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                        "output shard \"%.*s\": not the plain name of a safetensors file",
                        KF_NAME(file));
        else if (!(name[i] = strndup(file, strlen(file) - 4 * (size_t)kf_has_suffix(file, ".zst"))))
            s = no_memory(err);
    }
    if (s == KERF_OK) {
        qsort(name, opt->shards, sizeof *name, compare_texts);
        for (size_t i = 1; i < opt->shards && s == KERF_OK; i++)
            if (strcmp(name[i], name[i - 1]) == 0)
                s = kf_fail(err, KERF_E_ARG, KF_NOWHERE, "two output shards are named \"%.*s\"",
                            KF_NAME(name[i]));
    }
    for (size_t i = 0; name && i < opt->shards; i++) free(name[i]);
    free(name);
    return s;
}

static kerf_status check_options(const kf_target *t, const kerf_writer_options *opt, int *level,
                                 kerf_error *err)
{
    *level = opt->zstd_level ? opt->zstd_level : DEFAULT_LEVEL;
    if (*level < ZSTD_minCLevel() || *level > ZSTD_maxCLevel())
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "zstd level %d: from %d to %d exist", *level,
                       ZSTD_minCLevel(), ZSTD_maxCLevel());
    if (!opt->shard) return KERF_OK;
    if (opt->shards == 0) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a list of no shards");
    if (!t->is_folder && opt->shards > 1)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%s: one file cannot hold %zu shards, name a folder", t->path, opt->shards);
    return check_shard_names(opt, err);
}

static kerf_status name_files(kerf_writer *w, const kerf_writer_options *opt, kerf_error *err)
{
    w->file = kf_alloc_zero(w->plan.files, sizeof *w->file);
    if (!w->file) return no_memory(err);
    for (size_t i = 0; i < w->plan.files; i++) w->file[i].temp = (kf_temp)KF_NO_TEMP;
    for (size_t i = 0; i < w->plan.files; i++) {
        out_file *f = &w->file[i];
        f->is_packed = w->target.is_packed;
        if (!w->target.is_folder) continue;
        f->name = strdup(opt->shard ? opt->shard[i] : MODEL_NAME);
        if (!f->name) return no_memory(err);
        f->is_packed = kf_has_suffix(f->name, ".zst");
    }
    return KERF_OK;
}

static kerf_status open_temp(kerf_writer *w, const out_file *f, const char *name, kf_temp *t,
                             kerf_error *err)
{
    if (!f->name) return kf_temp_create(w->target.path, 0, t, err);
    return kf_temp_create_in(&w->root, name, t, err);
}

/* Asks for the whole space now, so that a full disk is known before any work is done. */
static kerf_status reserve(const kf_temp *t, uint64_t bytes, kerf_error *err)
{
    int failed;
    do failed = fallocate(t->fd, 0, 0, (off_t)bytes) != 0 ? errno : 0;
    while (failed == EINTR);
    if (failed == EOPNOTSUPP || failed == ENOSYS || failed == EINVAL)
        failed = ftruncate(t->fd, (off_t)bytes) != 0 ? errno : 0;
    if (!failed) return KERF_OK;
    return kf_fail_errno(err, failed, "%s: no room for %" PRIu64 " bytes", t->path, bytes);
}

static kerf_status write_noted(kerf_writer *w, size_t file, uint64_t offset, const void *src,
                               size_t n, kerf_error *err)
{
    const uint8_t *p = src;
    const kf_temp *t = &w->file[file].temp;
    while (n > 0) {
        size_t part = n < KF_LEDGER_MAX_BYTES ? n : KF_LEDGER_MAX_BYTES;
        kf_record r = {offset, kerf_hash(p, part), (uint32_t)part, (uint32_t)file};
        KF_TRY(kf_write_at(t->fd, t->path, offset, p, part, err));
        KF_TRY(kf_ledger_add(&w->ledger, r, err));
        p += part;
        offset += part;
        n -= part;
    }
    return KERF_OK;
}

static kerf_status write_padding(kerf_writer *w, size_t file, kerf_error *err)
{
    static const char zeros[4096];
    for (size_t i = 0; i < w->plan.count; i++) {
        const kf_place *place = &w->plan.place[i];
        for (uint64_t at = 0; place->file == file && at < place->padding; at += sizeof zeros)
            KF_TRY(write_noted(w, file, place->offset + place->bytes + at, zeros,
                               (size_t)kf_min_u64(sizeof zeros, place->padding - at), err));
    }
    return KERF_OK;
}

static kerf_status start_file(kerf_writer *w, size_t i, kerf_error *err)
{
    out_file *f = &w->file[i];
    kf_plan_file *plan = &w->plan.file[i];
    char *name = NULL;
    if (f->name) {
        name = strndup(f->name, strlen(f->name) - (f->is_packed ? 4 : 0));
        if (!name) return no_memory(err);
    }
    kerf_status s = open_temp(w, f, name, &f->temp, err);
    free(name);
    if (s == KERF_OK) s = reserve(&f->temp, plan->bytes, err);
    if (s == KERF_OK) s = write_noted(w, i, 0, plan->header.p, plan->header.n, err);
    if (s == KERF_OK) s = write_padding(w, i, err);
    free(plan->header.p); /* on disk, and not needed again */
    plan->header = (kf_text){0};
    return s;
}

static kerf_status start(kerf_writer *w, const char *path, const kerf_entry *entries, size_t count,
                         const kerf_writer_options *opt, kerf_error *err)
{
    size_t files = opt->shard ? opt->shards : 1;
    KF_TRY(kf_target_check(path, opt, &w->target, err));
    KF_TRY(check_options(&w->target, opt, &w->level, err));
    w->overwrite = opt->overwrite;
    w->threads = opt->threads;
    KF_TRY(w->target.is_gguf ? kf_plan_init_gguf(&w->plan, entries, count, opt, err)
                             : kf_plan_init(&w->plan, entries, count, files, opt, err));
    KF_TRY(name_files(w, opt, err));
    if (w->target.is_folder) KF_TRY(kf_temp_create(w->target.path, 1, &w->root, err));
    if (w->target.needs_exchange) KF_TRY(kf_temp_check_exchange(&w->root, w->target.path, err));
    for (size_t i = 0; i < files; i++) KF_TRY(start_file(w, i, err));
    if (!w->target.is_folder) return KERF_OK;
    if (opt->source && kerf_reader_is_folder(opt->source))
        KF_TRY(kf_copy_companions(kerf_reader_folder(opt->source), &w->root, opt->companion,
                                  opt->companions, err));
    return kf_write_companions(&w->root, opt->companion, opt->companions, err);
}

kerf_status kerf_writer_create(const char *path, const kerf_entry *entries, size_t count,
                               const kerf_writer_options *opt, kerf_writer **out, kerf_error *err)
{
    static const kerf_writer_options defaults = {0};
    if (!path || !out || (count > 0 && !entries))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_writer_create: an argument is missing");
    *out = NULL;
    kerf_writer *w = kf_alloc_zero(1, sizeof *w);
    if (!w) return no_memory(err);
    w->root = (kf_temp)KF_NO_TEMP;
    kf_ledger_init(&w->ledger);
    kerf_status s = start(w, path, entries, count, opt ? opt : &defaults, err);
    if (s != KERF_OK) {
        kerf_writer_abort(w);
        return s;
    }
    *out = w;
    return KERF_OK;
}

kerf_status kerf_writer_write(kerf_writer *w, size_t i, uint64_t offset, const void *src, size_t n,
                              kerf_error *err)
{
    uint64_t end;
    if (i >= w->plan.count)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "output tensor %zu does not exist", i);
    const kf_place *place = &w->plan.place[i];
    if (!kf_add_ok(offset, n, &end) || end > place->bytes)
        return kf_fail(err, KERF_E_ARG, offset,
                       "output tensor %zu: %zu bytes at %" PRIu64 " do not fit its %" PRIu64, i, n,
                       offset, place->bytes);
    return write_noted(w, place->file, place->offset + offset, src, n, err);
}

uint64_t kerf_writer_bytes(const kerf_writer *w)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->plan.files; i++) bytes += w->plan.file[i].bytes;
    return bytes;
}

/* --- commit --- */

/* Replaces the unpacked temporary of a file by a packed one. */
static kerf_status pack_file(kerf_writer *w, out_file *f, uint64_t *bytes, kerf_error *err)
{
    kf_temp packed = KF_NO_TEMP;
    KF_TRY(open_temp(w, f, f->name, &packed, err));
    kf_seek_pack job = {.in = f->temp.fd,
                        .out = packed.fd,
                        .in_path = f->temp.path,
                        .out_path = packed.path,
                        .bytes = *bytes,
                        .level = w->level,
                        .threads = w->threads};
    kerf_status s = kf_seek_write(&job, bytes, err);
    if (s != KERF_OK) {
        kf_temp_discard(&packed);
        return s;
    }
    kf_temp_discard(&f->temp);
    f->temp = packed;
    return KERF_OK;
}

static kerf_status finish_file(kerf_writer *w, size_t i, kerf_error *err)
{
    out_file *f = &w->file[i];
    uint64_t bytes = w->plan.file[i].bytes;
    kf_blob blob;
    if (f->is_packed) KF_TRY(pack_file(w, f, &bytes, err));
    KF_TRY(kf_temp_settle(&f->temp, bytes, err));
    KF_TRY(kf_blob_open(f->temp.path, &blob, err));
    kerf_status s = kf_ledger_verify(&w->ledger, i, &blob, w->threads, err);
    kf_blob_close(&blob);
    return s;
}

/* A model in one file of the usual name is found without an index. */
static int needs_index(const kerf_writer *w)
{
    if (w->plan.files > 1) return 1;
    return strncmp(w->file[0].name, MODEL_NAME, sizeof MODEL_NAME - 1) != 0;
}

static kerf_status write_index(kerf_writer *w, kerf_error *err)
{
    kf_text text = {0};
    kf_temp t = KF_NO_TEMP;
    size_t count = w->plan.count;
    kf_named *entry = kf_alloc(count, sizeof *entry);
    const char **shard = kf_alloc(w->plan.files, sizeof *shard);
    kerf_status s = entry && shard ? KERF_OK : no_memory(err);
    if (s == KERF_OK) {
        for (size_t i = 0; i < count; i++)
            entry[i] =
                (kf_named){w->plan.by_name[i].name, w->plan.place[w->plan.by_name[i].index].file};
        for (size_t i = 0; i < w->plan.files; i++) shard[i] = w->file[i].name;
        kf_index_write(&text, entry, count, shard, w->plan.tensor_bytes);
        s = text.failed ? no_memory(err) : kf_temp_create_in(&w->root, KF_INDEX_NAME, &t, err);
    }
    if (s == KERF_OK) s = kf_temp_fill(&t, text.p, text.n, err);
    if (s == KERF_OK)
        kf_temp_release(&t);
    else
        kf_temp_discard(&t);
    free(text.p);
    free(shard);
    free(entry);
    return s;
}

static kerf_status publish_folder(kerf_writer *w, kerf_error *err)
{
    if (needs_index(w)) KF_TRY(write_index(w, err));
    return kf_temp_publish(&w->root, w->target.path, w->overwrite, err);
}

static kerf_status finish(kerf_writer *w, kerf_error *err)
{
    KF_TRY(kf_ledger_check(&w->ledger, &w->plan, err));
    for (size_t i = 0; i < w->plan.files; i++) KF_TRY(finish_file(w, i, err));
    if (w->target.is_folder) return publish_folder(w, err);
    return kf_temp_publish(&w->file[0].temp, w->target.path, w->overwrite, err);
}

kerf_status kerf_writer_commit(kerf_writer *w, kerf_error *err)
{
    kerf_status s = finish(w, err);
    kerf_writer_abort(w); /* what was published is no temporary any more */
    return s;
}

void kerf_writer_abort(kerf_writer *w)
{
    if (!w) return;
    for (size_t i = 0; w->file && i < w->plan.files; i++) {
        kf_temp_discard(&w->file[i].temp);
        free(w->file[i].name);
    }
    kf_temp_discard(&w->root);
    free(w->file);
    kf_plan_free(&w->plan);
    kf_ledger_free(&w->ledger);
    free(w->target.path);
    free(w);
}

kerf_status kerf_file_replace(const char *path, const void *p, size_t n, int overwrite,
                              kerf_error *err)
{
    kf_temp t;
    if (!path || path[0] == 0) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a file without a name");
    KF_TRY(kf_temp_create(path, 0, &t, err));
    kerf_status s = kf_temp_fill(&t, p, n, err);
    if (s == KERF_OK) s = kf_temp_publish(&t, path, overwrite, err);
    kf_temp_discard(&t);
    return s;
}
