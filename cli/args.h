/* args.h - the command line, read by the option table of a verb. */
#ifndef KERF_ARGS_H
#define KERF_ARGS_H

#include <kerf/layouts.h>

#include "cli.h"

/* Rows that several verbs share. */
extern const option option_layout, option_keep, option_only, option_nan, option_overwrite,
    option_shard_size, option_resume, option_zstd_level, option_threads, option_device, option_json,
    option_progress, option_wide, option_sha256, option_part;

/* Reads argv[0..argc) after the verb. "--" ends the options. *help is set when -h or --help was
 * seen; nothing else is checked then. */
kerf_status args_parse(const verb *v, int argc, char **argv, args **out, int *help,
                       kerf_error *err);
void args_free(args *a);

/* Refuses streams as files, and outputs that would replace a file that is read, or each other. */
kerf_status args_check_files(const args *a, kerf_error *err);

const verb *args_verb(const args *a);
size_t args_operands(const args *a);
const char *args_operand(const args *a, size_t i); /* NULL past the end */

/* Value of an option: the last one given, or the i-th; NULL when absent. */
const char *args_value(const args *a, const char *name);
const char *args_value_at(const args *a, const char *name, size_t i);
int args_has(const args *a, const char *name);

/* An integer in [lo, hi]; *out is left alone when the option is absent. */
kerf_status args_integer(const args *a, const char *name, int lo, int hi, int *out,
                         kerf_error *err);
/* Seconds, "0.5", in [lo, hi]; *out is left alone when the option is absent. */
kerf_status args_seconds(const args *a, const char *name, double lo, double hi, double *out,
                         kerf_error *err);
/* A size as "5GB", "500MB", "2GiB" or a number of bytes; *out is left alone when it is absent. */
kerf_status args_size(const args *a, const char *name, uint64_t *out, kerf_error *err);
/* Index of the value in a list of words ended by NULL; 0 when the option is absent. */
kerf_status args_choice(const args *a, const char *name, const char *const *words, int *out,
                        kerf_error *err);
/* What says the same here as an option of other programs, or a verb ("" as the verb); NULL. */
const char *peer_answer(const char *of, const char *word);
/* The layout that --layout names; kerf when it is absent. */
kerf_status args_layout(const args *a, const kerf_layout **out, kerf_error *err);
/* KERF_E_ARG unless the value of an output option ends in one of `ends` (ended by NULL), or, where
 * `folders`, may be a folder: it is one, ends in a slash, or ends in no dot and letters. */
kerf_status args_suffix(const args *a, const char *name, const char *const *ends, int folders,
                        kerf_error *err);

/* Writes OUT.sha256 beside the output of -o, where --sha256 was given. */
kerf_status args_checksums(const args *a, kerf_error *err);

/* The i-th option of a verb, its own first; NULL past the end. */
const option *verb_option(const verb *v, size_t i);
/* The one that a word names, "--name", "--name=value", "-x" or "-xvalue"; NULL: none. *value: what
 * the word itself has as its value; NULL: nothing. */
const option *find_option(const verb *v, const char *word, const char **value);

void print_verb_help(const verb *v, FILE *to);

#endif
