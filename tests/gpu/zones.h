/* zones.h - memory of a test on the GPU that shows what was written outside of it.
 *
 * Device memory is cut into zones with guards of NaN bytes around each; under a memory checker
 * every zone is an allocation of its own and of exactly its size. With `gpu` NULL all of it is the
 * memory of the processor, and the same tests run over the processor's kernels. The program names
 * itself in PROGRAM. */
#ifndef KERF_TESTS_ZONES_H
#define KERF_TESTS_ZONES_H

#include "base/base.h"

#include <kerf/cuda.h>

#include "gpu/numbers.h"
#include "gpu/or_die.h"

#include <math.h>
#include <string.h>

static kerf_device *gpu; /* NULL: the processor */
static int separate;     /* each zone is an allocation of its own */
static cudaStream_t stream;

static void *allocate(size_t n)
{
    void *p = calloc(n ? n : 1, 1);
    if (!p) die("host memory", "none left");
    return p;
}

/* --- zones --------------------------------------------------------------------------------------
 */

enum { GUARD = 1024, POISON = 0xff, MANY_ZONES = 256 };
#define ARENA_BYTES ((size_t)768 << 20)

typedef struct zone {
    uint8_t *p;
    size_t n, before, after; /* guard bytes around it */
} zone;

static struct {
    uint8_t *p;
    size_t used;
    void *own[MANY_ZONES];
    int owned;
} arena;

typedef struct mark {
    size_t used;
    int owned;
} mark;

static mark zones_mark(void)
{
    return (mark){arena.used, arena.owned};
}

static void wait_for_device(void)
{
    if (gpu) need_cuda(cudaStreamSynchronize(stream), "kernels");
}

static void zones_free(mark m)
{
    wait_for_device();
    while (arena.owned > m.owned) need_cuda(cudaFree(arena.own[--arena.owned]), "free");
    arena.used = m.used;
}

static uint8_t *raw_memory(size_t n)
{
    void *p;
    if (!gpu) return allocate(n);
    need_cuda(cudaMalloc(&p, n ? n : 1), "device memory");
    return p;
}

/* n bytes that begin `skew` bytes after a multiple of 256. */
static zone zone_new(size_t n, size_t skew)
{
    if (separate) {
        if (arena.owned == MANY_ZONES) die("zones", "too many");
        uint8_t *p = raw_memory(skew + n);
        arena.own[arena.owned++] = p;
        return (zone){p + skew, n, 0, 0};
    }
    if (!arena.p) arena.p = raw_memory(ARENA_BYTES);
    size_t room = (GUARD + skew + n + GUARD + 255) / 256 * 256;
    if (room > ARENA_BYTES - arena.used) die("zones", "the arena is full");
    zone z = {arena.p + arena.used + GUARD + skew, n, GUARD + skew, room - GUARD - skew - n};
    arena.used += room;
    return z;
}

/* On the stream of the kernels: elsewhere, a copy may return before its bytes have arrived. */
static void copy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    if (!gpu)
        memcpy(to, from, n);
    else if (n)
        need_cuda(cudaMemcpyAsync(to, from, n, kind, stream), "copy");
    wait_for_device();
}

/* Fills a zone (data NULL: with poison) and its guards. */
static void zone_write(zone z, const void *data)
{
    size_t all = z.before + z.n + z.after;
    uint8_t *image = allocate(all);
    memset(image, POISON, all);
    if (data) memcpy(image + z.before, data, z.n);
    copy(z.p - z.before, image, all, cudaMemcpyHostToDevice);
    free(image);
}

/* Reads a zone; 0 when a guard was written to. */
static int zone_read(zone z, void *data)
{
    size_t all = z.before + z.n + z.after, spoiled = 0;
    uint8_t *image = allocate(all);
    copy(image, z.p - z.before, all, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < z.before; i++) spoiled += image[i] != POISON;
    for (size_t i = all - z.after; i < all; i++) spoiled += image[i] != POISON;
    if (data) memcpy(data, image + z.before, z.n);
    free(image);
    return spoiled == 0;
}

static kerf_cspan span_of(zone z)
{
    return (kerf_cspan){z.p, z.n};
}

/* --- numbers ------------------------------------------------------------------------------------
 */

/* About normal, standard deviation 1. */
static float bell(uint64_t seed)
{
    uint64_t r = mix(seed);
    int sum = 0;
    for (int k = 0; k < 4; k++) sum += (int16_t)(r >> 16 * k);
    return (float)sum * 2.643e-5f;
}

#endif
