/* weights_open.c - groups the tensors of a checkpoint into weights: first those that its `kerf`
 * metadata describes (description.c), then those that are recognized by their tensors
 * (recognize.c), then those in forms that kerf has no format for (foreign.c). */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/block_weights.h"
#include "layout/decoded.h"
#include "layout/description.h"
#include "layout/foreign.h"
#include "layout/place_weights.h"
#include "layout/recognize.h"

/* --- what nothing describes ----------------------------------------------------------------- */

/* The type that a weight had before: the one that most numbers of the file have that are not
 * quantized, in embeddings and norms. Some have F32 in a model of BF16: the bias of DeepSeek's
 * routers, A_log of Mamba. */
static kerf_dtype dense_dtype(const kf_weights_builder *b, size_t tensors)
{
    static const kerf_dtype types[] = {KERF_BF16, KERF_F16, KERF_F32};
    uint64_t bytes[3] = {0}; /* together no more than the files have */
    size_t most = 0;
    for (size_t i = 0; i < tensors; i++) {
        const kerf_tensor *t = &b->first[i];
        const int is_part = strstr(t->name, "scale") != NULL || t->shape.rank == 0;
        if (b->role[i] != KF_ROLE_DENSE || is_part) continue;
        for (size_t k = 0; k < 3; k++)
            if (t->dtype == types[k]) bytes[k] += types[k] == KERF_F32 ? t->bytes / 2 : t->bytes;
    }
    for (size_t k = 1; k < 3; k++)
        if (bytes[k] > bytes[most]) most = k;
    return types[most];
}

static int holds_codes(kerf_dtype t)
{
    return t == KERF_U8 || t == KERF_I8 || t == KERF_I32 || t == KERF_U32 || t == KERF_F8_E4M3 ||
           t == KERF_F8_E5M2;
}

/* A tensor whose file says what its blocks are. Blocks that kerf cannot decode are dense as far as
 * it is concerned: bytes to be copied, of a tensor of that shape, and no part of another weight. */
static kerf_status take_blocks(kf_weights_builder *b, const kerf_tensor *t)
{
    kerf_weight w;
    unsigned char *role = &b->role[t - b->first];
    KF_TRY(kf_blocks_recognize(b->r, t, &w, b->err));
    if (!w.codec.format && *role == KF_ROLE_DENSE) {
        *role = KF_ROLE_CODES;
        return kf_weights_add(b, t, &w);
    }
    if (!w.codec.format) return KERF_OK;
    if (kf_weights_claim(b, &w)) return kf_weights_add(b, t, &w);
    return kf_fail(b->err, KERF_E_DATA, KF_NOWHERE, "%s: tensor \"%.*s\": its scale serves two",
                   kerf_reader_shard(b->r, t->shard), KF_NAME(t->name));
}

/* What is known of the folder; asked for once, when the first codes need it. */
typedef struct folder_facts {
    int asked;
    const kerf_layout *configured;
    kf_foreign foreign;
} folder_facts;

static kerf_status ask_folder(const kf_weights_builder *b, folder_facts *folder)
{
    if (folder->asked++) return KERF_OK;
    KF_TRY(kerf_layout_configured(b->r, &folder->configured, b->err));
    return kf_other_numbers_open(b->r, &b->out->other, b->err);
}

/* A tensor of codes, with all that belongs to it; what is no weight of any kind stays dense. */
static kerf_status take_codes(kf_weights_builder *b, const kerf_tensor *t, folder_facts *folder)
{
    char name[KF_NAME_ROOM], why[320];
    kerf_weight w;
    int found;
    KF_TRY(ask_folder(b, folder));
    KF_TRY(kf_other_numbers_ask(&b->out->other, b->r, t->name, why, sizeof why, b->err));
    if (why[0]) return KERF_OK; /* model/stray.c says so */
    KF_TRY(kf_recognize(b->r, t, folder->configured, &w, name, &found, b->err));
    if (!found) {
        KF_TRY(kf_foreign_recognize(b, &folder->foreign, t, &w, &found));
        return found ? kf_weights_add(b, t, &w) : KERF_OK;
    }
    if (!kf_weights_claim(b, &w)) return KERF_OK;
    KF_TRY(kf_weights_keep_name(b->out, name, t, &w.name, b->err));
    return kf_weights_add(b, t, &w);
}

static kerf_status recognize_all(kf_weights_builder *b, size_t tensors, folder_facts *folder)
{
    for (size_t i = 0; i < tensors; i++) {
        const kerf_tensor *t = &b->first[i];
        if (t->block_type)
            KF_TRY(take_blocks(b, t));
        else if (b->role[i] == KF_ROLE_DENSE && holds_codes(t->dtype))
            KF_TRY(take_codes(b, t, folder));
    }
    const kerf_dtype dtype =
        folder->asked ? dense_dtype(b, tensors) : KERF_BF16; /* of what is left */
    for (size_t i = 0; folder->asked && i < b->founds; i++)
        if (b->found[i].dtype == KERF_DTYPE_NONE) b->found[i].dtype = dtype;
    return KERF_OK;
}

/* --- all weights ---------------------------------------------------------------------------- */

/* Adds what is dense, and no more room than that needs. number becomes that of each weight. */
static kerf_status take_dense(kf_weights_builder *b, size_t tensors)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < tensors; i++) n += b->role[i] != KF_ROLE_OTHER;
    kerf_weight *all = realloc(b->found, (n ? n : 1) * sizeof *all);
    if (!all) return kf_fail(b->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu weights", n);
    b->found = all;
    b->room = n;
    for (size_t i = 0; i < tensors; i++) {
        const kerf_tensor *t = &b->first[i];
        const kerf_weight w = {.name = t->name, .shape = t->shape, .dtype = t->dtype, .plane = {t}};
        if (b->role[i] == KF_ROLE_OTHER) continue;
        if (!b->number[i]) KF_TRY(kf_weights_add(b, t, &w));
        b->number[kept++] = b->number[i];
    }
    return KERF_OK;
}

/* Puts them into the order of the tensors, where they stand: each goes to its place, and the one
 * from there on. */
static void put_in_order(kf_weights_builder *b)
{
    for (size_t i = 0; i < b->founds; i++) {
        const kerf_weight first = b->found[i];
        size_t at = i;
        while (b->number[at] != 0) {
            const size_t from = b->number[at] - 1;
            b->number[at] = 0;
            b->found[at] = from == i ? first : b->found[from];
            at = from;
        }
    }
}

kerf_status kerf_weights_open(const kerf_reader *r, kerf_weights **out, kerf_error *err)
{
    size_t tensors = kerf_reader_count(r);
    kerf_weights *w = kf_alloc_zero(1, sizeof *w);
    kf_weights_builder b = {.out = w, .r = r, .first = kerf_reader_at(r, 0), .err = err};
    b.role = kf_alloc_zero(tensors, 1);
    b.number = kf_alloc_zero(tensors, sizeof *b.number);
    kerf_status s = KERF_OK;
    if (!w || !b.role || !b.number)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %zu tensors", tensors);
    for (size_t i = 0; s == KERF_OK && i < kerf_reader_shard_count(r); i++)
        s = kf_description_take(&b, (unsigned)i);
    folder_facts folder = {0};
    if (s == KERF_OK) s = recognize_all(&b, tensors, &folder);
    kf_foreign_close(&folder.foreign);
    if (s == KERF_OK) s = take_dense(&b, tensors);
    if (s == KERF_OK) {
        put_in_order(&b);
        w->count = b.founds;
        w->weight = b.found;
        s = kf_allocate(&w->by_name, w->count, sizeof *w->by_name, err);
        if (s == KERF_OK) s = kf_weights_find_model(w, r, err);
        if (s == KERF_OK) s = kf_weights_place(w, err);
        if (s == KERF_OK) s = kf_weights_turn(w, err);
        if (s == KERF_OK) s = kf_weights_decode(w, err);
        if (s == KERF_OK) s = kf_weights_index(w, err);
    } else {
        free(b.found);
    }
    free(b.number);
    if (s == KERF_OK)
        *out = w;
    else
        kerf_weights_close(w);
    free(b.role);
    return s;
}
