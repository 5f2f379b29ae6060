/* base.h - what every room of the library stands on: failing with a text, arithmetic on sizes
 * that cannot wrap, memory, threads. Knows nothing of formats or files. */
#ifndef KERF_BASE_H
#define KERF_BASE_H

#include <kerf/codec.h>

/* Records a failure in err (which may be NULL) and returns its status, so that a failing function
 * ends in `return kf_fail(err, KERF_E_DATA, offset, "...", ...)`. offset: see kerf_error. */
kerf_status kf_fail(kerf_error *err, kerf_status s, uint64_t offset, const char *fmt, ...)
    KERF_PRINTF(4, 5);

/* The same for a failed system call: KERF_E_IO, or KERF_E_NOMEM for ENOMEM, with errno and its text
 * appended. */
kerf_status kf_fail_errno(kerf_error *err, int errnum, const char *fmt, ...) KERF_PRINTF(3, 4);

#define KF_NOWHERE UINT64_MAX

/* The path of a model cannot be looked at: kf_fail_errno, and where it is an address or looks like
 * a name on a hub, how a model gets here from there. */
kerf_status kf_fail_no_model(kerf_error *err, int errnum, const char *path);

/* Puts "where: " before the text of a failure. Returns s. */
kerf_status kf_fail_at(kerf_error *err, kerf_status s, const char *where);

/* For "%.*s" in error texts: as much of a name as leaves room for the reason, in whole characters.
 */
int kf_cut(const char *name);
#define KF_NAME(s) kf_cut(s), (s)

/* The number of a content (kerf_hash) as files have it: 16 hexadecimal digits, in small letters. 0:
 * text is NULL or something else. */
int kf_content_read(const char *text, uint64_t *number);

/* Passes a failure on to the caller. */
#define KF_TRY(expr)                                        \
    do {                                                    \
        kerf_status kf_try_status = (expr);                 \
        if (kf_try_status != KERF_OK) return kf_try_status; \
    } while (0)

/* Sizes that came from outside are added and multiplied by these only: 1 when the result fits. */
static inline int kf_add_ok(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline int kf_mul_ok(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline uint64_t kf_div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}
/* The columns of a tensor: a scalar is one row of one. */
static inline uint64_t kf_last_dim(const kerf_shape *s)
{
    return s->rank ? s->dim[s->rank - 1] : 1;
}
static inline uint64_t kf_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* malloc(a * b), or NULL when that overflows or there is no memory. */
void *kf_alloc(uint64_t a, uint64_t b);
void *kf_alloc_zero(uint64_t a, uint64_t b);
/* Sets the pointer that `out` points to: zeroed memory for count x size bytes, or KERF_E_NOMEM. */
kerf_status kf_allocate(void *out, uint64_t count, uint64_t size, kerf_error *err);

int kf_has_suffix(const char *text, const char *suffix);

/* Seconds of a clock that never goes back. */
double kf_now_s(void);

/* Calls task(ctx, i) for i in [0, n) on up to `threads` threads (0: all cores). Items are handed
 * out in order; each is run once. A task that returns something else than KERF_OK stops the
 * handing out; the status of the smallest failed item is returned, so that failures do not depend
 * on the number of threads. */
kerf_status kf_parallel(uint64_t n, int threads, kerf_status (*task)(void *ctx, uint64_t i),
                        void *ctx);
int kf_thread_count(int threads);

/* memcpy by up to `threads` threads, where n is worth more than one. */
void kf_copy_bytes(int threads, void *to, const void *from, uint64_t n);

#endif
