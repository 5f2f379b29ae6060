/* merge.c - an output of its finished parts (kerf/parts.h).
 *
 * Everything is compared before anything is moved. Then files are renamed into OUT.kerf-parts/whole
 * one by one, and that folder becomes OUT by one more rename: nothing is copied, no file system is
 * asked for more than renames, and a merge that is killed in between finds each file in one of two
 * places. What is killed behind the last rename leaves folders without files, which the next call
 * takes away. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"
#include "base/work.h"
#include "file/disk/cleanup.h"
#include "file/disk/publish.h"
#include "file/write/part.h"

typedef struct merging {
    kf_parts folder;
    char *whole; /* where files wait that were moved */
    unsigned parts;
    kf_part_record *part; /* [parts], by their numbers */
    char **path;          /* [parts]                   */
    char *is_empty;       /* [parts]: it has no files  */
    kf_part_file **name;  /* of all files, sorted      */
    size_t files;
    uint64_t bytes;
    int is_published; /* by a call that was killed: only folders are left */
} merging;

static kerf_status no_memory(const merging *m, kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", m->folder.out);
}

/* --- which parts there are ----------------------------------------------------------------- */

static int is_part_name(const char *name, unsigned *part, unsigned *parts)
{
    int used = 0;
    char text[32];
    if (sscanf(name, "%5u-of-%5u%n", part, parts, &used) != 2 || name[used]) return 0;
    snprintf(text, sizeof text, "%u-of-%u", *part, *parts);
    return strcmp(text, name) == 0 && *part >= 1 && *part <= *parts && *parts <= KERF_PARTS_MOST;
}

/* How many the output is divided into: all folders say the same. */
static kerf_status count_parts(merging *m, kerf_error *err)
{
    const char *name, *path = m->folder.path;
    unsigned part, parts;
    int failed = 0;
    kerf_status s = KERF_OK;
    DIR *d = opendir(path);
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", path);
    while (s == KERF_OK && (name = kf_next_name(d, &failed)) != NULL) {
        if (!is_part_name(name, &part, &parts)) continue;
        if (m->parts && parts != m->parts)
            s = kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                        "%s: has parts of %u and of %u: keep one division, rm -r %s/*-of-%u "
                        "removes the other",
                        path, m->parts, parts, path, parts);
        m->parts = parts;
    }
    closedir(d);
    if (s == KERF_OK && failed) s = kf_fail_errno(err, failed, "%s: cannot read it", path);
    if (s == KERF_OK && !m->parts) s = kf_fail_no_parts(&m->folder, err);
    return s == KERF_OK ? kf_allocate(&m->is_empty, m->parts, 1, err) : s;
}

/* "run kerf quantize again": with which options, only who ran it knows. */
static kerf_status fail_part(const merging *m, unsigned i, const char *verb, const char *what,
                             kerf_error *err)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: part %u/%u %s: run kerf %.20s ... -o %s --part %u/%u with the options of "
                   "the others",
                   m->folder.out, i + 1, m->parts, what, verb, m->folder.out, i + 1, m->parts);
}

/* What has written the parts whose records were read. */
static const char *verb_of(const merging *m)
{
    for (unsigned i = 0; i < m->parts; i++)
        if (m->part[i].verb) return m->part[i].verb;
    return "quantize";
}

static kerf_status fail_missing(const merging *m, unsigned first, unsigned missing, kerf_error *err)
{
    char what[64] = "is missing", more[48];
    snprintf(more, sizeof more, "is missing (and %u more)", missing - 1);
    return fail_part(m, first, verb_of(m), missing > 1 ? more : what, err);
}

static kerf_status read_parts(merging *m, kerf_error *err)
{
    unsigned missing = 0, first = 0, lost = m->parts;
    KF_TRY(kf_allocate(&m->part, m->parts, sizeof *m->part, err));
    KF_TRY(kf_allocate(&m->path, m->parts, sizeof *m->path, err));
    for (unsigned i = 0; i < m->parts; i++) {
        struct stat st;
        m->path[i] = kf_part_path(&m->folder, i + 1, m->parts);
        if (!m->path[i]) return no_memory(m, err);
        if (lstat(m->path[i], &st) != 0 && errno == ENOENT) {
            if (missing++ == 0) first = i;
            continue;
        }
        kerf_error why = {0};
        kerf_status s = kf_part_read(m->path[i], &m->part[i], &why);
        if (kf_part_may_be_whole(s, &why)) {
            if (err) *err = why;
            return s;
        }
        m->is_empty[i] = s == KERF_OK && m->part[i].files == 0;
        if (s == KERF_OK && m->part[i].part == i + 1 && m->part[i].parts == m->parts) continue;
        kf_part_free(&m->part[i]); /* it may name any verb */
        if (i < lost) lost = i;
    }
    if (lost < m->parts)
        return fail_part(m, lost, verb_of(m), "is damaged, its " KF_PART_NAME " is lost", err);
    return missing ? fail_missing(m, first, missing, err) : KERF_OK;
}

/* --- whether they are one output ----------------------------------------------------------- */

static kerf_status check_plan(const merging *m, kerf_error *err)
{
    uint64_t shards = 0;
    for (unsigned i = 0; i < m->parts; i++) {
        const kf_part_record *a = &m->part[0], *b = &m->part[i];
        char what[160];
        const char *why = kf_part_differs(&a->head, &b->head);
        if (!why && strcmp(a->verb, b->verb) != 0) why = "another verb wrote it";
        snprintf(what, sizeof what, "is of another plan than part 1 (%s)", why ? why : "");
        if (why) return fail_part(m, i, a->verb, what, err);
        for (size_t k = 0; k < b->files; k++) shards += b->file[k].index < a->shards;
    }
    if (shards == m->part[0].shards) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: its parts hold %" PRIu64 " shards of %" PRIu64 ": rm -r %s and write them "
                   "again",
                   m->folder.path, shards, m->part[0].shards, m->folder.path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(kf_part_file *const *)a)->name, (*(kf_part_file *const *)b)->name);
}

static kerf_status list_files(merging *m, kerf_error *err)
{
    for (unsigned i = 0; i < m->parts; i++) m->files += m->part[i].files;
    KF_TRY(kf_allocate(&m->name, m->files, sizeof *m->name, err));
    size_t n = 0;
    for (unsigned i = 0; i < m->parts; i++)
        for (size_t k = 0; k < m->part[i].files; k++) m->name[n++] = &m->part[i].file[k];
    qsort(m->name, n, sizeof *m->name, by_name);
    for (size_t i = 0; i < n; i++) {
        if (!kf_add_ok(m->bytes, m->name[i]->bytes, &m->bytes))
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%s: sizes beyond 64 bits",
                           m->folder.path);
        if (i > 0 && by_name(&m->name[i - 1], &m->name[i]) == 0)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%s: two parts hold %s: rm -r %s and write them again", m->folder.path,
                           m->name[i]->name, m->folder.path);
    }
    return KERF_OK;
}

static int is_there(const char *folder, const char *name)
{
    struct stat st;
    char *path = kf_path_join(folder, name);
    const int found = !path || lstat(path, &st) == 0;
    free(path);
    return found;
}

static kerf_status verify_in(const merging *m, const char *moved, int threads, kf_watch *watch,
                             kerf_error *err) /* watch NULL: sizes only */
{
    kerf_status s = KERF_OK;
    if (watch) watch->done = 0;
    for (unsigned i = 0; i < m->parts && s == KERF_OK; i++) {
        kerf_error why = {0};
        s = watch ? kf_part_verify(m->path[i], moved, &m->part[i], threads, watch, NULL, &why)
                  : kf_part_measure(m->path[i], moved, &m->part[i], &why);
        if (kf_part_may_be_whole(s, &why)) {
            if (err) *err = why;
        } else if (s != KERF_OK) {
            char what[300];
            snprintf(what, sizeof what, "is damaged (%.250s)", why.text);
            s = fail_part(m, i, m->part[i].verb, what, err);
        }
    }
    return s;
}

/* All files were moved, and perhaps exchanged for those of an older output of this name: then what
 * is in its place is the new one, and what was moved is in fact the old one. */
static int was_exchanged(const merging *m)
{
    struct stat st;
    for (unsigned i = 0; i < m->parts; i++)
        for (size_t k = 0; k < m->part[i].files; k++)
            if (is_there(m->path[i], m->part[i].file[k].name)) return 0;
    return stat(m->folder.out, &st) == 0;
}

static kerf_status verify(merging *m, int threads, const kerf_job *job, kerf_error *err)
{
    kf_work work;
    kf_watch watch = {.job = job, .total = m->bytes};
    kf_work_open(&work, job);
    kf_work_phase(&work, "comparing what the parts have written", m->bytes);
    kerf_status s = kf_work_check(&work, err);
    if (s == KERF_OK && was_exchanged(m)) {
        kerf_error why = {0};
        s = verify_in(m, m->folder.out, threads, &watch, &why);
        m->is_published = s == KERF_OK;
        if (s == KERF_E_DATA) s = KERF_OK; /* it is the old one */
        if (s != KERF_OK && err) *err = why;
    }
    if (s == KERF_OK && !m->is_published) s = verify_in(m, m->whole, threads, &watch, err);
    kf_work_close(&work);
    return s;
}

/* --- the output ---------------------------------------------------------------------------- */

static int is_named(void *ctx, const char *name)
{
    const merging *m = ctx;
    kf_part_file key = {.name = name}, *at = &key;
    return bsearch(&at, m->name, m->files, sizeof *m->name, by_name) != NULL;
}

/* Moves a file of a part into the folder of all, or back; one that was moved before is no failure.
 * Needs neither memory nor a descriptor, for it also undoes what failed. */
static kerf_status move(const merging *m, unsigned part, const char *name, int back,
                        kerf_error *err)
{
    char own[320], whole[320]; /* names of a record have at most 255 bytes */
    snprintf(own, sizeof own, "%u-of-%u/%s", part + 1, m->parts, name);
    snprintf(whole, sizeof whole, KF_PARTS_WHOLE "/%s", name);
    const char *from = back ? whole : own, *to = back ? own : whole;
    if (renameat(m->folder.fd, from, m->folder.fd, to) == 0 || errno == ENOENT) return KERF_OK;
    return kf_fail_errno(err, errno, "%s/%s: cannot move it to %s", m->folder.path, from, to);
}

/* A merge that fails before its last rename leaves everything where it was. */
static void move_back(const merging *m)
{
    for (unsigned i = 0; i < m->parts; i++)
        for (size_t k = 0; k < m->part[i].files; k++)
            (void)!move(m, i, m->part[i].file[k].name, 1, NULL);
    rmdir(m->whole);
}

static kerf_status publish(merging *m, int overwrite, kerf_error *err)
{
    kf_temp t = KF_NO_TEMP;
    t.is_folder = 1;
    if (mkdir(m->whole, 0777) != 0 && errno != EEXIST)
        return kf_fail_errno(err, errno, "%s: cannot create the folder", m->whole);
    kerf_status s = kf_open_folder(m->whole, &t.fd, err);
    t.path = strdup(m->whole);
    if (s == KERF_OK && !t.path) s = no_memory(m, err);
    if (s == KERF_OK) kf_empty_folder(t.fd, is_named, m); /* of a plan that was given up */
    if (s == KERF_OK) s = kf_sync_folder(m->folder.fd, m->folder.path, err);
    for (unsigned i = 0; i < m->parts && s == KERF_OK; i++)
        for (size_t k = 0; k < m->part[i].files && s == KERF_OK; k++)
            s = move(m, i, m->part[i].file[k].name, 0, err);
    int has_name = 0;
    if (s == KERF_OK) {
        s = kf_temp_publish(&t, m->folder.out, overwrite, err);
        has_name = t.path == NULL; /* the output: only its sync can have failed */
    }
    if (s != KERF_OK && !has_name) move_back(m);
    kf_temp_release(&t);
    return s;
}

static int is_only_record(const char *path)
{
    const char *name;
    int failed = 0, only = 1;
    DIR *d = opendir(path);
    while (d && only && (name = kf_next_name(d, &failed)) != NULL)
        only = name[0] == '.' || strcmp(name, KF_PART_NAME) == 0;
    if (d) closedir(d);
    return d && only && !failed;
}

/* Whether the output holds what a part says that it had. *had: it says so of some file; *is_empty:
 * it had none. */
static int is_in_output(const merging *m, const char *path, int *had, char *is_empty)
{
    struct stat st;
    kf_part_record r;
    if (kf_part_read(path, &r, NULL) != KERF_OK) return *had = 1; /* it was being removed */
    int all = 1;
    for (size_t i = 0; i < r.files && all; i++) {
        char *name = kf_path_join(m->folder.out, r.file[i].name);
        all = name && stat(name, &st) == 0 && (uint64_t)st.st_size == r.file[i].bytes;
        free(name);
    }
    *had |= r.files > 0;
    *is_empty = r.files == 0;
    kf_part_free(&r);
    return all;
}

/* A call that was killed has done everything but to take the folders away. */
static int was_published(merging *m)
{
    struct stat st;
    int had = 0, all = stat(m->folder.out, &st) == 0 && lstat(m->whole, &st) != 0;
    for (unsigned i = 0; i < m->parts && all; i++) {
        char *path = kf_part_path(&m->folder, i + 1, m->parts);
        if (path && lstat(path, &st) == 0)
            all = is_only_record(path) && is_in_output(m, path, &had, &m->is_empty[i]);
        all &= path != NULL;
        free(path);
    }
    return all && had;
}

/* By the names that are left, for which neither memory nor a descriptor is needed. all 0: only of
 * parts without files. */
static int remove_once(const merging *m, int all)
{
    static const char *const names[] = {KF_PART_NAME, KF_JOURNAL_NAME};
    char name[64];
    int left = 0;
    for (unsigned i = 1; i <= m->parts; i++) {
        if (!all && !m->is_empty[i - 1]) continue;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            snprintf(name, sizeof name, "%u-of-%u/%s", i, m->parts, names[k]);
            unlinkat(m->folder.fd, name, 0);
        }
        snprintf(name, sizeof name, "%u-of-%u", i, m->parts);
        left |= unlinkat(m->folder.fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT;
    }
    return left;
}

static kerf_status sync_parts(const merging *m, kerf_error *err)
{
    kerf_status s = kf_sync_folder(m->folder.fd, m->folder.path, err);
    if (s == KERF_OK) return s;
    return kf_fail_at(err, s, "the output is in place and whole, and what held its parts is left");
}

/* A part without files goes first, and for good: were it alone left when the power goes, nothing
 * would tell it from one that waits for the others. */
static kerf_status remove_parts(const merging *m, kerf_error *err)
{
    if (memchr(m->is_empty, 1, m->parts)) {
        for (int i = 0; i < 2 && remove_once(m, 0);) i++;
        KF_TRY(sync_parts(m, err));
    }
    for (int i = 0; i < 2 && remove_once(m, 1);) i++;
    return KERF_OK;
}

/* What the exchange put in the place of the new one goes first, for records tell the two apart. */
static kerf_status remove_old(const merging *m, kerf_error *err)
{
    kf_remove_folder(-1, m->whole);
    return sync_parts(m, err);
}

static kerf_status merge(merging *m, const kerf_merge_options *opt, const kerf_job *job,
                         kerf_error *err)
{
    KF_TRY(kf_parts_own(&m->folder, err));
    m->whole = kf_path_join(m->folder.path, KF_PARTS_WHOLE);
    if (!m->whole) return no_memory(m, err);
    KF_TRY(count_parts(m, err));
    if (was_published(m)) return remove_parts(m, err);
    KF_TRY(read_parts(m, err));
    KF_TRY(check_plan(m, err));
    KF_TRY(list_files(m, err));
    KF_TRY(opt->compared ? verify_in(m, m->whole, 0, NULL, err)
                         : verify(m, opt->threads, job, err));
    const kerf_writer_options target = {.overwrite = opt->overwrite || m->is_published};
    kf_parts again;
    kerf_status s = kf_parts_find(m->folder.out, &target, &again, err);
    kf_parts_leave(&again);
    KF_TRY(s);
    if (!m->is_published) KF_TRY(publish(m, opt->overwrite, err));
    KF_TRY(remove_old(m, err));
    return remove_parts(m, err);
}

/* The folder in which parts wait is not what they become, but what a shell completes to. */
static kerf_status check_name(const char *path, kerf_error *err)
{
    const char *at = strstr(path, KF_PARTS_ENDING), *end = at ? at + strlen(KF_PARTS_ENDING) : "";
    if (!at || end[strspn(end, "/")]) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%.200s: parts wait there: kerf merge %.*s", path,
                   (int)(at - path < 200 ? at - path : 200), path);
}

kerf_status kerf_merge(const char *path, const kerf_merge_options *opt, const kerf_job *job,
                       kerf_merged *result, kerf_error *err)
{
    static const kerf_merge_options usual = {0};
    const kerf_writer_options any = {.overwrite = 1};
    const double began_s = kf_now_s();
    merging m = {.folder = {.fd = -1}};
    if (!path) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_merge: the output has no path");
    kerf_status s = check_name(path, err);
    if (s == KERF_OK) s = kf_parts_find(path, &any, &m.folder, err);
    if (s == KERF_OK) s = merge(&m, opt ? opt : &usual, job, err);
    if (s == KERF_OK && result)
        *result = (kerf_merged){m.parts, m.files, m.bytes, kf_now_s() - began_s};
    for (unsigned i = 0; i < m.parts; i++) {
        if (m.part) kf_part_free(&m.part[i]);
        if (m.path) free(m.path[i]);
    }
    free(m.part);
    free(m.is_empty);
    free(m.path);
    free(m.name);
    free(m.whole);
    kf_parts_leave(&m.folder);
    return s;
}
