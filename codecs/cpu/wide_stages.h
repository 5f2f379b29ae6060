/* wide_stages.h - the stages of one format, as the common part of a backend finds them.
 *
 * Names of functions that units share begin with the backend's: KF_ISA(stages) is kf_avx2_stages.
 */
#ifndef KERF_WIDE_STAGES_H
#define KERF_WIDE_STAGES_H

#include "cpu/wide_tile.h"

/* Of groups of the band and of their arrays in the tile. */
typedef struct scale_stages {
    void (*choose)(const kf_band *b, size_t first, size_t groups, size_t cols, int whole,
                   kf_tile *t);
    void (*dequant)(const kf_band *b, size_t first, size_t groups, kf_tile *t);
} scale_stages;

/* n: elements of the tile; g: their first group in the arrays of groups; codes: of the tile, or of
 * the row in byte structs, where the tile begins at group `first`. */
typedef struct element_stages {
    void (*encode)(size_t width, size_t n, size_t g, kf_tile *t);
    void (*narrow)(kerf_dtype type, const uint8_t *src, size_t width, size_t n, size_t g,
                   kf_tile *t, uint8_t *out); /* source of 16 bits to bytes, where can_narrow */
    void (*table)(float table[16]); /* at scale 1, where codes have no more than four bits */
    void (*values)(const uint8_t *codes, size_t first, size_t n, kf_tile *t);
    void (*decode)(size_t width, size_t n, size_t g, kf_tile *t); /* where it is not linear */
    void (*extremes)(kf_tile *t, uint32_t *lo, uint32_t *hi);
    void (*bound)(uint32_t lo, uint32_t hi, size_t groups, kf_tile *t);
} element_stages;

typedef struct stages {
    kf_spec spec;
    const scale_stages *scale;
    const element_stages *element;
} stages;

/* The stages of each format. */
#define KERF_FORMAT(ID, ...) stages KF_ISA(stages_##ID)(void);
#include <kerf/formats.def>
#undef KERF_FORMAT

#endif
