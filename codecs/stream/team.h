/* team.h - who does the work of a verb: the processor, or GPUs that share it by tensors.
 *
 * The processor is a team of one, for one tensor is work for all its cores. A GPU is opened twice:
 * while one tensor is read and copied to it, another is encoded there. */
#ifndef KERF_TEAM_H
#define KERF_TEAM_H

#include "args.h"

typedef struct team {
    kerf_exec *member; /* with what --nan, -j and --device say */
    size_t count;
} team;

/* What -j, --device and --nan say; team_close gives devices back, also after a failure. */
kerf_status team_open(team *t, const args *a, kerf_error *err);
void team_close(team *t);

/* For verbs that have one member: its --device is cpu, cuda or cuda:N. */
kerf_status args_exec(const args *a, kerf_exec *out, kerf_error *err);
void args_exec_close(kerf_exec *exec);

typedef struct team_work {
    /* Item i, by any member; several at a time when the team is larger than one. */
    kerf_status (*work)(void *ctx, size_t i, const kerf_exec *exec, kerf_error *err);
    /* After work, in the order of the items, one at a time; NULL: nothing is left to do. */
    kerf_status (*finish)(void *ctx, size_t i, kerf_error *err);
} team_work;

/* Items [0, count). After a failure no item is begun; the status is that of the first that failed,
 * in the order of items. */
kerf_status team_run(const team *t, size_t count, const team_work *w, void *ctx, kerf_error *err);

#endif
