/* jobs.h - what takes long: a queue for each device, each job a run of the command in a process of
 * its own, so that whatever a file does to its reader, the server and the other jobs go on. */
#ifndef KERF_SERVE_JOBS_H
#define KERF_SERVE_JOBS_H

#include "serve/streams.h"
#include "serve/verb_words.h"

typedef enum job_state {
    JOB_QUEUED,
    JOB_RUNNING,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELED,
    JOB_CUT, /* by the end of the server: the next one goes on with it */
    JOB_STATES
} job_state;

/* Takes up what an earlier server had not finished. */
kerf_status jobs_open(kerf_error *err);
/* Ends: running jobs may go on for so long, then they are cut. */
void jobs_close(double drain_s);

/* Adds a job for a checked body: *id, from 1, is the next one where it is 0. KERF_E_LIMIT: there
 * are too many; KERF_E_IO: no such model. */
kerf_status job_submit(const route *r, const json_t *body, int *id, kerf_error *err);

/* The job as a document (schema kerf.job/1); NULL: there is none of this number. */
json_t *job_json(int id);
json_t *jobs_json(void);
/* Stops it, or forgets one that has ended. 0: there is none. */
int job_cancel(int id);
/* What its verb printed, malloc'd; NULL: nothing (yet). *state is set where there is the job, whose
 * number is 0 else. */
char *job_result(int id, size_t *n, job_state *state, const char **name);
/* Its events; answers, or returns -1: there is none. */
int job_follow(request *r, int id);
/* The result of a job of this route that has ended well with just this body; NULL: none. *id: of
 * one that is on its way, or 0. */
char *job_known(const char *name, const json_t *body, int *id);

const char *job_state_name(job_state s);
/* How many are in each state. */
void jobs_count(size_t count[JOB_STATES]);

/* The choices of an advice under every budget from the least to the most that makes a difference,
 * in steps of 0.01 bits: [{"from": bits, ..., "picks": [index of the group's candidate]}], of which
 * each holds up to the next one. */
kerf_status advice_solutions(json_t *advice, json_t **all, kerf_error *err);

#endif
