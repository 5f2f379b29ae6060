/* job.h - how a program follows a long call and stops it, and who does the work.
 *
 * Every long function takes a `const kerf_job *`; NULL stands for all zeros: nobody listens, nobody
 * cancels. A canceled call returns KERF_E_CANCELED and leaves nothing behind, as after any failure.
 */
#ifndef KERF_JOB_H
#define KERF_JOB_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kerf_event_kind {
    KERF_EVENT_PHASE,    /* a phase of known size begins; `done` is 0 again                        */
    KERF_EVENT_ITEM,     /* work on one item, mostly a tensor, begins                              */
    KERF_EVENT_PROGRESS, /* `done` has grown                                                       */
    KERF_EVENT_RESUME    /* what an earlier run left was looked at: `done` bytes of it are of use  */
} kerf_event_kind;

/* What has happened. Texts are valid during the call of `tell` alone. */
typedef struct kerf_event {
    kerf_event_kind kind;
    const char *what;   /* PHASE: its name; ITEM: the tensor; RESUME: path of the output; else NULL */
    const char *action; /* ITEM: what becomes of it ("nvfp4:4/6", "keep"); RESUME: why all is done
                           anew, NULL when it is not; else NULL                                     */
    uint64_t done, total; /* bytes of work of this phase; total 0: not known                        */
    uint64_t skipped;     /* the part of `done` that took no time, because an earlier run did it     */
} kerf_event;

typedef struct kerf_job {
    /* Called from any thread, but never by two at once. NULL: not wanted. Must not call the
     * library with the same job. */
    void (*tell)(void *ctx, const kerf_event *e);
    /* Anything but 0 stops the work. Asked for at least once a panel (a few MiB) and once a GPU
     * launch, from any thread, also by several at once. NULL: never canceled. */
    int (*cancel)(void *ctx);
    void *ctx;
} kerf_job;

/* An event as one line of JSON without a newline, schema kerf.progress/1, as --progress json prints
 * it: malloc'd, ends in a 0 that n (may be NULL) does not count, to be freed. Of PROGRESS the line
 * also says how fast it goes and how long the rest takes; 0: that is not known. */
KERF_API KERF_CHECK kerf_status kerf_event_write(const kerf_event *e, double bytes_per_s,
                                                 double left_s, char **text, size_t *n,
                                                 kerf_error *err);
/* The word of that line for a kind of event: all that there is to print when memory is lacking. */
KERF_API const char *kerf_event_name(kerf_event_kind kind);
/* The line behind the last event: `done` of its phase, and seconds from the beginning. */
KERF_API KERF_CHECK kerf_status kerf_event_write_end(uint64_t done, double seconds, char **text,
                                                     size_t *n, kerf_error *err);

/* A `cancel` for programs that stop a call by setting a flag: ctx is an int, owned by the caller, 0
 * until any thread or a signal handler sets it. Asking needs no lock and calls nothing, so a
 * language with an interpreter is not entered for it. */
KERF_API int kerf_cancel_flag(void *ctx);

/* Who does the work of a call. Each member takes whole tensors; several work at the same time. The
 * processor is a team of one, for one tensor is work for all its cores. A GPU should be two
 * members, each with a device handle of its own: while one tensor is copied to it, another is
 * encoded there. NULL, or no member: one member of all zeros. All members have the same `nan`. */
typedef struct kerf_team {
    const kerf_exec *member;
    size_t count;
} kerf_team;

#ifdef __cplusplus
}
#endif
#endif
