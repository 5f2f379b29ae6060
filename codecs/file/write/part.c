/* part.c - the folders of parts: entered, locked and left; what a part says of itself, and whether
 * that is still so. */
#include "file/write/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/disk/blob.h"
#include "file/json/json_read.h"
#include "file/json/text.h"
#include "file/write/target.h"

#define SCHEMA "kerf.part/1"
#define MAX_TRIES 50 /* of a lock: one who leaves has it for a moment */
#define WAIT_MS 10

static kerf_status no_memory(const char *path, kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
}

/* --- the folder of all parts --------------------------------------------------------------- */

kerf_status kf_parts_find(const char *out, const kerf_writer_options *opt, kf_parts *p,
                          kerf_error *err)
{
    kf_target target;
    *p = (kf_parts){.fd = -1};
    KF_TRY(kf_target_check(out, opt, &target, err));
    p->out = target.path;
    if (!target.is_folder)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%s: parts are whole files of a folder, and this is the name of one file",
                       out);
    const size_t room = strlen(p->out) + sizeof KF_PARTS_ENDING;
    p->path = kf_alloc(room, 1);
    if (!p->path) return no_memory(out, err);
    snprintf(p->path, room, "%s" KF_PARTS_ENDING, p->out);
    return KERF_OK;
}

static int is_at(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Its name, or that it has none any more, outlasts a loss of power. */
static kerf_status sync_around(const char *path, kerf_error *err)
{
    int fd = -1;
    char *folder = kf_path_folder(path);
    if (!folder) return no_memory(path, err);
    kerf_status s = kf_open_folder(folder, &fd, err);
    if (s == KERF_OK) s = kf_sync_folder(fd, folder, err);
    if (fd >= 0) close(fd);
    free(folder);
    return s;
}

/* For a part, one that finds it there too: who made it may not have come to it. */
static kerf_status make_folder(const char *path, kerf_error *err)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return kf_fail_errno(err, errno, "%s: cannot create the folder", path);
    kerf_status s = sync_around(path, err);
    if (s != KERF_OK) rmdir(path); /* if nobody has put anything there */
    return s;
}

/* One try. *busy: another has the lock, or has just removed the folder. */
static kerf_status try_lock(kf_parts *p, int how, int *busy, kerf_error *err)
{
    *busy = 0;
    if (how == LOCK_SH) KF_TRY(make_folder(p->path, err));
    p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->fd < 0) {
        const int why = errno;
        *busy = why == ENOENT && how == LOCK_SH;
        if (*busy) return KERF_OK;
        if (how == LOCK_SH) rmdir(p->path); /* if nobody has put anything there */
        return kf_fail_errno(err, why, "%s: cannot open the folder", p->path);
    }
    *busy = (flock(p->fd, how | LOCK_NB) != 0 && errno == EWOULDBLOCK) || !is_at(p->fd, p->path);
    if (!*busy) return KERF_OK;
    close(p->fd);
    p->fd = -1;
    return KERF_OK;
}

static kerf_status lock(kf_parts *p, int how, const char *who, kerf_error *err)
{
    int busy = 1;
    for (int i = 0; i < MAX_TRIES && busy; i++) {
        if (i > 0) poll(NULL, 0, WAIT_MS);
        KF_TRY(try_lock(p, how, &busy, err));
    }
    if (!busy) return KERF_OK;
    if (how == LOCK_SH) rmdir(p->path); /* if nobody has put anything there */
    return kf_fail(err, KERF_E_IO, KF_NOWHERE,
                   "%s: %s at work in it: run this again when that has ended", p->path, who);
}

kerf_status kf_parts_enter(kf_parts *p, kerf_error *err)
{
    return lock(p, LOCK_SH, "kerf merge is", err);
}

kerf_status kf_fail_no_parts(const kf_parts *p, kerf_error *err)
{
    return kf_fail(err, KERF_E_IO, KF_NOWHERE,
                   "%s: has no parts to merge (none is finished in %s): kerf quantize ... -o %s "
                   "--part 1/N, or score or calibrate, writes one",
                   p->out, kf_path_base(p->path), p->out);
}

kerf_status kf_parts_own(kf_parts *p, kerf_error *err)
{
    struct stat st;
    if (lstat(p->path, &st) != 0 && errno == ENOENT) return kf_fail_no_parts(p, err);
    return lock(p, LOCK_EX, "a part or another kerf merge is", err);
}

void kf_parts_leave(kf_parts *p)
{
    if (p->fd >= 0) {
        const int alone = flock(p->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        for (int i = 0, left = alone; left && i < 2; i++)
            left = rmdir(p->path) != 0 && errno != ENOTEMPTY;
        if (alone) (void)!sync_around(p->path, NULL);
        close(p->fd);
    }
    free(p->out);
    free(p->path);
    *p = (kf_parts){.fd = -1};
}

char *kf_part_path(const kf_parts *p, unsigned part, unsigned parts)
{
    char name[32];
    snprintf(name, sizeof name, "%u-of-%u", part, parts);
    return kf_path_join(p->path, name);
}

/* --- what a part says of itself ------------------------------------------------------------ */

static json_t *hash_json(uint64_t x)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, x);
    return json_string(text);
}

static json_t *describe(const kf_part_record *r)
{
    int failed = 0;
    json_t *files = json_array();
    for (size_t i = 0; i < r->files; i++) {
        const kf_part_file *f = &r->file[i];
        json_t *row = json_pack("{s:I, s:s, s:I}", "index", (json_int_t)f->index, "name", f->name,
                                "bytes", (json_int_t)f->bytes);
        failed |= !row || json_array_append_new(files, row) != 0;
    }
    json_t *doc = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:{s:o, s:o, s:o, s:o}, s:o}", "schema", SCHEMA, "verb", r->verb,
        "part", (json_int_t)r->part, "parts", (json_int_t)r->parts, "shards", (json_int_t)r->shards,
        "plan", "version", hash_json(r->head.version), "source", hash_json(r->head.source), "work",
        hash_json(r->head.work), "placement", hash_json(r->head.placement), "files", files);
    if (!failed) return doc;
    json_decref(doc);
    return NULL;
}

kerf_status kf_part_write(const kf_temp *folder, const kf_part_record *r, kerf_error *err)
{
    kf_text text = {0};
    json_t *doc = describe(r);
    if (doc) kf_text_add_json(&text, doc, JSON_INDENT(2));
    kf_text_add(&text, "\n");
    kerf_status s = doc && !text.failed ? kf_temp_put_in(folder, KF_PART_NAME, text.p, text.n, err)
                                        : no_memory(folder->path, err);
    json_decref(doc);
    free(text.p);
    return s;
}

static int take_number(const json_t *object, const char *key, uint64_t most, uint64_t *out)
{
    const json_t *v = json_object_get(object, key);
    const json_int_t x = json_is_integer(v) ? json_integer_value(v) : -1;
    *out = (uint64_t)x;
    return x >= 0 && (uint64_t)x <= most;
}

static int take_hash(const json_t *object, const char *key, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return 0;
    *out = strtoull(text, NULL, 16);
    return 1;
}

static int is_plain_name(const char *name)
{
    return name && name[0] && name[0] != '.' && strlen(name) <= 255 && !strchr(name, '/') &&
           strcmp(name, KF_PART_NAME) != 0;
}

static int take_file(const json_t *row, kf_part_file *out)
{
    uint64_t index;
    out->name = json_string_value(json_object_get(row, "name"));
    if (!is_plain_name(out->name) || !take_number(row, "index", UINT32_MAX - 1, &index) ||
        !take_number(row, "bytes", INT64_MAX, &out->bytes))
        return 0;
    out->index = (uint32_t)index;
    return 1;
}

/* 0: the text is not what kf_part_write writes. */
static int take_record(kf_part_record *r)
{
    uint64_t part, parts;
    const json_t *plan = json_object_get(r->text, "plan");
    const json_t *files = json_object_get(r->text, "files");
    const char *schema = json_string_value(json_object_get(r->text, "schema"));
    r->verb = json_string_value(json_object_get(r->text, "verb"));
    if (!schema || strcmp(schema, SCHEMA) != 0 || !r->verb || !json_is_array(files) ||
        !take_number(r->text, "part", KERF_PARTS_MOST, &part) ||
        !take_number(r->text, "parts", KERF_PARTS_MOST, &parts) ||
        !take_number(r->text, "shards", UINT32_MAX, &r->shards) ||
        !take_hash(plan, "version", &r->head.version) ||
        !take_hash(plan, "source", &r->head.source) || !take_hash(plan, "work", &r->head.work) ||
        !take_hash(plan, "placement", &r->head.placement))
        return 0;
    r->part = (unsigned)part;
    r->parts = (unsigned)parts;
    for (; r->files < json_array_size(files); r->files++) {
        kf_part_file *f = &r->file[r->files];
        if (!take_file(json_array_get(files, r->files), f) ||
            !kf_add_ok(r->bytes, f->bytes, &r->bytes))
            return 0;
    }
    return 1;
}

kerf_status kf_part_read(const char *path, kf_part_record *out, kerf_error *err)
{
    *out = (kf_part_record){0};
    char *name = kf_path_join(path, KF_PART_NAME);
    if (!name) return no_memory(path, err);
    kerf_status s = kf_json_read(name, KF_JSON_MAX_TABLE_BYTES, KF_JSON_STRICT, &out->text, err);
    if (s == KERF_OK)
        s = kf_allocate(&out->file, json_array_size(json_object_get(out->text, "files")),
                        sizeof *out->file, err);
    if (s == KERF_OK && !take_record(out))
        s = kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: is not the record of a part", name);
    free(name);
    if (s != KERF_OK) kf_part_free(out);
    return s;
}

void kf_part_free(kf_part_record *r)
{
    json_decref(r->text);
    free(r->file);
    *r = (kf_part_record){0};
}

int kf_part_may_be_whole(kerf_status s, const kerf_error *why)
{
    if (s == KERF_OK || s == KERF_E_DATA) return 0;
    return s != KERF_E_IO || (why->native != 0 && why->native != ENOENT);
}

const char *kf_part_differs(const kf_journal_head *a, const kf_journal_head *b)
{
    if (a->version != b->version) return "another version of kerf wrote it";
    if (a->source != b->source) return "its source is another or has changed";
    if (a->work != b->work || a->placement != b->placement)
        return "its formats or options are others";
    return NULL;
}

/* --- whether it is still so ---------------------------------------------------------------- */

static char *find_file(const char *path, const char *moved, const char *name)
{
    struct stat st;
    char *own = kf_path_join(path, name);
    if (!moved || !own || lstat(own, &st) == 0) return own;
    char *other = kf_path_join(moved, name);
    if (!other || lstat(other, &st) != 0) {
        free(other);
        return own;
    }
    free(own);
    return other;
}

static kerf_status check_size(const char *path, uint64_t bytes, const kf_part_file *f,
                              kerf_error *err)
{
    if (bytes == f->bytes) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: has %" PRIu64 " bytes, its part wrote %" PRIu64, path, bytes, f->bytes);
}

static kerf_status verify_file(const kf_ledger *l, const char *path, const kf_part_file *f,
                               int threads, kf_watch *watch, kerf_error *err)
{
    size_t first, end;
    kf_blob blob;
    if (!kf_ledger_find(l, f->index, 0, f->bytes, &first, &end))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: the journal of its part has lost it",
                       path);
    KF_TRY(kf_blob_open(path, &blob, err));
    kerf_status s = check_size(path, blob.bytes, f, err);
    if (s == KERF_OK && f->bytes > 0) s = kf_ledger_verify(l, f->index, &blob, threads, watch, err);
    kf_blob_close(&blob);
    return s;
}

kerf_status kf_part_verify(const char *path, const char *moved, const kf_part_record *r,
                           int threads, kf_watch *watch, kf_marks *marks, kerf_error *err)
{
    kf_ledger ledger;
    kf_marks own = {0};
    const char *why = NULL;
    kf_ledger_init(&ledger);
    kerf_status s = kf_journal_read(path, &r->head, &ledger, marks ? marks : &own, &why, err);
    if (s == KERF_OK && why)
        s = kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: its journal is lost or damaged", path);
    kf_ledger_sort(&ledger);
    for (size_t i = 0; i < r->files && s == KERF_OK; i++) {
        char *name = find_file(path, moved, r->file[i].name);
        s = name ? verify_file(&ledger, name, &r->file[i], threads, watch, err)
                 : no_memory(path, err);
        free(name);
    }
    free(own.mark);
    kf_ledger_free(&ledger);
    return s;
}

kerf_status kf_part_measure(const char *path, const char *moved, const kf_part_record *r,
                            kerf_error *err)
{
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < r->files && s == KERF_OK; i++) {
        struct stat st;
        char *name = find_file(path, moved, r->file[i].name);
        if (!name)
            s = no_memory(path, err);
        else if (lstat(name, &st) != 0)
            s = kf_fail_errno(err, errno, "%s: cannot be found", name);
        else
            s = check_size(name, (uint64_t)st.st_size, &r->file[i], err);
        free(name);
    }
    return s;
}
