/* placement.c - the part of laying out an output that all containers share: its entries are valid,
 * their names unique. */
#include "file/table/placement.h"

#include <stdlib.h>
#include <string.h>

static kerf_status fail_entry(const kerf_entry *e, kerf_status s, const char *why, kerf_error *err)
{
    return kf_fail(err, s, KF_NOWHERE, "output tensor \"%.*s\": %s",
                   KF_NAME(e->name ? e->name : "(null)"), why);
}

static kerf_status check_entry(const kerf_entry *e, size_t files, uint64_t *bytes, kerf_error *err)
{
    if (!e->name || !kf_is_utf8(e->name))
        return fail_entry(e, KERF_E_ARG, "its name is not UTF-8", err);
    if (strnlen(e->name, KERF_MAX_NAME_BYTES + 1) > KERF_MAX_NAME_BYTES)
        return fail_entry(e, KERF_E_LIMIT, "its name is longer than 1024 bytes", err);
    if (strcmp(e->name, "__metadata__") == 0)
        return fail_entry(e, KERF_E_ARG, "this name is reserved", err);
    if (kerf_dtype_bits(e->dtype) == 0) return fail_entry(e, KERF_E_ARG, "it has no dtype", err);
    if (e->shard >= files) return fail_entry(e, KERF_E_ARG, "its shard does not exist", err);
    if (e->shape.rank > KERF_MAX_RANK)
        return fail_entry(e, KERF_E_ARG, "it has more than 8 dimensions", err);
    for (unsigned i = 0; i < e->shape.rank; i++)
        if (e->shape.dim[i] > KF_MAX_DIM)
            return fail_entry(e, KERF_E_ARG, "a dimension is above 2^53", err);
    switch (kf_tensor_bytes(e->dtype, &e->shape, bytes)) {
    case KERF_OK: return KERF_OK;
    case KERF_E_DATA: return fail_entry(e, KERF_E_ARG, "its elements do not fill whole bytes", err);
    default: return fail_entry(e, KERF_E_RANGE, "the size of its shape does not fit 64 bits", err);
    }
}

/* Copies the names, which errors and the index need after the caller's are gone. */
static kerf_status take_names(kf_placement *p, const kerf_entry *entries, kerf_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < p->count; i++) bytes += strlen(entries[i].name) + 1;
    char *at = p->strings = kf_alloc(bytes, 1);
    if (!at) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names");
    for (size_t i = 0; i < p->count; i++) {
        size_t n = strlen(entries[i].name) + 1;
        memcpy(at, entries[i].name, n);
        p->by_name[i] = (kf_named){at, i};
        at += n;
    }
    size_t twice = kf_sort_names(p->by_name, p->count);
    if (twice < p->count)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "two output tensors are named \"%.*s\"",
                       KF_NAME(p->by_name[twice].name));
    return KERF_OK;
}

kerf_status kf_placement_begin(kf_placement *p, const kerf_entry *entries, size_t count,
                               size_t files, kerf_error *err)
{
    memset(p, 0, sizeof *p);
    if (count > KERF_MAX_TENSORS)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "%zu output tensors, at most %u are written",
                       count, KERF_MAX_TENSORS);
    p->count = count;
    p->files = files;
    p->place = kf_alloc_zero(count, sizeof *p->place);
    p->by_name = kf_alloc(count, sizeof *p->by_name);
    p->file = kf_alloc_zero(files, sizeof *p->file);
    if (!p->place || !p->by_name || !p->file)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu output tensors", count);
    for (size_t i = 0; i < count; i++)
        KF_TRY(check_entry(&entries[i], files, &p->place[i].bytes, err));
    return take_names(p, entries, err);
}

void kf_placement_free(kf_placement *p)
{
    for (size_t f = 0; p->file && f < p->files; f++) free(p->file[f].header.p);
    free(p->place);
    free(p->by_name);
    free(p->file);
    free(p->strings);
    memset(p, 0, sizeof *p);
}
