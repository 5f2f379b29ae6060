/* verb_words.h - a request as the command line of a verb; and verbs that answer here and now. */
#ifndef KERF_SERVE_WORDS_H
#define KERF_SERVE_WORDS_H

#include <jansson.h>

#include "serve/routes.h"

typedef struct word_list {
    char **word; /* ended by NULL */
    size_t count, room;
} word_list;

/* The verb, its options and operands for a body that was checked. Paths of models become those on
 * disk; a config is written to `config`, a path that must end in .json (NULL: this route takes
 * none); extra: options more, without their dashes, ended by NULL. KERF_E_IO: no such model. */
kerf_status words_of(const route *r, const json_t *body, const char *config,
                     const char *const *extra, word_list *out, kerf_error *err);
void words_free(word_list *l);

/* An empty file of a name that nobody could guess, for the config of a body; "" where it has none
 * or no file can be made. Its end: it is removed, and what a verb has said names config.json. */
enum { CONFIG_PATH = 40 };
void config_make(const json_t *body, char path[CONFIG_PATH]);
void config_end(const char *path, char *text);

/* What a body wants to compute on: 0: the processor, i: GPU i - 1. */
int device_of(const json_t *body);

/* Runs such a line in this process, one at a time: *text is its document, to be freed. For verbs
 * that take milliseconds. */
kerf_status run_here(const word_list *l, char **text, size_t *n, kerf_error *err);

/* The path of a model on disk, malloc'd. KERF_E_IO: no folder of --models has it, or it leads out
 * of them; with an errno in err->native: it cannot be looked at. */
kerf_status model_at(const char *name, char **path, kerf_error *err);
/* All models that may be read; one that cannot be looked at fails it all. */
kerf_status models_list(json_t **out, kerf_error *err);

#endif
