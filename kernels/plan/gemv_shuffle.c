/* gemv_shuffle.c - codes of a matrix to the order that a GPU takes them in, and back. */
#include "plan/gemv_shuffle.h"

#include "base/base.h"
#include "plan/gemv_device.h"

enum { WORD = 4, PIECE = 1 << 16 }; /* bytes; words that a thread takes at a time */

kerf_status kf_check_shuffle(const kerf_format *f, kerf_error *err)
{
    if (f->element == KERF_ELEM_E2M1 && f->geometry != KERF_GROUP_STRUCT) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "codes of %s are not shuffled; those of mxfp4 and nvfp4 are", f->name);
}

typedef struct shuffling {
    uint8_t *codes;
    size_t words;
    int back;
} shuffling;

static kerf_status shuffle_piece(void *ctx, uint64_t i)
{
    const shuffling *s = ctx;
    size_t from = (size_t)i * PIECE, to = from + PIECE < s->words ? from + PIECE : s->words;
    for (uint8_t *p = s->codes + from * WORD; p < s->codes + to * WORD; p += WORD) {
        uint32_t w;
        memcpy(&w, p, WORD);
        w = s->back ? kf_unshuffle_word(w) : kf_shuffle_word(w);
        memcpy(p, &w, WORD);
    }
    return KERF_OK;
}

static kerf_status shuffle(const kerf_format *f, kerf_span codes, int back, const kerf_exec *exec,
                           void *stream, kerf_error *err)
{
    if (!f || (!codes.p && codes.n)) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "nothing given");
    KF_TRY(kf_check_shuffle(f, err));
    if (codes.n % WORD)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%zu bytes of codes are not whole words of 4",
                       codes.n);
    shuffling s = {codes.p, codes.n / WORD, back};
    if (!exec || !exec->device)
        return kf_parallel(kf_div_up(s.words, PIECE), exec ? exec->threads : 0, shuffle_piece, &s);
    if ((uintptr_t)codes.p % WORD)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "codes in device memory must lie at a multiple of 4 bytes");
    return kf_gemv_device_shuffle(exec->device, codes.p, s.words, back, stream, err);
}

kerf_status kerf_gemv_shuffle(const kerf_format *format, kerf_span codes, const kerf_exec *exec,
                              void *stream, kerf_error *err)
{
    return shuffle(format, codes, 0, exec, stream, err);
}

kerf_status kerf_gemv_unshuffle(const kerf_format *format, kerf_span codes, const kerf_exec *exec,
                                void *stream, kerf_error *err)
{
    return shuffle(format, codes, 1, exec, stream, err);
}
