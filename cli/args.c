/* args.c - reads a command line by the option table of its verb, and prints that table as help:
 * what is accepted and what is documented are the same rows. */
#include "args.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct given {
    const option *option;
    const char *value;
} given;

struct args {
    const verb *verb;
    given *given;
    size_t given_count;
    const char **operand;
    size_t operand_count;
};

/* --- shared options ------------------------------------------------------------------------ */

const option option_keep = {"keep", 0, "GLOB",
                            "leave matching tensors in their source type (repeatable)"};
const option option_only = {"only", 0, "GLOB",
                            "consider matching tensors only, keep the others (repeatable)"};
const option option_layout = {"layout", 0, "NAME",
                              "how tensors are named and arranged in the output: kerf (default), "
                              "or what other programs load; kerf formats lists them"};
const option option_nan = {"nan", 0, "error|zero|saturate",
                           "NaN and Inf in the source: refuse (default), write 0, or clamp Inf to "
                           "the largest finite value"};
const option option_overwrite = {"overwrite", 'y', NULL, "replace an existing output"};
const option option_shard_size = {
    "shard-size", 0, "SIZE",
    "new shards of at most SIZE, 5GB or 500MB (decimal) or 2GiB; a weight stays in one (default: "
    "the shards of IN)"};
const option option_resume = {
    "resume", 0, NULL,
    "go on where a killed run with the same source and options stopped, after comparing what it "
    "left; leave what is finished to the next when this one ends early"};
const option option_part = {"part", 0, "I/N",
                            "write part I of N of the files of the folder OUT, for kerf merge OUT; "
                            "other processes and machines write the others"};
const option option_zstd_level = {"zstd-level", 0, "N",
                                  "compression of .zst outputs, 1 to 22 (default: 3)"};
const option option_threads = {"threads", 'j', "N",
                               "threads (default: all cores); never changes a byte of the result"};
const option option_device = {"device", 0, "cpu|cuda[:N|:N,M|:all]",
                              "where to compute (default: cpu); N counts GPUs from 0"};
const option option_json = {"json", 0, NULL,
                            "one JSON document on standard output instead of text"};
const option option_progress = {"progress", 0, "auto|bar|json|none",
                                "auto (default): a bar on a terminal; json: one object a line on "
                                "standard error, with schema kerf.progress/1 and event (phase, "
                                "tensor, bytes, resume or end)"};

const option option_wide = {"wide", 0, NULL,
                            "every column of a table, in full, whatever the window"};

const option option_sha256 = {"sha256", 0, NULL,
                              "write OUT.sha256 beside OUT, for sha256sum -c in its folder"};

/* Every verb has this one, and those that show progress the other. */
static const option option_quiet = {"quiet", 'q', NULL, "nothing but failures on standard error"};
static const option option_verbose = {"verbose", 'v', NULL,
                                      "a line on standard error for every tensor that is begun"};

/* --- parse --------------------------------------------------------------------------------- */

const option *verb_option(const verb *v, size_t i)
{
    const size_t shared = sizeof v->shared / sizeof *v->shared;
    for (const option *o = v->options; o && o->name; o++)
        if (i-- == 0) return o;
    int shows_progress = 0;
    for (size_t k = 0; k < shared && v->shared[k]; k++) {
        if (i-- == 0) return v->shared[k];
        shows_progress |= v->shared[k] == &option_progress;
    }
    if (i == 0) return &option_quiet;
    return i == 1 && shows_progress ? &option_verbose : NULL;
}

const option *find_option(const verb *v, const char *word, const char **value)
{
    const int is_long = word[1] == '-';
    const size_t n = is_long ? strcspn(word + 2, "=") : 1;
    const option *o;
    *value = is_long ? word + 2 + n + (word[2 + n] == '=') : word + 2;
    if (!word[is_long ? 2 + n : 2]) *value = NULL;
    for (size_t i = 0; (o = verb_option(v, i)) != NULL; i++) {
        if (is_long ? strlen(o->name) == n && strncmp(o->name, word + 2, n) == 0
                    : o->letter && o->letter == word[1])
            return o;
    }
    return NULL;
}

const char *peer_answer(const char *of, const char *word)
{
    static const struct {
        const char *verb, *word, *answer;
    } peers[] = {
#define PEER(verb, word, answer) {verb, word, answer},
#include "peer_words.def"
    };
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++)
        if (strcmp(peers[i].verb, of) == 0 && kerf_names_match(peers[i].word, word))
            return peers[i].answer;
    return NULL;
}

static kerf_status fail_unknown(const verb *v, const char *word, kerf_error *err)
{
    const char *words[64] = {NULL};
    const option *o;
    if (word[1] != '-')
        return USAGE(err, "%s: unknown option %.20s; see kerf help %s", v->name, word, v->name);
    for (size_t i = 0; i < 63 && (o = verb_option(v, i)) != NULL; i++) words[i] = o->name;
    char text[64];
    const size_t n = strcspn(word + 2, "=");
    snprintf(text, sizeof text, "%.*s", (int)(n < 60 ? n : 60), word + 2);
    const char *answer = peer_answer(v->name, text), *near = kerf_nearest_word(text, words);
    if (answer) return USAGE(err, "%s: there is no --%s: %s", v->name, text, answer);
    if (near) return USAGE(err, "%s: unknown option --%s, did you mean --%s?", v->name, text, near);
    return USAGE(err, "%s: unknown option --%s; see kerf help %s", v->name, text, v->name);
}

/* Takes "--name", "--name=value", "--name" "value", and the same with "-x", whose value may follow
 * at once; switches do not cluster. *used counts the words taken. */
static kerf_status take_option(args *a, int argc, char **argv, int *used, kerf_error *err)
{
    const verb *v = a->verb;
    const int is_long = argv[0][1] == '-';
    const char *value;
    const option *o = find_option(v, argv[0], &value);
    char name[80];
    if (!o) return fail_unknown(v, argv[0], err);
    snprintf(name, sizeof name, is_long ? "--%s" : "-%.1s", is_long ? o->name : &o->letter);
    if (!o->value && value)
        return USAGE(err, "%s: %s takes no value%s", v->name, name,
                     is_long ? "" : "; write each switch by itself");
    *used = 1 + (o->value && !value);
    if (*used > argc) return USAGE(err, "%s: %s needs %s", v->name, name, o->value);
    a->given[a->given_count++] = (given){o, *used > 1 ? argv[1] : value};
    return KERF_OK;
}

static int asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) return 1;
    return 0;
}

static kerf_status parse_words(args *a, int argc, char **argv, kerf_error *err)
{
    int only_operands = 0;
    for (int i = 0, used = 1; i < argc; i += used) {
        const char *word = argv[i];
        used = 1;
        if (only_operands || word[0] != '-' || !word[1]) {
            a->operand[a->operand_count++] = word;
        } else if (strcmp(word, "--") == 0) {
            only_operands = 1;
        } else {
            TRY(take_option(a, argc - i, argv + i, &used, err));
        }
    }
    const verb *v = a->verb;
    if (a->operand_count < v->operands_min)
        return USAGE(err, "%s: too few operands; usage: kerf %s %s", v->name, v->name, v->usage);
    if (a->operand_count > v->operands_max)
        return USAGE(err, "%s: one operand too many: %.100s; usage: kerf %s %s", v->name,
                     a->operand[v->operands_max], v->name, v->usage);
    return KERF_OK;
}

kerf_status args_parse(const verb *v, int argc, char **argv, args **out, int *help, kerf_error *err)
{
    *out = NULL;
    *help = asks_help(argc, argv);
    if (*help) return KERF_OK;
    args *a = NULL;
    TRY(allocate(&a, 1, sizeof *a, err));
    a->verb = v;
    kerf_status s = allocate(&a->given, (size_t)argc, sizeof *a->given, err);
    if (s == KERF_OK) s = allocate(&a->operand, (size_t)argc, sizeof *a->operand, err);
    if (s == KERF_OK) s = parse_words(a, argc, argv, err);
    if (s != KERF_OK) {
        args_free(a);
        return s;
    }
    *out = a;
    return KERF_OK;
}

void args_free(args *a)
{
    if (!a) return;
    free(a->given);
    free(a->operand);
    free(a);
}

/* --- look up ------------------------------------------------------------------------------- */

const verb *args_verb(const args *a)
{
    return a->verb;
}

size_t args_operands(const args *a)
{
    return a->operand_count;
}

const char *args_operand(const args *a, size_t i)
{
    return i < a->operand_count ? a->operand[i] : NULL;
}

const char *args_value_at(const args *a, const char *name, size_t i)
{
    for (size_t k = 0; k < a->given_count; k++)
        if (strcmp(a->given[k].option->name, name) == 0 && i-- == 0) return a->given[k].value;
    return NULL;
}

const char *args_value(const args *a, const char *name)
{
    for (size_t k = a->given_count; k-- > 0;)
        if (strcmp(a->given[k].option->name, name) == 0) return a->given[k].value;
    return NULL;
}

int args_has(const args *a, const char *name)
{
    for (size_t k = 0; k < a->given_count; k++)
        if (strcmp(a->given[k].option->name, name) == 0) return 1;
    return 0;
}

kerf_status args_integer(const args *a, const char *name, int lo, int hi, int *out, kerf_error *err)
{
    const char *text = args_value(a, name);
    if (!text) return KERF_OK;
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < lo || value > hi)
        return USAGE(err, "--%s %.40s: expected a whole number from %d to %d", name, text, lo, hi);
    *out = (int)value;
    return KERF_OK;
}

kerf_status args_seconds(const args *a, const char *name, double lo, double hi, double *out,
                         kerf_error *err)
{
    const char *text = args_value(a, name);
    if (!text) return KERF_OK;
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= lo && value <= hi))
        return USAGE(err, "--%s %.40s: expected seconds from %g to %g", name, text, lo, hi);
    *out = value;
    return KERF_OK;
}

kerf_status args_size(const args *a, const char *name, uint64_t *out, kerf_error *err)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"KB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"KiB", 1ull << 10},
                 {"MiB", 1ull << 20},
                 {"GiB", 1ull << 30}};
    const char *text = args_value(a, name);
    char *end = NULL;
    if (!text) return KERF_OK;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        if (errno || *text < '0' || *text > '9' || value < (i ? 1 : 1000000)) break; /* 5 what? */
        if (value > (UINT64_MAX >> 1) / units[i].bytes) break;
        *out = value * units[i].bytes;
        return KERF_OK;
    }
    return USAGE(err, "--%s %.40s: expected a whole number and MB, GB, MiB or GiB, as 5GB", name,
                 text);
}

kerf_status args_choice(const args *a, const char *name, const char *const *words, int *out,
                        kerf_error *err)
{
    const char *text = args_value(a, name);
    kerf_codec type; /* other names that a type of numbers has */
    *out = 0;
    if (!text) return KERF_OK;
    const char *known = kerf_codec_find(text, &type, NULL) == KERF_OK ? type.format->name : text;
    for (; words[*out]; ++*out)
        if (kerf_names_match(words[*out], known)) return KERF_OK;
    char list[160] = "";
    for (int i = 0; words[i]; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", words[i]);
    }
    return USAGE(err, "--%s %.40s: expected one of %s", name, text, list);
}

kerf_status args_layout(const args *a, const kerf_layout **out, kerf_error *err)
{
    const char *text = args_value(a, "layout");
    *out = kerf_layout_at(0);
    return text ? kerf_layout_get(text, out, err) : KERF_OK;
}

/* --- help ---------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 32, HELP_WIDTH = 98 };

/* Prints text from column HELP_COLUMN on, broken at spaces. */
static void print_wrapped(const char *text, FILE *to)
{
    const size_t room = HELP_WIDTH - HELP_COLUMN;
    while (strlen(text) > room) {
        size_t n = room;
        while (n > 0 && text[n] != ' ') n--;
        if (n == 0) break;
        fprintf(to, "%.*s\n%*s", (int)n, text, HELP_COLUMN, "");
        text += n + 1;
    }
    fprintf(to, "%s\n", text);
}

static void print_option(const option *o, FILE *to)
{
    char left[80];
    char letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
    if (strlen(left) + 1 < HELP_COLUMN) {
        fprintf(to, "%-*s", HELP_COLUMN, left);
    } else {
        fprintf(to, "%s\n%*s", left, HELP_COLUMN, "");
    }
    print_wrapped(o->help, to);
}

void print_verb_help(const verb *v, FILE *to)
{
    static const option help = {"help", 'h', NULL, "this text"};
    fprintf(to, "Usage: kerf %s %s\n\n%s\n", v->name, v->usage, v->details);
    fprintf(to, "\nOptions:\n");
    const option *o;
    for (size_t i = 0; (o = verb_option(v, i)) != NULL; i++)
        if (o->help) print_option(o, to);
    print_option(&help, to);
    fprintf(to, "\nExamples:\n%s", v->examples);
}
