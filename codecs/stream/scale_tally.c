/* scale_tally.c - the scales of one plane, read in pieces. What is said of them is up to the
 * caller: an inspection names each finding, a verification fails. */
#include "stream/scale_tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* F32 scales above 16, with codes up to 6, 127 or 448 and block scales up to 448, are for weights
 * that no model has; one over such a scale is for weights that it has, down to 2^-40. */
#define LARGE_SCALE 0x41800000u
#define LARGEST_DIVISOR 0x53800000u

/* Numbers of `bytes` each. They are NaN or infinite when these bits are all set: the exponent, in
 * E4M3, which has no infinity, all but the sign, in E8M0 all. From 1 to `usual` there is nothing to
 * say of one. */
typedef struct scale_bits {
    size_t bytes;
    uint32_t not_finite, sign, usual;
} scale_bits;

static const scale_bits types[] = {
    [KF_SCALE_OTHER] = {0, 0, 0, 0},
    [KF_SCALE_E4M3] = {1, 0x7f, 0x80, 0x7e},
    [KF_SCALE_E8M0] = {1, 0xff, 0, 0xfe}, /* zero is 2^-127: of weights that are nothing */
    [KF_SCALE_F16] = {2, 0x7c00, 0x8000, 0x7bff},
    [KF_SCALE_BF16] = {2, 0x7f80, 0x8000, 0x7f7f},
    [KF_SCALE_F32] = {4, 0x7f800000, 0x80000000, LARGE_SCALE},
};

kf_scale_type kf_scale_type_of(const kerf_weight *w, kerf_plane_id p)
{
    if (p == KERF_PLANE_SECOND) return KF_SCALE_F32;
    if (p != KERF_PLANE_SCALES) return KF_SCALE_OTHER;
    switch (w->codec.format->scale) {
    case KERF_SCALE_E4M3: return KF_SCALE_E4M3;
    case KERF_SCALE_E8M0: return KF_SCALE_E8M0;
    case KERF_SCALE_F16: return KF_SCALE_F16;
    case KERF_SCALE_BF16: return KF_SCALE_BF16;
    case KERF_SCALE_F32: return KF_SCALE_F32;
    default: return KF_SCALE_OTHER;
    }
}

static void add(kf_scale_tally *t, const scale_bits *b, uint32_t bits)
{
    const int bad = (bits & b->not_finite) == b->not_finite, negative = (bits & b->sign) != 0;
    if (bad && t->bad++ == 0) t->first_bad = t->seen;
    if (!bad && negative && t->negative++ == 0) t->first_negative = t->seen;
    t->zero += bits == 0;
    t->large += !bad && !negative && bits > b->usual && bits < LARGEST_DIVISOR;
    t->seen++;
}

/* Whether nothing is to be said of a run of scales, as is nearly always so. This loop takes many at
 * once: all scales of a model pass here. */
enum { RUN = 512 };

#define DEFINE_USUAL(type)                                                             \
    static int are_usual_##type(const unsigned char *at, uint32_t usual)               \
    {                                                                                  \
        const type most = (type)usual;                                                 \
        type scale[RUN], unusual = 0;                                                  \
        memcpy(scale, at, sizeof scale);                                               \
        for (int i = 0; i < RUN; i++) unusual |= (type)((type)(scale[i] - 1) >= most); \
        return unusual == 0;                                                           \
    }

DEFINE_USUAL(uint8_t)
DEFINE_USUAL(uint16_t)
DEFINE_USUAL(uint32_t)

void kf_tally_add(kf_scale_tally *t, const void *scales, size_t bytes)
{
    const scale_bits *b = &types[t->type];
    const unsigned char *at = scales;
    for (size_t left = b->bytes ? bytes / b->bytes : 0, n; left > 0; left -= n) {
        n = left < RUN ? left : RUN;
        const int usual = n == RUN && (b->bytes == 1   ? are_usual_uint8_t(at, b->usual)
                                       : b->bytes == 2 ? are_usual_uint16_t(at, b->usual)
                                                       : are_usual_uint32_t(at, b->usual));
        if (usual) t->seen += n;
        for (size_t i = 0; !usual && i < n; i++) {
            uint32_t bits = 0;
            memcpy(&bits, at + i * b->bytes, b->bytes);
            add(t, b, bits);
        }
        at += n * b->bytes;
    }
}

kerf_status kf_tally_scales(const kerf_reader *r, const kerf_weight *w, kerf_plane_id p,
                            kf_work *work, kf_scale_tally *out, kerf_error *err)
{
    enum { MOST = 1 << 18 }; /* of the scales in memory at a time */
    kf_scale_tally t = *out = (kf_scale_tally){.type = kf_scale_type_of(w, p)};
    const kerf_geometry g = kerf_weight_geometry(w);
    const uint64_t all = t.type == KF_SCALE_OTHER ? 0 : g.plane[p].bytes;
    unsigned char *bytes = NULL;
    if (all == 0) return KERF_OK;
    const uint64_t room = kf_min_u64(all, MOST); /* a model may have thousands of small tensors */
    KF_TRY(kf_allocate(&bytes, room, 1, err));
    kerf_status s = KERF_OK;
    for (uint64_t at = 0; at < all && s == KERF_OK; at += room) {
        const size_t n = (size_t)kf_min_u64(all - at, room);
        s = kerf_weight_read(r, w, p, at, bytes, n, err);
        if (s == KERF_OK) kf_tally_add(&t, bytes, n);
        if (s == KERF_OK && work) s = kf_work_add(work, n, err);
    }
    free(bytes);
    *out = t;
    return s;
}
