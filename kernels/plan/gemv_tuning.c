/* gemv_tuning.c - the numbers behind the rules of gemv_divide_*.c, in one place.
 *
 * Only one device has been measured: an H200. The other architectures use its numbers and say so;
 * each has a row, so that numbers which are measured later change that row and nothing else.
 * Sections are those of bench/notes-gemv.md. */
#include "plan/gemv_tuning.h"

#include <stdlib.h>
#include <string.h>

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
    /* Section 11: four columns against the kernel for more, six shapes. */
    .x_bytes = {112 * 1024, 64 * 1024},
    /* Section 10: one block and two, 13 shapes, eight formats, chains and plain graphs. */
    .two_blocks_plain = 70000000,
    .one_block_cols = 16384,
    .two_blocks_rings = {2, 1},
    /* Section 7, 16 columns: two blocks help what is large. */
    .two_blocks_many = 20000000,
    /* Section 22: 16 columns of nvfp4; the shares are of a step in which one, two and three of the
     * four groups of warps have a tile. Other formats are faster or slower with both kernels. */
    .wide_inputs = 32u << 20,
    .wide_base = 4.5,
    .wide_unit = 1.62,
    .wide_step = 1.9,
    .wide_share = {0, 0.5, 0.55, 0.78, 1},
    .many_base = 4.2,
    .many_element = 31e-6,
};

#define AS_H200 "as on H200, not measured"

/* Compute capabilities as nvcc names them; shared memory of a block as the CUDA programming guide
 * lists it. */
static const struct architecture {
    int capability;
    unsigned shared_kib;
    const kf_gemv_tuning *tuning;
    const char *source;
} architectures[] = {
    {80, 163, &h200, AS_H200}, /* A100 */
    {86, 99, &h200, AS_H200},  /* RTX 30 */
    {87, 163, &h200, AS_H200}, /* Orin */
    {89, 99, &h200, AS_H200},  /* RTX 40, L40 */
    {90, 227, &h200, "H200: measured; H100: " AS_H200},
    {100, 227, &h200, AS_H200}, /* B200 */
    {103, 227, &h200, AS_H200}, /* B300 */
    {120, 99, &h200, AS_H200},  /* RTX 50 */
    {121, 99, &h200, AS_H200},  /* GB10 */
};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

static const struct architecture *find(int capability)
{
    for (size_t i = 0; i < ARCHITECTURES; i++)
        if (architectures[i].capability == capability) return &architectures[i];
    return NULL;
}

kf_gemv_machine kf_gemv_machine_from(int major, int minor, unsigned multiprocessors,
                                     unsigned shared_bytes)
{
    enum { OWN = 1024 }; /* bytes that a kernel has besides, in static arrays */
    const struct architecture *a = find(10 * major + minor);
    return (kf_gemv_machine){.multiprocessors = multiprocessors,
                             .most_shared = shared_bytes - OWN,
                             .has_clusters = major == 9 || major == 10,
                             .has_wgmma = major == 9,
                             .tuning = a ? a->tuning : &h200,
                             .tuning_source = a ? a->source : AS_H200};
}

kf_gemv_machine kf_gemv_machine_of(const char *arch, unsigned multiprocessors)
{
    const struct architecture *a = strncmp(arch, "sm_", 3) == 0 ? find(atoi(arch + 3)) : NULL;
    if (!a || !multiprocessors) return (kf_gemv_machine){0};
    return kf_gemv_machine_from(a->capability / 10, a->capability % 10, multiprocessors,
                                a->shared_kib * 1024);
}
