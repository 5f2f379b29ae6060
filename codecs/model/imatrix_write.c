/* imatrix_write.c - means of squares as llama.cpp's imatrix: sums and counts in a GGUF file.
 *
 * Source: llama.cpp, tools/imatrix/imatrix.cpp (save_imatrix) and tools/quantize/quantize.cpp. */
#include <kerf/importance.h>

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/gguf/gguf_put.h"
#include "layout/gguf_names.h"

typedef struct imatrix_entry {
    char name[KF_GGUF_NAME_ROOM + 16];
    uint64_t experts, columns;
    float *sum, *count; /* [experts][columns], [experts] */
} imatrix_entry;

typedef struct imatrix_file {
    imatrix_entry *entry;
    size_t count;
    uint64_t tokens;
} imatrix_file;

/* --- entries ------------------------------------------------------------------------------- */

static imatrix_entry *find_entry(imatrix_file *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->entry[i].name, name) == 0) return &f->entry[i];
    return NULL;
}

/* Tokens that each of the matrices of a weight saw; all of them where the file does not say. */
static kerf_status read_counts(const kerf_checkpoint *imatrix, const kerf_weight *w,
                               const imatrix_file *f, uint64_t n, float *out, kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    const kerf_reader *r = kerf_checkpoint_reader(imatrix);
    snprintf(name, sizeof name, "%s.count", w->name);
    const kerf_tensor *t = kerf_reader_find(r, name);
    for (uint64_t i = 0; i < n; i++) out[i] = (float)f->tokens;
    if (!t || t->dtype != KERF_F32 || t->bytes != n * sizeof *out) return KERF_OK;
    return kerf_reader_read(r, t, 0, out, (size_t)t->bytes, err);
}

/* Room for experts that come one by one, in any order. */
static kerf_status make_room(imatrix_entry *e, uint64_t experts, kerf_error *err)
{
    uint64_t n;
    if (experts <= e->experts) return KERF_OK;
    if (!kf_mul_ok(experts, e->columns * sizeof *e->sum, &n) || experts > 65536)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%.80s: too many experts", e->name);
    float *sum = realloc(e->sum, n);
    if (sum) e->sum = sum;
    float *count = sum ? realloc(e->count, experts * sizeof *count) : NULL;
    if (!count) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %.80s", e->name);
    e->count = count;
    memset(e->sum + e->experts * e->columns, 0, n - e->experts * e->columns * sizeof *e->sum);
    memset(e->count + e->experts, 0, (experts - e->experts) * sizeof *e->count);
    e->experts = experts;
    return KERF_OK;
}

static kerf_status add_weight(imatrix_file *f, const kerf_checkpoint *imatrix, const kerf_weight *w,
                              const char *name, uint64_t expert, kerf_error *err)
{
    kerf_importance i = {0};
    const uint64_t columns = kf_last_dim(&w->shape);
    imatrix_entry *e = find_entry(f, name);
    KF_TRY(kerf_importance_read(imatrix, w, 0, &i, err));
    if (!e) {
        e = &f->entry[f->count++];
        snprintf(e->name, sizeof e->name, "%s", name);
        e->columns = columns;
    }
    const uint64_t matrices = i.count / columns;
    kerf_status s = e->columns != columns ? kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                                                    "%.200s: other columns than its "
                                                    "fellows",
                                                    w->name)
                                          : make_room(e, expert + matrices, err);
    if (s == KERF_OK) s = read_counts(imatrix, w, f, matrices, e->count + expert, err);
    for (uint64_t k = 0; s == KERF_OK && k < i.count; k++)
        e->sum[expert * columns + k] = i.value[k] * e->count[expert + k / columns];
    kerf_importance_free(&i);
    return s;
}

static kerf_status list_entries(imatrix_file *f, const kerf_checkpoint *imatrix,
                                const kerf_checkpoint *source, kerf_error *err)
{
    const kerf_weights *all = kerf_checkpoint_weights(source);
    const int is_gguf = kerf_reader_is_gguf(kerf_checkpoint_reader(source));
    KF_TRY(kf_allocate(&f->entry, kerf_weights_count(all), sizeof *f->entry, err));
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        char name[KF_GGUF_NAME_ROOM];
        uint64_t expert = 0;
        if (w->shape.rank < 2 || !kerf_importance_names(imatrix, w)) continue;
        snprintf(name, sizeof name, "%s", w->name);
        if (!is_gguf && kf_gguf_name_of(w->name, name, &expert) == KF_GGUF_UNKNOWN)
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%.200s: llama.cpp has no name for it",
                           w->name);
        KF_TRY(add_weight(f, imatrix, w, name, expert, err));
    }
    if (f->count) return KERF_OK;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: names none of the tensors of %.200s",
                   kerf_checkpoint_path(imatrix), kerf_checkpoint_path(source));
}

/* --- the file ------------------------------------------------------------------------------ */

/* A header without tensors, packed: the keys that llama.cpp asks for. */
static kerf_status make_keys(const char *from, uint64_t chunks, uint64_t length, char **out,
                             kerf_error *err)
{
    kf_text t = {0};
    kf_text_add_bytes(&t, "GGUF", 4);
    kf_gguf_put(&t, 3, 4);
    kf_gguf_put(&t, 0, 8);
    kf_gguf_put(&t, 4, 8);
    kf_gguf_put_key(&t, "general.type", KF_GGUF_STRING);
    kf_gguf_put_string(&t, "imatrix");
    kf_gguf_put_key(&t, "imatrix.datasets", KF_GGUF_ARRAY);
    kf_gguf_put(&t, KF_GGUF_STRING, 4);
    kf_gguf_put(&t, 1, 8);
    kf_gguf_put_string(&t, from);
    kf_gguf_put_u32(&t, "imatrix.chunk_count", (uint32_t)kf_min_u64(chunks, UINT32_MAX));
    kf_gguf_put_u32(&t, "imatrix.chunk_size", (uint32_t)kf_min_u64(length, UINT32_MAX));
    *out = t.failed ? NULL : kf_alloc(kf_gguf_packed_bytes(t.n), 1);
    if (*out) kf_gguf_pack((const uint8_t *)t.p, t.n, *out);
    free(t.p);
    return *out ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a header");
}

static kerf_status write_entries(const imatrix_file *f, const kerf_entry *entry, char *keys,
                                 const char *path, int overwrite, kerf_error *err)
{
    kerf_writer *w;
    const kerf_key_value carried = {KF_GGUF_CARRIED, keys};
    const kerf_key_value *const metadata[] = {&carried};
    const size_t one = 1;
    const kerf_writer_options opt = {
        .overwrite = overwrite, .metadata = metadata, .metadata_count = &one};
    KF_TRY(kerf_writer_create(path, entry, 2 * f->count, &opt, &w, err));
    kerf_status s = KERF_OK;
    for (size_t i = 0; s == KERF_OK && i < f->count; i++) {
        const imatrix_entry *e = &f->entry[i];
        s = kerf_writer_write(w, 2 * i, 0, e->sum, e->experts * e->columns * sizeof *e->sum, err);
        if (s == KERF_OK)
            s = kerf_writer_write(w, 2 * i + 1, 0, e->count, e->experts * sizeof *e->count, err);
    }
    if (s == KERF_OK) return kerf_writer_commit(w, err);
    kerf_writer_abort(w);
    return s;
}

static kerf_status write_file(const imatrix_file *f, char *keys, const char *path, int overwrite,
                              kerf_error *err)
{
    enum { ROOM = KF_GGUF_NAME_ROOM + 32 };
    char(*name)[ROOM] = NULL;
    kerf_entry *entry = NULL;
    kerf_status s = kf_allocate(&name, 2 * f->count, ROOM, err);
    if (s == KERF_OK) s = kf_allocate(&entry, 2 * f->count, sizeof *entry, err);
    for (size_t i = 0; s == KERF_OK && i < f->count; i++) {
        const imatrix_entry *e = &f->entry[i];
        snprintf(name[2 * i], ROOM, "%s.in_sum2", e->name);
        snprintf(name[2 * i + 1], ROOM, "%s.counts", e->name);
        entry[2 * i] = (kerf_entry){name[2 * i], KERF_F32, {2, {e->experts, e->columns}}, 0};
        entry[2 * i + 1] = (kerf_entry){name[2 * i + 1], KERF_F32, {2, {e->experts, 1}}, 0};
    }
    if (s == KERF_OK) s = write_entries(f, entry, keys, path, overwrite, err);
    free(entry);
    free(name);
    return s;
}

kerf_status kerf_imatrix_write(const kerf_checkpoint *imatrix, const kerf_checkpoint *source,
                               uint64_t chunks, uint64_t length, const char *path, int overwrite,
                               kerf_error *err)
{
    imatrix_file f = {.tokens = chunks * length};
    char *keys = NULL;
    kerf_status s = kf_has_suffix(path, ".gguf")
                        ? list_entries(&f, imatrix, source, err)
                        : kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                                  "%.200s: an imatrix of llama.cpp is named *.gguf", path);
    if (s == KERF_OK) s = make_keys(kerf_checkpoint_path(imatrix), chunks, length, &keys, err);
    if (s == KERF_OK) s = write_file(&f, keys, path, overwrite, err);
    for (size_t i = 0; i < f.count; i++) {
        free(f.entry[i].sum);
        free(f.entry[i].count);
    }
    free(f.entry);
    free(keys);
    return s;
}
