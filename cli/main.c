/* main.c - the command: finds the verb, runs it, prints its failure, and finds the exit code. */
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <jansson.h>

#include "args.h"
#include "complete.h"
#include "manual.h"
#include "output.h"
#include "terminal.h"

static const verb verb_help, verb_version;

static const verb *const verbs[] = {
    &verb_formats, &verb_inspect, &verb_quantize, &verb_convert,   &verb_dequantize,
    &verb_merge,   &verb_score,   &verb_verify,   &verb_selftest,  &verb_hardware,
    &verb_predict, &verb_bench,   &verb_compare,  &verb_calibrate, &verb_eval,
    &verb_advise,  &verb_monitor, &verb_serve,    &verb_help,      &verb_version,
};
enum { VERBS = sizeof verbs / sizeof *verbs };

const verb *verb_at(size_t i)
{
    return i < VERBS ? verbs[i] : NULL;
}

static const char exit_codes[] =
    "Exit codes: 0 ok, 1 something does not hold (verify, inspect, eval, compare, selftest,\n"
    "quantize --recipe), 2 usage, 3 bad input, 4 I/O or an output that exists, 5 limit or\n"
    "memory, 6 no such device, 70 internal, 128 + N signal N.\n";

static void print_overview(FILE *to)
{
    fprintf(to,
            "Usage: kerf VERB [operands] [options]\n\n"
            "Quantizes weight files to few-bit number formats and says what each one costs.\n\n");
    for (size_t i = 0; i < VERBS; i++)
        fprintf(to, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(to, "\nkerf help VERB shows operands, options and examples of a verb.\n%s", exit_codes);
}

static kerf_status find_verb(const char *name, const verb **out, kerf_error *err)
{
    const char *words[VERBS + 1] = {NULL};
    *out = NULL;
    for (size_t i = 0; i < VERBS; i++) {
        words[i] = verbs[i]->name;
        if (strcmp(name, verbs[i]->name) == 0) *out = verbs[i];
    }
    if (*out) return KERF_OK;
    const char *answer = peer_answer("", name), *near = kerf_nearest_word(name, words);
    if (answer) return USAGE(err, "there is no verb %.40s: %s", name, answer);
    if (near) return USAGE(err, "unknown verb %.40s, did you mean %s?", name, near);
    return USAGE(err, "unknown verb %.40s; kerf help lists them", name);
}

/* --- help and version ---------------------------------------------------------------------- */

static int run_help(const args *a, kerf_error *err)
{
    const char *name = args_operand(a, 0);
    const int man = args_has(a, "man");
    const verb *v = NULL;
    if (name) TRY(find_verb(name, &v, err));
    if (v) {
        (man ? print_verb_manual : print_verb_help)(v, stdout);
    } else if (man) {
        print_manual(exit_codes, stdout);
    } else {
        print_overview(stdout);
    }
    return EXIT_OK;
}

static int run_version(const args *a, kerf_error *err)
{
    uint32_t library = kerf_version();
    char text[32];
    snprintf(text, sizeof text, "%u.%u.%u", library >> 16, library >> 8 & 255u, library & 255u);
    if (!args_has(a, "json")) {
        printf("kerf %s (library %s, %zu formats, backends", KERF_VERSION_TEXT, text,
               kerf_format_count());
        for (size_t i = 0; i < kerf_backend_count(); i++) printf(" %s", kerf_backend_at(i));
        printf(")\n");
        return EXIT_OK;
    }
    json_t *backends = json_array();
    for (size_t i = 0; i < kerf_backend_count(); i++)
        json_array_append_new(backends, json_string(kerf_backend_at(i)));
    json_t *doc = json_pack("{s:s, s:s, s:s, s:I, s:o}", "schema", "kerf.version/1", "version",
                            KERF_VERSION_TEXT, "library", text, "formats",
                            (json_int_t)kerf_format_count(), "backends", backends);
    char *document = json_dumps(doc, JSON_INDENT(2));
    json_decref(doc);
    if (!document) return kerf_fail(err, KERF_E_NOMEM, "no memory for the JSON document");
    return put_document(KERF_OK, &document, err);
}

static const option help_options[] = {
    {"man", 0, NULL, "as a page for man"},
    {NULL, 0, NULL, NULL},
};

static const verb verb_help = {
    .name = "help",
    .summary = "this list, or the help of one verb",
    .usage = "[VERB] [--man]",
    .details = "Lists the verbs, or shows operands, options and examples of one.",
    .examples = "  kerf help quantize\n"
                "  kerf help quantize --man | man -l -\n",
    .options = help_options,
    .operands_max = 1,
    .run = run_help,
};

static const verb verb_version = {
    .name = "version",
    .summary = "version of command and library",
    .usage = "[--json]",
    .details = "Shows the version of the command, of the library and the backends built in.",
    .examples = "  kerf version --json\n",
    .shared = {&option_json},
    .run = run_version,
};

/* --- run ----------------------------------------------------------------------------------- */

static int run_verb(const verb *v, int argc, char **argv, kerf_error *err)
{
    args *a = NULL;
    int help = 0;
    TRY(args_parse(v, argc, argv, &a, &help, err));
    if (help) {
        print_verb_help(v, stdout);
        return EXIT_OK;
    }
    const char *progress = args_value(a, "progress");
    set_wide(args_has(a, "wide"));
    set_quiet(args_has(a, "quiet") || (progress && strcmp(progress, "json") == 0));
    int result = args_check_files(a, err);
    if (result == EXIT_OK) result = v->run(a, err);
    args_free(a);
    return result;
}

int run_command(int argc, char **argv, kerf_error *err)
{
    if (argc < 2) {
        print_overview(stderr);
        return USAGE(err, "no verb given; try kerf help");
    }
    const char *word = argv[1];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) word = "help";
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) word = "version";
    if (strcmp(word, "complete") == 0) { /* its words are anything */
        complete_words(argc - 2, argv + 2);
        return EXIT_OK;
    }
    const verb *v = NULL;
    TRY(find_verb(word, &v, err));
    int result = run_verb(v, argc - 2, argv + 2, err);
    if (result < 0) return result;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno));
    }
    return result;
}

/* All shards of a source and of an output are open at once. */
static void raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* The panels of one tensor are the memory for those of the next: giving it back in between costs a
 * tenth of a quantize in page faults. */
static void keep_memory(void)
{
#if defined(M_MMAP_THRESHOLD) && defined(M_TRIM_THRESHOLD)
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
#endif
}

/* Whether a document was asked for; the command line need not be right to say so. */
static int asks_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0) return 1;
    return 0;
}

void begin_command(void)
{
    keep_memory();
    guard_json_memory();
    catch_signals();
    raise_file_limit();
    begin_exit_guard();
}

int finish_command(int argc, char **argv, int result, const kerf_error *err)
{
    char text[sizeof err->text];
    end_exit_guard();
    if (result >= 0) return result;
    const kerf_status s = (kerf_status)result;
    kerf_text_printable(err->text, text, sizeof text);
    fprintf(stderr, "%skerf:%s %s%s\n", painted(2, PAINT_BAD), painted(2, PAINT_END), text,
            written_text());
    if (asks_json(argc, argv)) print_failure(s, exit_code(s), text);
    return exit_code(s);
}
