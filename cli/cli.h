/* cli.h - what every verb of the command shares: how it is declared, how it fails, how it ends. */
#ifndef KERF_CLI_H
#define KERF_CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kerf/codec.h>
#include <kerf/job.h>
#include <kerf/ranks.h>
#include <kerf/words.h>

/* Set where several processes make one call (mpi/); all zeros: this one is alone. */
extern struct company {
    const kerf_ranks *ranks;
    void (*hear)(const kerf_job *job, kerf_event *e); /* may change what is shown */
    int (*cancel)(void *ctx);
    int place; /* among the ranks on this machine */
} company;
#define IS_FIRST (!company.ranks || company.ranks->rank == 0)

/* Documented exit codes of the command. */
enum {
    EXIT_OK = 0,
    EXIT_MISMATCH = 1,
    EXIT_USAGE = 2,
    EXIT_INPUT = 3,
    EXIT_IO = 4,
    EXIT_LIMIT = 5,
    EXIT_DEVICE = 6,
    EXIT_INTERNAL = 70
};

/* One option; the same row parses it and prints its help. */
typedef struct option {
    const char *name;
    char letter;       /* 0: no short form                                 */
    const char *value; /* what stands for the value in help; NULL: a switch */
    const char *help;  /* NULL: an earlier name, still understood but not shown */
} option;

typedef struct args args;

/* A verb returns EXIT_OK, EXIT_MISMATCH, or a kerf_status with the text in err. */
typedef struct verb {
    const char *name;
    const char *summary;
    const char *usage; /* operands and main options, after the verb        */
    const char *details;
    const char *examples;
    const option *options;    /* its own, ended by an empty row; NULL: none  */
    const option *shared[18]; /* those it has in common with others          */
    /* Names of the options that are paths. Operands are read; what is in both lists is a file that
     * the verb itself has written before, a cache. */
    const char *reads[10], *writes[4];
    unsigned operands_min, operands_max;
    int operands_are_words; /* and no files */
    int (*run)(const args *a, kerf_error *err);
} verb;

extern const verb verb_formats, verb_inspect, verb_quantize, verb_convert, verb_dequantize,
    verb_score, verb_verify, verb_selftest, verb_hardware, verb_predict, verb_bench, verb_compare,
    verb_calibrate, verb_eval, verb_advise, verb_monitor, verb_serve, verb_merge;

/* All verbs, in the order of the overview; NULL past the end. */
const verb *verb_at(size_t i);

/* A failure that a person can mend on the command line: exit code 2. The text is one line: what,
 * where, how to fix it. */
#define USAGE(err, ...) kerf_fail(err, KERF_E_ARG, __VA_ARGS__)

/* Passes a failure on to the caller. */
#define TRY(expr)                                     \
    do {                                              \
        kerf_status try_status = (expr);              \
        if (try_status != KERF_OK) return try_status; \
    } while (0)

int exit_code(kerf_status s);

/* The command, from any main: its beginning, the work, and the failure and exit code of that. */
void begin_command(void);
int run_command(int argc, char **argv, kerf_error *err);
int finish_command(int argc, char **argv, int result, const kerf_error *err);

/* Lets jansson end the command with exit code 5 when there is no memory: a document that is read or
 * written then cannot lose a part, or be taken for damaged. */
void guard_json_memory(void);

/* From here to end_guard, a library that calls exit (OpenMP's, when it gets no thread or no memory)
 * ends the command as a lack of memory does: nothing is left behind, exit code 5. */
void begin_exit_guard(void);
void end_exit_guard(void);

/* Installs handlers that remove temporaries before the command dies of a signal. */
void catch_signals(void);

/* malloc'd zeros or KERF_E_NOMEM. */
kerf_status allocate(void *out, size_t count, size_t size, kerf_error *err);

#endif
