/* resume.c - which files of the temporary folder of a dead run (one that was killed) can be used.
 *
 * The journal is a claim, the bytes are the proof. A mark counts when the writes that the journal
 * names tile each of its entries exactly and every byte of them reads back with its hash; a file
 * in which one does not is not used at all. Only marked entries are kept: what else a file holds
 * is written again. A packed file cannot be added to, so it counts when it is complete. */
#include "file/write/resume.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file/disk/blob.h"

typedef struct look {
    const kf_resume_job *job;
    const kf_placement *placement; /* of the job */
    kf_resume_file *file;
    const char *folder;
    kf_ledger claimed; /* by the journal, sorted */
    kf_marks marks;
    kf_found *out;
    int canceled; /* while it was read back; the reason is in err */
    kerf_error *err;
} look;

void kf_found_init(kf_found *f)
{
    memset(f, 0, sizeof *f);
    kf_ledger_init(&f->ledger);
}

void kf_found_free(kf_found *f)
{
    kf_ledger_free(&f->ledger);
    free(f->marks.mark);
    free(f->of_entry);
    memset(f, 0, sizeof *f);
}

/* Whether the mark names entries that exist, that no mark before it has, and that are tiled. */
static int is_claimed(const look *k, const kf_mark *m)
{
    size_t first, end;
    if (m->count == 0 || m->first >= k->placement->count ||
        m->count > k->placement->count - m->first)
        return 0;
    for (uint64_t i = m->first; i < m->first + m->count; i++) {
        const kf_place *place = &k->placement->place[i];
        if (k->out->of_entry[i]) return 0;
        if (!kf_ledger_find(&k->claimed, place->file, place->offset, place->bytes, &first, &end))
            return 0;
    }
    return 1;
}

/* Notes a mark of which all files can be used as finished, with its records. */
static kerf_status take_mark(const look *k, const kf_mark *m)
{
    size_t i, end;
    kf_found *out = k->out;
    for (uint64_t e = m->first; e < m->first + m->count; e++)
        if (k->file[k->placement->place[e].file].form == KF_LEFT_NONE) return KERF_OK;
    for (uint64_t e = m->first; e < m->first + m->count; e++) {
        const kf_place *place = &k->placement->place[e];
        out->of_entry[e] = out->marks.count + 1;
        out->bytes += place->bytes;
        if (!kf_ledger_find(&k->claimed, place->file, place->offset, place->bytes, &i, &end))
            continue;
        for (; i < end; i++) KF_TRY(kf_ledger_add(&out->ledger, k->claimed.record[i], k->err));
    }
    return kf_marks_add(&out->marks, *m, k->err);
}

/* Builds the found lists from those claimed marks whose files can be used. */
static kerf_status take_marks(const look *k)
{
    kf_found *out = k->out;
    out->ledger.count = 0;
    out->marks.count = 0;
    out->bytes = 0;
    memset(out->of_entry, 0, k->placement->count * sizeof *out->of_entry);
    for (size_t i = 0; i < k->marks.count; i++)
        if (is_claimed(k, &k->marks.mark[i])) KF_TRY(take_mark(k, &k->marks.mark[i]));
    kf_ledger_sort(&out->ledger);
    return KERF_OK;
}

/* All entries of a file are finished. */
static int is_complete(const look *k, size_t file)
{
    for (size_t i = 0; i < k->placement->count; i++)
        if (k->placement->place[i].file == file && !k->out->of_entry[i]) return 0;
    return 1;
}

/* A packed file cannot get its header again. */
static int has_header(const kf_blob *blob, const kf_placed_file *placement)
{
    char *text = kf_alloc(placement->header.n, 1);
    int same = text && blob->bytes == placement->bytes &&
               kf_blob_read(blob, 0, text, placement->header.n, NULL) == KERF_OK &&
               memcmp(text, placement->header.p, placement->header.n) == 0;
    free(text);
    return same;
}

static int is_file(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int is_usable(look *k, size_t i, const char *path, int packed)
{
    kf_blob blob;
    if (!is_file(path) || kf_blob_open(path, &blob, NULL) != KERF_OK) return 0;
    const kf_placed_file *placement = &k->placement->file[i];
    kerf_error why = {.status = KERF_OK};
    int ok = (blob.seek != NULL) == packed && blob.bytes <= placement->bytes &&
             (!packed || (is_complete(k, i) && has_header(&blob, placement))) &&
             kf_ledger_verify(&k->out->ledger, i, &blob, k->job->threads, k->job->watch, &why) ==
                 KERF_OK;
    kf_blob_close(&blob);
    if (why.status == KERF_E_CANCELED) {
        k->canceled = 1;
        if (k->err) *k->err = why;
    }
    return ok;
}

static kf_left form_of(look *k, size_t i)
{
    kf_left form = KF_LEFT_NONE;
    const kf_resume_file *f = &k->file[i];
    char *plain = kf_path_join(k->folder, f->plain);
    char *packed = f->packed ? kf_path_join(k->folder, f->packed) : NULL;
    if (plain && is_usable(k, i, plain, 0))
        form = KF_LEFT_PLAIN;
    else if (packed && is_usable(k, i, packed, 1))
        form = KF_LEFT_PACKED;
    free(plain);
    free(packed);
    return form;
}

static uint64_t sum_bytes(const kf_ledger *l)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->count; i++) bytes += l->record[i].bytes;
    return bytes;
}

static kerf_status look_at_files(look *k)
{
    kf_left *form = kf_alloc_zero(k->placement->files, sizeof *form);
    if (!form) return kf_fail(k->err, KERF_E_NOMEM, KF_NOWHERE, "no memory to continue");
    for (size_t i = 0; i < k->placement->files; i++) k->file[i].form = KF_LEFT_PLAIN; /* so far */
    kerf_status s = take_marks(k);
    k->job->watch->done = 0;
    k->job->watch->total = sum_bytes(&k->out->ledger);
    for (size_t i = 0; i < k->placement->files && s == KERF_OK; i++) {
        form[i] = form_of(k, i);
        if (k->canceled) s = KERF_E_CANCELED;
    }
    for (size_t i = 0; i < k->placement->files; i++) k->file[i].form = form[i];
    free(form);
    return s == KERF_OK ? take_marks(k) : s;
}

/* --- the folder --- */

typedef struct choice {
    const kf_resume_job *job;
    kf_found *out;
    const char *why; /* the first folder was refused */
    kerf_status status;
    kerf_error *err;
} choice;

static kerf_status look_at_folder(const choice *c, const char *folder)
{
    kf_found *out = c->out;
    look k = {.job = c->job,
              .placement = c->job->placement,
              .file = c->job->file,
              .folder = folder,
              .out = out,
              .err = c->err};
    out->of_entry = kf_alloc_zero(k.placement->count, sizeof *out->of_entry);
    if (!out->of_entry) return kf_fail(c->err, KERF_E_NOMEM, KF_NOWHERE, "no memory to continue");
    kf_ledger_init(&k.claimed);
    kerf_status s = kf_journal_read(folder, &c->job->head, &k.claimed, &k.marks, &out->why, c->err);
    if (s == KERF_OK && !out->why) {
        kf_ledger_sort(&k.claimed);
        s = look_at_files(&k);
        if (s == KERF_OK && out->marks.count == 0) out->why = "nothing in it was whole";
    }
    kf_ledger_free(&k.claimed);
    free(k.marks.mark);
    return s;
}

static int is_chosen(void *ctx, const char *folder)
{
    choice *c = ctx;
    if (c->status != KERF_OK) return 0;
    kf_found_free(c->out);
    kf_found_init(c->out);
    c->status = look_at_folder(c, folder);
    if (c->status == KERF_OK && !c->out->why) return 1;
    if (!c->why) c->why = c->out->why;
    return 0;
}

static int is_of_use(void *ctx, const char *name)
{
    const kf_resume_job *job = ctx;
    if (strcmp(name, KF_JOURNAL_NAME) == 0) return 1;
    for (size_t i = 0; i < job->placement->files; i++) {
        const kf_resume_file *f = &job->file[i];
        if (f->form == KF_LEFT_PLAIN && strcmp(name, f->plain) == 0) return 1;
        if (f->form == KF_LEFT_PACKED && strcmp(name, f->packed) == 0) return 1;
    }
    return 0;
}

uint64_t kf_resume_hash(const kf_resume_job *job, int level)
{
    uint64_t h = job->placement->files;
    for (size_t i = 0; i < job->placement->files; i++) {
        const kf_resume_file *f = &job->file[i];
        const kf_text *header = &job->placement->file[i].header;
        const uint64_t row[] = {h, kerf_hash(header->p, header->n), job->placement->file[i].bytes,
                                kerf_hash(f->plain, strlen(f->plain)),
                                f->packed ? (uint64_t)level : 0};
        h = kerf_hash(row, sizeof row);
    }
    return h;
}

kerf_status kf_resume_open(const kf_resume_job *job, kf_temp *root, kf_found *out, kerf_error *err)
{
    kf_resume_job own = *job;
    choice c = {.job = job, .out = out, .err = err};
    if (kf_temp_adopt(job->target, is_chosen, &c, root)) {
        kf_temp_sweep(root, is_of_use, &own);
        return KERF_OK;
    }
    kf_found_free(out);
    kf_found_init(out);
    for (size_t i = 0; i < job->placement->files; i++) job->file[i].form = KF_LEFT_NONE;
    out->why = c.why ? c.why : "there is nothing to continue";
    KF_TRY(c.status);
    return kf_temp_create(job->target, 1, root, err);
}
