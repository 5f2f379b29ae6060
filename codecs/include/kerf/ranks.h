/* ranks.h - one call that several processes do together, on one machine or on many.
 *
 * Each process makes the same call with the same source and options, and gives it a kerf_ranks: who
 * it is, and how it reaches the others. The library says what is asked of them; how messages travel
 * is the program's affair (kerf-mpi has them go by MPI). Nothing is summed on the way, so no result
 * depends on how many there are: what several ranks have found is put together, each number from
 * the one rank that has it, and sums of floating point walk from rank to rank in the order of one
 * process.
 *
 * The functions are called by the thread that made the call, by all ranks in the same order, save
 * for `take`. KERF_E_CANCELED: another rank has failed. */
#ifndef KERF_RANKS_H
#define KERF_RANKS_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_ranks {
    unsigned rank, ranks; /* rank counts from 0 */
    /* The next of the numbers 0 to count - 1 that no rank has taken; count when there is none.
     * Every rank asks until it gets that; between two such series stands a `combine`. */
    kerf_status (*take)(void *ctx, size_t count, size_t *i, kerf_error *err);
    /* Every bit of p[n] that is set in one rank is set in all. Waits for all; n 0 does only that.
     */
    kerf_status (*combine)(void *ctx, void *p, size_t n, kerf_error *err);
    /* n bytes from one rank to another, which receives as many. */
    kerf_status (*send)(void *ctx, unsigned to, const void *p, size_t n, kerf_error *err);
    kerf_status (*receive)(void *ctx, unsigned from, void *p, size_t n, kerf_error *err);
    void *ctx;
} kerf_ranks;

#ifdef __cplusplus
}
#endif
#endif
