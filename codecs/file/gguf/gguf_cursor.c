/* gguf_cursor.c - reads the header of a GGUF file from front to back. */
#include "file/gguf/gguf_cursor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_READ ((size_t)1 << 16)

kerf_status kf_gguf_fail(kf_gguf_cursor *p, kerf_status s, const char *fmt, ...)
{
    char why[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return kf_fail(p->err, s, p->at, "%s: %s: %s", p->path, p->where, why);
}

kerf_status kf_gguf_no_memory(kf_gguf_cursor *p)
{
    return kf_fail(p->err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory for the header", p->path);
}

/* Reads on until `end` bytes are there: at least as much again as there is, so that all of a header
 * is read in few steps. */
static kerf_status read_on(kf_gguf_cursor *p, size_t end)
{
    uint64_t want = p->have ? 2 * (uint64_t)p->have : FIRST_READ;
    if (want < end) want = end;
    want = kf_min_u64(kf_min_u64(want, p->file_bytes), KERF_MAX_HEADER_BYTES);
    uint8_t *more = realloc(p->out->bytes, want);
    if (!more) return kf_gguf_no_memory(p);
    p->out->bytes = more;
    KF_TRY(kf_blob_read(p->blob, p->have, more + p->have, (size_t)want - p->have, p->err));
    p->have = (size_t)want;
    return KERF_OK;
}

kerf_status kf_gguf_need(kf_gguf_cursor *p, uint64_t n)
{
    if (n > p->file_bytes - p->at)
        return kf_gguf_fail(p, KERF_E_DATA,
                            "needs %" PRIu64 " bytes, the file has %" PRIu64 " left", n,
                            p->file_bytes - p->at);
    if (n > KERF_MAX_HEADER_BYTES || p->at + n > KERF_MAX_HEADER_BYTES)
        return kf_gguf_fail(p, KERF_E_LIMIT, "a header of more than %u bytes is not read",
                            KERF_MAX_HEADER_BYTES);
    return p->at + n > p->have ? read_on(p, p->at + (size_t)n) : KERF_OK;
}

kerf_status kf_gguf_number(kf_gguf_cursor *p, unsigned bytes, uint64_t *out)
{
    KF_TRY(kf_gguf_need(p, bytes));
    *out = kf_gguf_get(p->out->bytes + p->at, bytes);
    p->at += bytes;
    return KERF_OK;
}

kerf_status kf_gguf_string(kf_gguf_cursor *p, size_t *start, uint64_t *length)
{
    KF_TRY(kf_gguf_number(p, 8, length));
    KF_TRY(kf_gguf_need(p, *length));
    if (*length > KF_GGUF_MAX_STRING_BYTES)
        return kf_gguf_fail(p, KERF_E_LIMIT, "a string of %" PRIu64 " bytes, at most %u are read",
                            *length, KF_GGUF_MAX_STRING_BYTES);
    *start = p->at;
    p->at += (size_t)*length;
    return KERF_OK;
}

kerf_status kf_gguf_name(kf_gguf_cursor *p, char *out, size_t most)
{
    size_t start;
    uint64_t length;
    KF_TRY(kf_gguf_string(p, &start, &length));
    if (length == 0) return kf_gguf_fail(p, KERF_E_DATA, "its name is empty");
    if (length > most)
        return kf_gguf_fail(p, KERF_E_DATA, "its name has %" PRIu64 " bytes, at most %zu are read",
                            length, most);
    memcpy(out, p->out->bytes + start, (size_t)length);
    out[length] = 0;
    if (strlen(out) != length || !kf_is_utf8(out))
        return kf_gguf_fail(p, KERF_E_DATA, "its name is not UTF-8 text");
    return KERF_OK;
}
