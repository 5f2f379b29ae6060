/* writer_create.c - begins an output: checks names and options, makes the temporary files, and
 * writes their headers and the small files beside them. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/zstd_level.h"
#include "file/disk/cleanup.h"
#include "file/disk/io.h"
#include "file/disk/publish.h"
#include "file/gguf/gguf_write.h"
#include "file/safetensors/index.h"
#include "file/safetensors/safetensors_write.h"
#include "file/write/companions.h"
#include "file/write/writer.h"

#define DEFAULT_LEVEL 3

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The index lists unpacked names: they must differ. */
static kerf_status check_shard_names(const kerf_writer_options *opt, kerf_error *err)
{
    char **name = kf_alloc_zero(opt->shards, sizeof *name);
    kerf_status s = name ? KERF_OK : kf_writer_no_memory(err);
    for (size_t i = 0; i < opt->shards && s == KERF_OK; i++) {
        const char *file = opt->shard[i];
        if (!kf_is_shard_name(file) || strlen(file) > 255)
            s = kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                        "output shard \"%.*s\": not the plain name of a safetensors file",
                        KF_NAME(file));
        else if (!(name[i] = strndup(file, strlen(file) - 4 * (size_t)kf_has_suffix(file, ".zst"))))
            s = kf_writer_no_memory(err);
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
    KF_TRY(kf_check_zstd_level(*level, err));
    if (!opt->shard) return KERF_OK;
    if (opt->shards == 0) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a list of no shards");
    if (!t->is_folder && opt->shards > 1)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%s: one file cannot hold %zu shards, name a folder", t->path, opt->shards);
    return check_shard_names(opt, err);
}

static kerf_status name_files(kerf_writer *w, const kerf_writer_options *opt, kerf_error *err)
{
    w->file = kf_alloc_zero(w->placement.files, sizeof *w->file);
    if (!w->file) return kf_writer_no_memory(err);
    for (size_t i = 0; i < w->placement.files; i++) w->file[i].temp = (kf_temp)KF_NO_TEMP;
    for (size_t i = 0; i < w->placement.files; i++) {
        kf_out_file *f = &w->file[i];
        const char *name = opt->shard ? opt->shard[i] : KF_MODEL_NAME;
        f->is_packed = w->target.is_packed;
        if (!w->target.is_folder && !w->has_journal) continue;
        if (!w->target.is_folder) name = kf_path_base(w->target.path);
        f->is_packed = kf_has_suffix(name, ".zst");
        f->name = strdup(name);
        f->plain = strndup(name, strlen(name) - (f->is_packed ? 4 : 0));
        if (!f->name || !f->plain) return kf_writer_no_memory(err);
    }
    return KERF_OK;
}

/* Opens what a dead run left of a file, or makes it. */
static kerf_status open_file(kerf_writer *w, kf_out_file *f, kf_left form, uint64_t bytes,
                             kerf_error *err)
{
    f->was_packed = form == KF_LEFT_PACKED;
    if (f->was_packed) return kf_temp_open_in(&w->root, f->name, &f->temp, err);
    if (form == KF_LEFT_PLAIN)
        KF_TRY(kf_temp_open_in(&w->root, f->plain, &f->temp, err));
    else
        KF_TRY(kf_writer_open_temp(w, f, f->plain, &f->temp, err));
    /* Whole, so that a full disk is found before any work is done. */
    return kf_reserve_at(f->temp.fd, f->temp.path, bytes, err);
}

static kerf_status write_padding(kerf_writer *w, kerf_error *err)
{
    static const char zeros[4096];
    for (size_t i = 0; i < w->placement.count; i++) {
        const kf_place *place = &w->placement.place[i];
        for (uint64_t at = 0; at < place->padding; at += sizeof zeros)
            KF_TRY(kf_writer_put(w, place->file, place->offset + place->bytes + at, zeros,
                                 (size_t)kf_min_u64(sizeof zeros, place->padding - at), err));
    }
    return KERF_OK;
}

static kerf_status start_file(kerf_writer *w, size_t i, kf_left form, kerf_error *err)
{
    kf_placed_file *placement = &w->placement.file[i];
    if (w->file[i].is_absent)
        placement->bytes = 0; /* here */
    else
        KF_TRY(open_file(w, &w->file[i], form, placement->bytes, err));
    kerf_status s = kf_writer_put(w, i, 0, placement->header.p, placement->header.n, err);
    free(placement->header.p); /* on disk, and not needed again */
    placement->header = (kf_text){0};
    return s;
}

/* A journal stands for its files by their names too, and packing by its level. */
static kerf_status open_root(kerf_writer *w, const kerf_resume *resume, kf_resume_file *file,
                             kerf_error *err)
{
    kf_resume_job job = {.target = w->target.path,
                         .placement = &w->placement,
                         .file = file,
                         .threads = w->threads,
                         .watch = &w->watch};
    if (!resume) return kf_temp_create(w->target.path, 1, &w->root, err);
    for (size_t i = 0; i < w->placement.files; i++) {
        const kf_out_file *f = &w->file[i];
        file[i] = (kf_resume_file){f->plain, f->is_packed ? f->name : NULL, KF_LEFT_NONE};
    }
    job.head = (kf_journal_head){kerf_version(), resume->source, resume->work,
                                 kf_resume_hash(&job, w->level)};
    kf_journal_init(&w->journal, &job.head);
    w->keeps = resume->goes_on;
    if (w->part.parts) {
        KF_TRY(kf_parts_enter(&w->parts, err));
        w->parts_slot = kf_cleanup_add(w->parts.path, 1, w->parts.fd);
        KF_TRY(kf_writer_find_part(w, err));
    }
    if (w->part_is_whole) return KERF_OK;
    KF_TRY(w->keeps ? kf_resume_open(&job, &w->root, &w->found, err)
                    : kf_temp_create(w->target.path, 1, &w->root, err));
    w->root.unpublished = kf_journal_names;
    if (w->keeps) kf_temp_keep(&w->root);
    kf_ledger_swap(&w->ledger, &w->found.ledger);
    w->journal.marks = w->found.marks;
    w->found.marks = (kf_marks){0};
    return KERF_OK;
}

static kerf_status start_files(kerf_writer *w, const kerf_writer_options *opt, kerf_error *err)
{
    kf_resume_file *file = kf_alloc_zero(w->placement.files, sizeof *file);
    kerf_status s = file ? KERF_OK : kf_writer_no_memory(err);
    if (s == KERF_OK && (w->target.is_folder || w->has_journal))
        s = open_root(w, opt->resume, file, err);
    for (size_t i = 0; i < w->placement.files; i++)
        w->file[i].is_absent = w->part_is_whole || (w->part.parts && !w->part.own[i]);
    if (s == KERF_OK && w->target.needs_exchange)
        s = kf_temp_check_exchange(&w->root, w->target.path, err);
    for (size_t i = 0; i < w->placement.files && s == KERF_OK; i++)
        s = start_file(w, i, file[i].form, err);
    free(file);
    return s == KERF_OK ? write_padding(w, err) : s;
}

/* The target of a part is a folder of its own, which waits for the others. */
static kerf_status find_target(kerf_writer *w, const char *path, const kerf_writer_options *opt,
                               kerf_error *err)
{
    const kerf_own_part *part = opt->part;
    if (!part) return kf_target_check(path, opt, &w->target, err);
    if (!opt->resume || part->part == 0 || part->part > part->parts ||
        part->parts > KERF_PARTS_MOST)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are counted from 1/N to N/N, N at most %u", part->part,
                       part->parts, KERF_PARTS_MOST);
    w->part = *part;
    KF_TRY(kf_parts_find(path, opt, &w->parts, err));
    w->target =
        (kf_target){.path = kf_part_path(&w->parts, part->part, part->parts), .is_folder = 1};
    return w->target.path ? KERF_OK : kf_writer_no_memory(err);
}

static kerf_status write_small_files(kerf_writer *w, const kerf_writer_options *opt,
                                     kerf_error *err)
{
    if (!w->target.is_folder || w->part_is_whole || w->part.part > 1) return KERF_OK;
    if (opt->source && kerf_reader_is_folder(opt->source))
        KF_TRY(kf_copy_companions(kerf_reader_folder(opt->source), &w->root, opt->companion,
                                  opt->companions, err));
    return kf_write_companions(&w->root, opt->companion, opt->companions, err);
}

static kerf_status start(kerf_writer *w, const char *path, const kerf_entry *entries, size_t count,
                         const kerf_writer_options *opt, kerf_error *err)
{
    KF_TRY(find_target(w, path, opt, err));
    KF_TRY(check_options(&w->target, opt, &w->level, err));
    w->overwrite = opt->overwrite;
    w->threads = opt->threads;
    w->watch = (kf_watch){.job = opt->job};
    w->has_journal = opt->resume != NULL;
    const size_t files = opt->shard ? opt->shards : 1;
    KF_TRY(w->target.is_gguf
               ? kf_gguf_place(&w->placement, entries, count, opt, err)
               : kf_safetensors_place(&w->placement, entries, count, files, opt, err));
    KF_TRY(name_files(w, opt, err));
    KF_TRY(start_files(w, opt, err));
    return write_small_files(w, opt, err);
}

kerf_status kerf_writer_create(const char *path, const kerf_entry *entries, size_t count,
                               const kerf_writer_options *opt, kerf_writer **out, kerf_error *err)
{
    static const kerf_writer_options defaults = {0};
    if (!path || !out || (count > 0 && !entries))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_writer_create: an argument is missing");
    *out = NULL;
    kerf_writer *w = kf_alloc_zero(1, sizeof *w);
    if (!w) return kf_writer_no_memory(err);
    w->root = w->journal.file = (kf_temp)KF_NO_TEMP;
    w->parts.fd = w->parts_slot = -1;
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
