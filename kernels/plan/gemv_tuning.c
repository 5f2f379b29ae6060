/* gemv_tuning.c - the numbers behind the rules of gemv_divide_*.c, in one place.
 *
 * Cards that were measured have their own numbers. Those of all others follow from the H200's by
 * counts (`derive`), and their rows say so. Sections are those of bench/notes-gemv.md. */
#include "plan/gemv_tuning.h"

#include <stdlib.h>
#include <string.h>

/* Section 22: 16 columns of nvfp4; the shares are of a step in which one, two and three of the four
 * groups of warps have a tile. Other formats are faster or slower with both kernels. Arithmetic of
 * a multiprocessor, and all Hoppers have the same. Section 54: prices of the kernel for five
 * columns and more, by all divisions of 38 products with eight. */
#define MANY_OF_HOPPER                                                                          \
    .wide_inputs = 8u << 20, .wide_base = 5.2, .wide_unit = 1.3, .wide_step = 1.9,              \
    .wide_share = {0, 0.5, 0.55, 0.78, 1}, .many_base = 3.2, .many_unit = 0.08, .many_step = 8, \
    .many_pass = 90, .many_cluster = 1, .many_blocks = 30, .many_pair = {38, 30}

/* An H200 (132 multiprocessors, 4.8 TB/s), CUDA 13.0. */
static const kf_gemv_tuning h200 = {
    /* Section 17: sweeps of shapes with and without pairs, one, two and four columns. A byte that
     * the busiest multiprocessor is spared, times 132, is what memory moves while two blocks wait
     * for each other: a microsecond or so. In a chain the launches beside it hide some of what is
     * uneven; several columns below 8 bits gain besides, since each block makes half of x ready. */
    .pair_stages = 8,
    .pair_gain_idle = 3.5e6,
    .pair_gain_plain = {2.7e6, 6.0e6},
    .pair_gain_chain = {0, 8.5e6, 4.3e6, 3.0e6, 3.0e6},
    .pair_gain_heavy = 8.5e6,
    .pair_cols = {4096, 1024}, /* section 36 */
    /* Section 11: four columns against the kernel for more, six shapes; with 8 bits and more half
     * of that since, bench/results/tuning-h200.json. */
    .x_bytes = {112 * 1024, 32 * 1024},
    /* Section 34: an H100's. */
    .step_bytes = {21.5e6, 50e6},
    /* Section 10: one block and two, 13 shapes, eight formats, chains and plain graphs. */
    .two_blocks_plain = 70000000,
    .one_block_cols = 16384,
    .two_blocks_rings = {2, 1},
    MANY_OF_HOPPER,
};

/* An H100 (132 multiprocessors, 3.35 TB/s), CUDA 13.0: section 26, bench/results/tuning-h100.json.
 * Pairs by the H200's times at its bandwidth, but with x there from the start, 4 bits, twice that;
 * rings by bandwidth; three and four columns go to the kernel for more from half the x on. */
static const kf_gemv_tuning h100 = {
    .pair_stages = 8,
    .pair_gain_idle = 3.0e6,
    .pair_gain_plain = {3.8e6, 4.2e6},
    .pair_gain_chain = {0, 5.9e6, 3.0e6, 2.1e6, 2.1e6},
    .pair_gain_heavy = 5.9e6,
    .pair_cols = {4096, 1024}, /* section 36: an H200's */
    .x_bytes = {56 * 1024, 32 * 1024},
    .step_bytes = {21.5e6, 50e6}, /* section 34 */
    .two_blocks_plain = 70000000,
    .one_block_cols = 16384,
    .two_blocks_rings = {1.4, 0.7},
    MANY_OF_HOPPER,
};

#define DERIVED "derived from counts, not measured"

/* --- cards that were measured ----------------------------------------------------------------- */

static const struct card {
    int capability;
    unsigned multiprocessors;
    double bandwidth_gbps; /* that such a card has, within NEAR of it */
    const kf_gemv_tuning *tuning;
    const char *source;
} cards[] = {
    {90, 132, 4814, &h200, "H200: measured"},
    {90, 132, 3352, &h100, "H100: measured"},
};

/* A file may have what a stream reads for what the vendor says: 5 to 9 % less. */
#define NEAR 0.1

static const struct card *find_card(int capability, const kf_gemv_counts *c)
{
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        double off = c->bandwidth_gbps / cards[i].bandwidth_gbps - 1;
        if (cards[i].capability == capability && cards[i].multiprocessors == c->multiprocessors &&
            off > -NEAR && off < NEAR)
            return &cards[i];
    }
    return NULL;
}

/* --- all others ------------------------------------------------------------------------------- */

/* Compute capabilities as nvcc names them; shared memory of a block as the CUDA programming guide
 * lists it; memory of a card of the kind (advisor/machine/hardware.def), for where none is given.
 */
static const struct architecture {
    int capability;
    unsigned shared_kib;
    double bandwidth_gbps;
    const char *source;
} architectures[] = {
    {80, 163, 2039, "sm_80 (A100): " DERIVED},
    {86, 99, 936, "sm_86 (RTX 30, A10): " DERIVED},
    {87, 163, 205, "sm_87 (Orin): " DERIVED},
    {89, 99, 1008, "sm_89 (RTX 40, L4, L40): " DERIVED},
    {90, 227, 4814, "sm_90 (Hopper): " DERIVED},
    {100, 227, 8000, "sm_100 (B200): " DERIVED},
    {103, 227, 8000, "sm_103 (B300): " DERIVED},
    {120, 99, 1792, "sm_120 (RTX 50): " DERIVED},
    {121, 99, 273, "sm_121 (GB10): " DERIVED},
};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

static const struct architecture *find(int capability)
{
    for (size_t i = 0; i < ARCHITECTURES; i++)
        if (architectures[i].capability == capability) return &architectures[i];
    return NULL;
}

/* An H200's thresholds stand for times of its memory, for work of a multiprocessor, and for parts
 * of a block's shared memory. On another card the same time, work and part are other numbers:
 *
 *   memory  Pairs must pay for a wait of fixed length, until two blocks have met (.4 to .9 us).
 *           What memory moves in that time grows with bandwidth, so the bytes that are spared must.
 *   ring    Rings are counted as time, too: until x is known memory fills so many rings of a
 *           multiprocessor as its share of bandwidth allows. With a share of half as many bytes a
 *           second, one ring is as long as two are there.
 *   room    x of several columns and of long rows stands beside a ring of fixed size. It may take
 *           the same part of what the ring leaves.
 *   work    A second block on a multiprocessor must have enough to do for what it costs to begin:
 *           so many bytes for each of them. (By bandwidth an H100 lost 2 to 15 %: section 26.) So
 *           must the kernel for nine columns and more; its times are arithmetic of one of them.
 *   steps   A step over K takes a fixed time. Bytes of W that eight columns take in that time are
 *           bound by a multiprocessor's instructions from 1.5 TB/s for 132 of them on, below that
 *           by memory.
 *
 * Stages of a row go by warps of a block, and prices of five columns and more by instructions: both
 * stay. The second-level cache is in none of them, since weights come from memory. */
static kf_gemv_tuning derive(const kf_gemv_counts *c)
{
    const double h200_gbps = 4814, h200_sms = 132, h200_shared = 227 * 1024, ring_bytes = 64 * 1024;
    double memory = c->bandwidth_gbps / h200_gbps, work = c->multiprocessors / h200_sms;
    double slow = c->bandwidth_gbps / 1500, steps = slow < work ? slow : work;
    double room = ((double)c->shared_bytes - ring_bytes) / (h200_shared - ring_bytes);
    kf_gemv_tuning t = h200;
    if (room < 0) room = 0;
    t.pair_gain_idle *= memory;
    for (size_t i = 0; i < 2; i++) t.pair_gain_plain[i] *= memory;
    for (size_t i = 0; i < 5; i++) t.pair_gain_chain[i] *= memory;
    t.pair_gain_heavy *= memory;
    for (size_t i = 0; i < 2; i++) t.step_bytes[i] *= steps;
    t.two_blocks_plain *= work;
    for (size_t i = 0; i < 2; i++) {
        t.two_blocks_rings[i] *= memory / work;
        t.x_bytes[i] *= room;
    }
    t.one_block_cols *= room;
    t.wide_inputs *= work;
    return t;
}

static kf_gemv_machine machine_of(int capability, const struct architecture *a,
                                  const kf_gemv_counts *counts)
{
    enum { OWN = 1024 }; /* bytes that a kernel has besides, in static arrays */
    const double least_gbps = 10, most_gbps = 100000;
    kf_gemv_counts c = *counts;
    if (!(c.bandwidth_gbps >= least_gbps && c.bandwidth_gbps <= most_gbps))
        c.bandwidth_gbps = a ? a->bandwidth_gbps : cards[0].bandwidth_gbps;
    const struct card *card = find_card(capability, &c);
    return (kf_gemv_machine){.multiprocessors = c.multiprocessors,
                             .most_shared = c.shared_bytes - OWN,
                             .has_clusters = capability / 10 == 9 || capability / 10 == 10,
                             .has_wgmma = capability / 10 == 9,
                             .tuning = card ? *card->tuning : derive(&c),
                             .tuning_source = card ? card->source
                                              : a  ? a->source
                                                   : DERIVED};
}

kf_gemv_machine kf_gemv_machine_from(int major, int minor, const kf_gemv_counts *counts)
{
    int capability = 10 * major + minor;
    return machine_of(capability, find(capability), counts);
}

kf_gemv_machine kf_gemv_machine_of(const char *arch, unsigned multiprocessors,
                                   double bandwidth_gbps)
{
    const struct architecture *a = strncmp(arch, "sm_", 3) == 0 ? find(atoi(arch + 3)) : NULL;
    if (!a || !multiprocessors) return (kf_gemv_machine){0};
    const kf_gemv_counts c = {multiprocessors, a->shared_kib * 1024, bandwidth_gbps};
    return machine_of(a->capability, a, &c);
}

/* --- what the card itself says ---------------------------------------------------------------- */

void kf_gemv_apply(kf_gemv_tuning *t, const kerf_gemv_tuning *by)
{
    double f[KERF_GEMV_FACTOR_COUNT];
    if (!by || (by->rules && by->rules != KERF_GEMV_RULES)) return;
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++) f[i] = by->factor[i] == 0 ? 1 : by->factor[i];
    t->pair_gain_idle *= f[KERF_GEMV_FACTOR_PAIRS_IDLE];
    t->pair_gain_plain[0] *= f[KERF_GEMV_FACTOR_PAIRS_PLAIN_LIGHT];
    t->pair_gain_plain[1] *= f[KERF_GEMV_FACTOR_PAIRS_PLAIN_HEAVY];
    for (size_t i = 0; i < 5; i++) t->pair_gain_chain[i] *= f[KERF_GEMV_FACTOR_PAIRS_CHAIN_LIGHT];
    t->pair_gain_heavy *= f[KERF_GEMV_FACTOR_PAIRS_CHAIN_HEAVY];
    t->two_blocks_plain *= f[KERF_GEMV_FACTOR_BLOCKS_PLAIN];
    t->two_blocks_rings[0] *= f[KERF_GEMV_FACTOR_BLOCKS_CHAIN_LIGHT];
    t->two_blocks_rings[1] *= f[KERF_GEMV_FACTOR_BLOCKS_CHAIN_HEAVY];
    t->one_block_cols *= f[KERF_GEMV_FACTOR_ONE_BLOCK];
    for (size_t i = 0; i < 2; i++) t->many_pair[i] *= f[KERF_GEMV_FACTOR_BLOCKS_MANY];
    t->x_bytes[0] *= f[KERF_GEMV_FACTOR_FEW_LIGHT];
    t->x_bytes[1] *= f[KERF_GEMV_FACTOR_FEW_HEAVY];
    double wide = f[KERF_GEMV_FACTOR_WIDE];
    t->wide_inputs *= wide;
    t->wide_base *= wide;
    t->wide_unit *= wide;
    t->wide_step *= wide;
}
