/* kerf_mpi.c - the program `kerf-mpi`: the command, by all ranks of an mpirun. */
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "desk.h"

enum { LETTERS = 1, DATA = 2, CHUNK = 1 << 28 };

/* Between looks for letters: little while they come, then ever more. A look takes 10 us, and ranks
 * that work are to have the cores. */
enum { LEAST_US = 200, WAITING_US = 5000, WORKING_US = 20000, TOLD_US = 200000 };

struct company company;
static desk own;
static coordinator *leader; /* of rank 0 */
static int may_go;          /* BYE has come */

/* --- letters and data ---------------------------------------------------------------------- */

static void exchange(void)
{
    char *p = own.p;
    const int other = (int)own.question.number;
    for (size_t at = 0; at < own.n; at += CHUNK) {
        const int n = (int)(own.n - at < CHUNK ? own.n - at : CHUNK);
        if (own.question.kind == ASK_COMBINE)
            MPI_Allreduce(MPI_IN_PLACE, p + at, n, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        else if (own.question.kind == ASK_SEND)
            MPI_Send(p + at, n, MPI_BYTE, other, DATA, MPI_COMM_WORLD);
        else
            MPI_Recv(p + at, n, MPI_BYTE, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* A letter from rank 0 to this one. */
static void take_letter(const letter *l)
{
    if (l->kind == BYE) may_go = 1;
    if (l->kind == STOP) atomic_store(&own.is_stopped, 1);
    pthread_mutex_lock(&own.lock);
    if (own.state == SENT) {
        if (l->kind == GO && own.question.kind != ASK_TAKE) exchange();
        own.answer = *l;
        own.state = ANSWERED;
        pthread_cond_signal(&own.answered);
    }
    pthread_mutex_unlock(&own.lock);
}

static void post_answer(unsigned to, const letter *l)
{
    if (to == 0)
        take_letter(l);
    else
        MPI_Send(l, (int)sizeof *l, MPI_BYTE, (int)to, LETTERS, MPI_COMM_WORLD);
}

static void post(const letter *l)
{
    if (leader)
        coordinator_take(leader, 0, l);
    else
        MPI_Send(l, (int)sizeof *l, MPI_BYTE, 0, LETTERS, MPI_COMM_WORLD);
}

static int read_letters(void)
{
    int there = 0, count = 0;
    MPI_Status from;
    for (;; count++) {
        letter l;
        MPI_Iprobe(MPI_ANY_SOURCE, LETTERS, MPI_COMM_WORLD, &there, &from);
        if (!there) return count;
        MPI_Recv(&l, (int)sizeof l, MPI_BYTE, from.MPI_SOURCE, LETTERS, MPI_COMM_WORLD, &from);
        if (leader)
            coordinator_take(leader, (unsigned)from.MPI_SOURCE, &l);
        else
            take_letter(&l);
    }
}

/* What the command wants to say. */
static int write_letters(void)
{
    letter l = {.kind = -1};
    pthread_mutex_lock(&own.lock);
    if (own.state == ASKED) {
        l = own.question;
        own.state = SENT;
    } else if (own.has_ended == 1) {
        l = own.end;
        own.has_ended = 2;
    }
    pthread_mutex_unlock(&own.lock);
    if (l.kind >= 0) post(&l);
    return l.kind >= 0;
}

static void carry_letters(void)
{
    uint64_t told = 0;
    long wait = LEAST_US, since = 0;
    while (!may_go) {
        if (read_letters() + write_letters() > 0) {
            wait = LEAST_US;
            continue;
        }
        const int waits = desk_wait(&own, wait);
        since += wait;
        const long most = leader || waits ? WAITING_US : WORKING_US;
        wait = 2 * wait < most ? 2 * wait : most;
        const letter l = {.kind = TELL_DONE,
                          .status = atomic_load(&own.phase),
                          .number = atomic_load(&own.done),
                          .skipped = atomic_load(&own.skipped)};
        if (leader || since < TOLD_US || l.number == told) continue;
        since = 0;
        told = l.number;
        post(&l);
    }
}

/* --- the command --------------------------------------------------------------------------- */

typedef struct command {
    int argc;
    char **argv;
} command;

static const char help[] =
    "Usage: mpirun -n N kerf-mpi VERB ...\n\n"
    "The verbs quantize, convert, dequantize, score and calibrate of kerf, with their options\n"
    "(kerf help VERB), by all ranks of an mpirun: the bytes that one process writes.\n\n"
    "Example:\n"
    "  mpirun -n 8 kerf-mpi quantize model/ -f nvfp4:4/6 --layout modelopt -o out/ --resume\n";

static int asks_for_help(const char *name)
{
    return name &&
           (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0);
}

static kerf_status check_verb(const char *name, kerf_error *err)
{
    static const char *const verbs[] = {"quantize", "convert", "dequantize", "score", "calibrate"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (name && strcmp(name, verbs[i]) == 0) return KERF_OK;
    return USAGE(err,
                 "mpirun ... kerf-mpi VERB: ranks share quantize, convert, dequantize, score and "
                 "calibrate; for the rest there is kerf, and kerf help VERB has their options");
}

static void *run(void *ctx)
{
    const command *c = ctx;
    kerf_error err = {0};
    int result = EXIT_OK;
    if (asks_for_help(c->argv[1])) {
        fputs(help, stdout);
    } else {
        result = check_verb(c->argv[1], &err);
        if (result == EXIT_OK) result = run_command(c->argc, c->argv, &err);
    }
    desk_end(&own, result, &err);
    return NULL;
}

/* Threads of one rank: those of its machine, divided among the ranks there, or those that it is
 * bound to. */
static int threads_of(void)
{
    MPI_Comm here;
    int ranks = 1;
    cpu_set_t set;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &ranks);
    MPI_Comm_rank(here, &company.place);
    MPI_Comm_free(&here);
    const int all = (int)sysconf(_SC_NPROCESSORS_ONLN) / ranks;
    const int bound = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : all;
    const int n = bound < all ? bound : all;
    return n > 1 ? n : 1;
}

/* Rank 0 speaks for all. Lines that have no memory to be printed otherwise go to descriptor 2, and
 * are seen from every rank. */
static void silence(void)
{
    if (own.ranks.rank == 0) return;
    FILE *nowhere = fopen("/dev/null", "w");
    if (nowhere) stderr = nowhere;
    if (!freopen("/dev/null", "w", stdout)) fclose(stdout);
}

static int run_all(int argc, char **argv, kerf_error *err)
{
    char threads[16];
    pthread_t runner;
    command c = {argc + 1, NULL};
    TRY(allocate(&c.argv, (size_t)argc + 3, sizeof *c.argv, err));
    snprintf(threads, sizeof threads, "-j%d", threads_of());
    c.argv[0] = argv[0];
    c.argv[1] = argv[1];
    c.argv[2] = threads; /* ahead of what is given: the last counts */
    for (int i = 2; i < argc; i++) c.argv[i + 1] = argv[i];
    if (own.ranks.rank == 0) TRY(coordinator_open(&leader, &own, post_answer, err));
    if (pthread_create(&runner, NULL, run, &c) != 0)
        return kerf_fail(err, KERF_E_NOMEM, "no thread for the command");
    carry_letters();
    pthread_join(runner, NULL);
    free(c.argv);
    return leader ? coordinator_result(leader, err) : EXIT_OK;
}

int main(int argc, char **argv)
{
    kerf_error err = {0};
    int level, rank, ranks;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return EXIT_INTERNAL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    desk_open(&own, (unsigned)rank, (unsigned)ranks);
    begin_command();
    silence();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* mpirun ends who is left over */
    int result = run_all(argc, argv, &err);
    result = finish_command(argc, argv, result, &err);
    if (!may_go) MPI_Abort(MPI_COMM_WORLD, result); /* it never began, and others wait */
    MPI_Finalize();
    return rank == 0 ? result : EXIT_OK;
}
