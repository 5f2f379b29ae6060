/* writer.c - a checkpoint that appears whole or not at all.
 *
 * create   checks the target, lays out the files, takes up what a dead run left, reserves the disk,
 *          writes the headers, and copies the small files of a source folder: what can fail early
 *          does
 * write    puts bytes in place and notes their hash
 * mark     says that entries are complete, which a journal keeps for the next run
 * commit   proves that every byte was written once, packs (*.zst), syncs and meanwhile reads all
 *          back through the reader's own path and compares, then renames: a folder is built whole
 *          beside the target, its index last, and appears by one rename */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "file/disk/blob.h"
#include "file/write/companions.h"
#include "file/safetensors/index.h"
#include "file/write/journal.h"
#include "file/write/ledger.h"
#include "file/safetensors/placement.h"
#include "file/write/resume.h"
#include "file/write/target.h"
#include "file/disk/temp.h"

#define MODEL_NAME "model.safetensors"
#define DEFAULT_LEVEL 3
#define HURRY_BYTES ((size_t)4 << 20)

typedef struct out_file {
    char *name;          /* in the temporary folder; NULL: the target itself      */
    char *plain;         /* the same until it is packed                           */
    int is_packed;       /* pack on commit                                        */
    int was_packed;      /* by a dead run                                         */
    atomic_int is_dirty; /* written to since it was synced for the journal        */
    atomic_size_t idle;  /* bytes that the disk was not yet asked to write        */
    kf_temp temp;        /* of the unpacked file until commit                     */
} out_file;

struct kerf_writer {
    kf_target target;
    kf_temp root; /* folder, with a journal also of a single file */
    kf_plan plan;
    kf_ledger ledger;
    out_file *file; /* plan.files of them */
    int overwrite, threads, level;
    kf_watch watch;
    int has_journal, keeps; /* keeps: what is marked is left to the next run */
    kf_journal journal;
    kf_found found; /* of a dead run; its ledger has become ours */
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
        const char *name = opt->shard ? opt->shard[i] : MODEL_NAME;
        f->is_packed = w->target.is_packed;
        if (!w->target.is_folder && !w->has_journal) continue;
        if (!w->target.is_folder) name = kf_path_base(w->target.path);
        f->is_packed = kf_has_suffix(name, ".zst");
        f->name = strdup(name);
        f->plain = strndup(name, strlen(name) - (f->is_packed ? 4 : 0));
        if (!f->name || !f->plain) return no_memory(err);
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

/* With a journal the disk gets to work soon, so that a sync finds little to wait for. */
static void hurry(out_file *f, size_t n)
{
    atomic_store(&f->is_dirty, 1);
    if (atomic_fetch_add(&f->idle, n) + n < HURRY_BYTES) return;
    atomic_store(&f->idle, 0);
    sync_file_range(f->temp.fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* all that waits */
}

static kerf_status write_noted(kerf_writer *w, size_t file, uint64_t offset, const void *src,
                               size_t n, kerf_error *err)
{
    const uint8_t *p = src;
    out_file *f = &w->file[file];
    const kf_temp *t = &f->temp;
    while (n > 0) {
        size_t part = n < KF_LEDGER_MAX_BYTES ? n : KF_LEDGER_MAX_BYTES;
        kf_record r = {offset, kerf_hash(p, part), (uint32_t)part, (uint32_t)file};
        if (!f->was_packed) KF_TRY(kf_write_at(t->fd, t->path, offset, p, part, err));
        if (w->has_journal && !f->was_packed) hurry(f, part);
        KF_TRY(kf_ledger_add(&w->ledger, r, err));
        p += part;
        offset += part;
        n -= part;
    }
    return KERF_OK;
}

/* Opens what a dead run left of a file, or makes it. */
static kerf_status open_file(kerf_writer *w, out_file *f, kf_left form, uint64_t bytes,
                             kerf_error *err)
{
    f->was_packed = form == KF_LEFT_PACKED;
    if (f->was_packed) return kf_temp_open_in(&w->root, f->name, &f->temp, err);
    if (form == KF_LEFT_PLAIN)
        KF_TRY(kf_temp_open_in(&w->root, f->plain, &f->temp, err));
    else
        KF_TRY(open_temp(w, f, f->plain, &f->temp, err));
    return reserve(&f->temp, bytes, err);
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

static kerf_status start_file(kerf_writer *w, size_t i, kf_left form, kerf_error *err)
{
    kf_plan_file *plan = &w->plan.file[i];
    KF_TRY(open_file(w, &w->file[i], form, plan->bytes, err));
    kerf_status s = write_noted(w, i, 0, plan->header.p, plan->header.n, err);
    if (s == KERF_OK) s = write_padding(w, i, err);
    free(plan->header.p); /* on disk, and not needed again */
    plan->header = (kf_text){0};
    return s;
}

/* A journal stands for its files by their names too, and packing by its level. */
static kerf_status open_root(kerf_writer *w, const kerf_resume *resume, kf_resume_file *file,
                             kerf_error *err)
{
    kf_resume_job job = {.target = w->target.path,
                         .plan = &w->plan,
                         .file = file,
                         .threads = w->threads,
                         .watch = &w->watch};
    if (!resume) return kf_temp_create(w->target.path, 1, &w->root, err);
    for (size_t i = 0; i < w->plan.files; i++) {
        const out_file *f = &w->file[i];
        file[i] = (kf_resume_file){f->plain, f->is_packed ? f->name : NULL, KF_LEFT_NONE};
    }
    job.head = (kf_journal_head){kerf_version(), resume->source, resume->work,
                                 kf_resume_hash(&job, w->level)};
    kf_journal_init(&w->journal, &job.head);
    w->keeps = resume->goes_on;
    KF_TRY(w->keeps ? kf_resume_open(&job, &w->root, &w->found, err)
                    : kf_temp_create(w->target.path, 1, &w->root, err));
    w->root.scaffold = KF_JOURNAL_NAME;
    if (w->keeps) kf_temp_keep(&w->root);
    kf_ledger_swap(&w->ledger, &w->found.ledger);
    w->journal.marks = w->found.marks;
    w->found.marks = (kf_marks){0};
    return KERF_OK;
}

static kerf_status start_files(kerf_writer *w, const kerf_writer_options *opt, kerf_error *err)
{
    kf_resume_file *file = kf_alloc_zero(w->plan.files, sizeof *file);
    kerf_status s = file ? KERF_OK : no_memory(err);
    if (s == KERF_OK && (w->target.is_folder || w->has_journal))
        s = open_root(w, opt->resume, file, err);
    if (s == KERF_OK && w->target.needs_exchange)
        s = kf_temp_check_exchange(&w->root, w->target.path, err);
    for (size_t i = 0; i < w->plan.files && s == KERF_OK; i++)
        s = start_file(w, i, file[i].form, err);
    free(file);
    return s;
}

static kerf_status start(kerf_writer *w, const char *path, const kerf_entry *entries, size_t count,
                         const kerf_writer_options *opt, kerf_error *err)
{
    KF_TRY(kf_target_check(path, opt, &w->target, err));
    KF_TRY(check_options(&w->target, opt, &w->level, err));
    w->overwrite = opt->overwrite;
    w->threads = opt->threads;
    w->watch = (kf_watch){.job = opt->job};
    w->has_journal = opt->resume != NULL;
    const size_t files = opt->shard ? opt->shards : 1;
    KF_TRY(w->target.is_gguf ? kf_plan_init_gguf(&w->plan, entries, count, opt, err)
                             : kf_plan_init(&w->plan, entries, count, files, opt, err));
    KF_TRY(name_files(w, opt, err));
    KF_TRY(start_files(w, opt, err));
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
    w->root = w->journal.file = (kf_temp)KF_NO_TEMP;
    kf_ledger_init(&w->ledger);
    kf_found_init(&w->found);
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

/* Syncs what was written, then notes it. */
static kerf_status note_writes(kerf_writer *w, kerf_error *err)
{
    const double began_s = kf_clock_s();
    const size_t writes = kf_ledger_count(&w->ledger);
    for (size_t i = 0; i < w->plan.files; i++) {
        out_file *f = &w->file[i];
        if (f->temp.fd < 0 || !atomic_exchange(&f->is_dirty, 0)) continue;
        if (fdatasync(f->temp.fd) != 0) /* is not told a second time: it must end the run */
            return kf_fail_errno(err, errno, "%s: cannot sync", f->temp.path);
    }
    kf_journal_note(&w->journal, &w->root, &w->ledger, writes, began_s);
    return KERF_OK;
}

kerf_status kerf_writer_mark(kerf_writer *w, size_t first, size_t count, uint64_t note,
                             kerf_error *err)
{
    if (first > w->plan.count || count > w->plan.count - first)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "output tensor %zu does not exist",
                       first + count);
    if (!w->has_journal || count == 0) return KERF_OK;
    KF_TRY(kf_marks_add(&w->journal.marks, (kf_mark){first, count, note}, err));
    return kf_journal_is_due(&w->journal) ? note_writes(w, err) : KERF_OK;
}

int kerf_writer_marked(const kerf_writer *w, size_t first, size_t count, uint64_t *note)
{
    if (w->found.bytes == 0 || !w->found.of_entry) return 0;
    for (size_t i = first; i < first + count; i++)
        if (i >= w->plan.count || !w->found.of_entry[i]) return 0;
    if (count > 0) *note = w->journal.marks.mark[w->found.of_entry[first] - 1].note;
    return count > 0;
}

uint64_t kerf_writer_found(const kerf_writer *w, const char **why)
{
    *why = w->found.why;
    return w->found.bytes;
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
                        .threads = w->threads,
                        .job = w->watch.job};
    kerf_status s = kf_seek_write(&job, bytes, err);
    if (s != KERF_OK) {
        kf_temp_discard(&packed);
        return s;
    }
    kf_temp_discard(&f->temp);
    f->temp = packed;
    return KERF_OK;
}

/* The disk works while what it gets is read back. */
typedef struct sync_job {
    const kf_temp *temp;
    kerf_status status;
    kerf_error err;
} sync_job;

static void *run_sync(void *ctx)
{
    sync_job *j = ctx;
    j->status = kf_temp_sync(j->temp, &j->err);
    return NULL;
}

static kerf_status finish_file(kerf_writer *w, size_t i, kerf_error *err)
{
    out_file *f = &w->file[i];
    uint64_t bytes = w->plan.file[i].bytes;
    kf_blob blob;
    if (f->is_packed && !f->was_packed) KF_TRY(pack_file(w, f, &bytes, err));
    if (f->was_packed) KF_TRY(kf_temp_size(&f->temp, &bytes, err));
    KF_TRY(kf_temp_check_size(&f->temp, bytes, err));
    KF_TRY(kf_blob_open(f->temp.path, &blob, err));
    sync_job sync = {.temp = &f->temp};
    pthread_t thread;
    const int is_apart = pthread_create(&thread, NULL, run_sync, &sync) == 0;
    kerf_status s = kf_ledger_verify(&w->ledger, i, &blob, w->threads, &w->watch, err);
    if (is_apart) pthread_join(thread, NULL);
    kf_blob_close(&blob);
    KF_TRY(s);
    if (sync.status != KERF_OK && err) *err = sync.err;
    KF_TRY(sync.status);
    return kf_temp_settle(&f->temp, bytes, err);
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
    if (w->has_journal && kf_journal_is_due(&w->journal)) KF_TRY(note_writes(w, err));
    KF_TRY(kf_ledger_check(&w->ledger, &w->plan, err));
    w->watch.done = 0;
    w->watch.total = kerf_writer_bytes(w);
    for (size_t i = 0; i < w->plan.files; i++) KF_TRY(finish_file(w, i, err));
    if (w->target.is_folder) return publish_folder(w, err);
    return kf_temp_publish(&w->file[0].temp, w->target.path, w->overwrite, err);
}

kerf_status kerf_writer_commit(kerf_writer *w, kerf_error *err)
{
    kerf_status s = finish(w, err);
    if (s == KERF_OK) w->keeps = 0;
    kerf_writer_abort(w); /* what was published is no temporary any more */
    return s;
}

/* Leaves the temporaries to the next run, under a journal that has all that is finished: publishing
 * may have taken the old one away. */
static void keep(kerf_writer *w)
{
    kf_temp_release(&w->journal.file);
    w->journal.noted_marks = w->journal.noted_writes = 0;
    if (note_writes(w, NULL) != KERF_OK || w->journal.failed) return;
    for (size_t i = 0; i < w->plan.files; i++) kf_temp_release(&w->file[i].temp);
    kf_temp_release(&w->root);
}

void kerf_writer_abort(kerf_writer *w)
{
    if (!w) return;
    if (w->keeps && w->root.path && w->journal.marks.count > 0) keep(w);
    for (size_t i = 0; w->file && i < w->plan.files; i++) {
        kf_temp_discard(&w->file[i].temp);
        free(w->file[i].name);
        free(w->file[i].plain);
    }
    kf_temp_discard(&w->root);
    free(w->file);
    kf_journal_close(&w->journal);
    kf_found_free(&w->found);
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
