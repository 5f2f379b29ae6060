/* gguf_keys.c - the keys in the header of a GGUF file, and what they say of the file itself. */
#include "file/gguf/gguf_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const unsigned char value_bytes[KF_GGUF_VALUES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static kerf_status check_bools(kf_gguf_cursor *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p->out->bytes[p->at + i] > 1)
            return kf_gguf_fail(p, KERF_E_DATA, "a bool of %u", p->out->bytes[p->at + i]);
    return KERF_OK;
}

static kerf_status skip_values(kf_gguf_cursor *p, uint64_t type, uint64_t n)
{
    size_t start;
    uint64_t length, bytes;
    if (type >= KF_GGUF_VALUES)
        return kf_gguf_fail(p, KERF_E_DATA, "value of type %" PRIu64 ", types 0 to 12 exist", type);
    if (type == KF_GGUF_ARRAY)
        return kf_gguf_fail(p, KERF_E_DATA,
                            "an array of arrays, which llama.cpp does not read either");
    if (type == KF_GGUF_STRING) {
        for (uint64_t i = 0; i < n; i++) KF_TRY(kf_gguf_string(p, &start, &length));
        return KERF_OK;
    }
    if (!kf_mul_ok(n, value_bytes[type], &bytes))
        return kf_gguf_fail(p, KERF_E_DATA, "%" PRIu64 " values do not fit 64 bits", n);
    KF_TRY(kf_gguf_need(p, bytes));
    if (type == KF_GGUF_BOOL) KF_TRY(check_bools(p, bytes));
    p->at += (size_t)bytes;
    return KERF_OK;
}

/* What the file says of itself. Checked here, since the rest rests on it. */
static kerf_status take_meaning(kf_gguf_cursor *p, const char *name, const kf_gguf_key *k)
{
    const uint64_t v =
        kf_gguf_get(p->out->bytes + k->value, value_bytes[k->type] <= 4 ? value_bytes[k->type] : 4);
    if (strcmp(name, "general.alignment") == 0) {
        if (k->type != KF_GGUF_U32) return kf_gguf_fail(p, KERF_E_DATA, "its type is not u32");
        if (v == 0 || (v & (v - 1)) != 0)
            return kf_gguf_fail(p, KERF_E_DATA, "%" PRIu64 " is not a power of two", v);
        if (v > KF_GGUF_MAX_ALIGNMENT)
            return kf_gguf_fail(p, KERF_E_DATA, "%" PRIu64 " is more than %u", v,
                                KF_GGUF_MAX_ALIGNMENT);
        p->out->alignment = (uint32_t)v;
    } else if (strcmp(name, "general.quantization_version") == 0) {
        if (k->type != KF_GGUF_U32) return kf_gguf_fail(p, KERF_E_DATA, "its type is not u32");
        p->quantization_version = (uint32_t)v;
    } else if (strcmp(name, "split.count") == 0 || strcmp(name, "split.no") == 0) {
        if (k->type != KF_GGUF_U16) return kf_gguf_fail(p, KERF_E_DATA, "its type is not u16");
    } else if (strcmp(name, "split.tensors.count") == 0) {
        if (k->type != KF_GGUF_I32) return kf_gguf_fail(p, KERF_E_DATA, "its type is not i32");
    }
    return KERF_OK;
}

kerf_status kf_gguf_take_key(kf_gguf_cursor *p, size_t i, char *name)
{
    kf_gguf_key *k = &p->out->key[i];
    uint64_t type, count = 1;
    k->at = p->at;
    snprintf(p->where, sizeof p->where, "key %zu", i);
    KF_TRY(kf_gguf_name(p, name, KF_GGUF_MAX_KEY_BYTES));
    snprintf(p->where, sizeof p->where, "key \"%.60s\"", name);
    KF_TRY(kf_gguf_number(p, 4, &type));
    k->type = type < KF_GGUF_VALUES ? (kf_gguf_value)type : KF_GGUF_VALUES;
    k->value = p->at;
    if (type == KF_GGUF_ARRAY) {
        KF_TRY(kf_gguf_number(p, 4, &type));
        KF_TRY(kf_gguf_number(p, 8, &count));
        const uint64_t least = type == KF_GGUF_STRING ? 8 : 1; /* of one value */
        if (count > (p->file_bytes - p->at) / least)
            return kf_gguf_fail(p, KERF_E_DATA,
                                "an array of %" PRIu64 " values, the file has %" PRIu64
                                " bytes left",
                                count, p->file_bytes - p->at);
    }
    KF_TRY(skip_values(p, type, count));
    k->bytes = p->at - k->at;
    return take_meaning(p, name, k);
}
