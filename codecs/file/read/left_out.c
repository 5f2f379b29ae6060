/* left_out.c - files of weights that lie beside those of a model and are not read with it. A
 * numbered shard, or a file whose tensors continue those of the model, is a part of it that would
 * be lost, and is refused; of others it is known that they are there. */
#include "file/read/left_out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/read/folder.h"

typedef struct other_file {
    const char *name; /* in the folder */
    kf_shard shard;
    size_t lost;         /* tensors that the model does not have  */
    int shares, extends; /* it has some; their names go on from there */
} other_file;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the files that are read, sorted. */
static kerf_status sort_open(const kf_beside_of *m, const char ***out, kerf_error *err)
{
    KF_TRY(kf_allocate(out, m->shards, sizeof **out, err));
    for (size_t i = 0; i < m->shards; i++) (*out)[i] = m->shard[i].name;
    if (m->shards) qsort(*out, m->shards, sizeof **out, by_text);
    return KERF_OK;
}

/* Whether a tensor of the model begins as this one does, up to the first dot: names are sorted. */
static int goes_on(const kf_beside_of *m, const char *name)
{
    const char *dot = strchr(name, '.');
    const size_t n = dot ? (size_t)(dot + 1 - name) : 0;
    size_t low = 0, high = m->count;
    while (n && low < high) {
        const size_t mid = low + (high - low) / 2;
        if (strncmp(m->by_name[mid].name, name, n) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return n && low < m->count && strncmp(m->by_name[low].name, name, n) == 0;
}

static void compare(const kf_beside_of *m, other_file *o)
{
    const kf_header *h = &o->shard.header;
    for (size_t i = 0; i < h->count; i++) {
        const int is_there = kf_find_name(m->by_name, m->count, h->tensor[i].name) != NULL;
        o->lost += !is_there;
        o->shares |= is_there;
        o->extends |= !is_there && goes_on(m, h->tensor[i].name);
    }
}

/* A number of the same row as a shard that is read: "model-" before it. *fits: of as many. */
static int is_numbered_alike(const kf_beside_of *m, const char *name, int *fits)
{
    unsigned number, count, own_number, own_count;
    *fits = 0;
    if (!kf_shard_number(name, &number, &count)) return 0;
    const size_t stem = (size_t)(strrchr(name, '-') - name) - strlen("-00000-of");
    int is_alike = 0;
    for (size_t i = 0; i < m->shards; i++) {
        const char *own = m->shard[i].name;
        if (strncmp(own, name, stem) != 0 || (own[stem] != '-' && own[stem] != '.')) continue;
        is_alike = 1;
        *fits |= kf_shard_number(own, &own_number, &own_count) && own_count == count;
    }
    return is_alike;
}

static kerf_status refuse(const other_file *o, const char *index, int fits, kerf_error *err)
{
    if (index && fits)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%s: leaves out %s, which lies beside it with %zu tensors; move the index "
                       "away and all shards are read: mv %s %s.old",
                       index, o->name, o->lost, index, index);
    return kf_fail(
        err, KERF_E_DATA, KF_NOWHERE,
        "%s: holds %zu tensors that go on where those of the model end, and %s: if it is "
        "no part of the model, move it away: mv %s %s.old",
        o->shard.blob.path, o->lost, index ? "the index does not name it" : "no index names it",
        o->shard.blob.path, o->shard.blob.path);
}

/* What cannot be opened is another's concern, unless its number says that it is a shard. */
static kerf_status look_at(const kf_beside_of *m, const char *name, char **left, kerf_error *err)
{
    int fits;
    const int is_numbered = is_numbered_alike(m, name, &fits);
    char *path = kf_path_join(m->folder, name);
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", name);
    other_file o = {.name = name, .shard = KF_NO_SHARD};
    kerf_error own;
    kerf_status s = kf_shard_open(&o.shard, path, is_numbered ? err : &own);
    if (s == KERF_OK) {
        compare(m, &o);
        if (o.lost && (is_numbered || (o.extends && !o.shares)))
            s = refuse(&o, m->index, fits, err);
        else if (o.lost && !o.shares && !*left && !(*left = strdup(name)))
            s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", name);
    } else if (s == KERF_E_NOMEM) {
        s = kf_fail(err, s, KF_NOWHERE, "%s: no memory", name);
    } else if (!is_numbered) {
        s = KERF_OK;
    }
    kf_shard_close(&o.shard);
    free(path);
    return s;
}

kerf_status kf_look_beside(const kf_beside_of *m, char **other, kerf_error *err)
{
    char **name;
    size_t count;
    kerf_error own;
    kerf_status s = kf_folder_files(m->folder, &name, &count, &own);
    if (s == KERF_E_IO && own.native == EACCES) return KERF_OK; /* what is named can be read */
    if (s != KERF_OK && err) *err = own;
    const char **open = NULL;
    if (s == KERF_OK) s = sort_open(m, &open, err);
    for (size_t i = 0; s == KERF_OK && i < count; i++)
        if (!bsearch(&name[i], open, m->shards, sizeof *open, by_text))
            s = look_at(m, name[i], other, err);
    free(open);
    for (size_t i = 0; i < count; i++) free(name[i]);
    free(name); /* NULL after a failure */
    return s;
}
