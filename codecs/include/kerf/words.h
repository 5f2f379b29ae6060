/* words.h - what programs do with the names that people type: patterns and suggestions; and texts
 * that are safe to print or easy to read. Nothing here knows of tensors or formats. */
#ifndef KERF_WORDS_H
#define KERF_WORDS_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1: the shell pattern (star, ?, [abc], backslash before a character that stands for itself)
 * matches the whole of name. A star also stands for dots and slashes. */
KERF_API int kerf_glob_matches(const char *glob, const char *name);

/* Writes a pattern that matches `name` alone; cut to size, always terminated. Returns out. */
KERF_API char *kerf_glob_escape(const char *name, char *out, size_t size);

/* 1: the same letters and digits in the same order. Case, and everything that is neither, does not
 * count: "RTX-4090" and "rtx4090" are one name. Texts without a letter or digit match nothing. */
KERF_API int kerf_names_match(const char *a, const char *b);

/* 1: as kerf_names_match, but `name` may go on after `text`. */
KERF_API int kerf_name_begins(const char *name, const char *text);

/* The word of a list (ended by NULL) that `text` was probably meant to be; NULL: none is near, or
 * several are equally. Counted are the edits from one to the other, without case: a character more,
 * less or another, two swapped. Digits say what a thing is ("nvfp4", "h100"), so they are never
 * edited. The beginning of one word alone, three characters or more, counts as one edit. */
KERF_API const char *kerf_nearest_word(const char *text, const char *const *words);

/* Copies text with control characters, those of direction too, and what is not UTF-8, replaced by
 * '?', so that a name from a file cannot steer a terminal; cut to size, between characters, always
 * terminated. Returns out. */
KERF_API char *kerf_text_printable(const char *text, char *out, size_t size);

/* "7.20 MiB"; out holds KERF_BYTES_TEXT bytes. Returns out. */
#define KERF_BYTES_TEXT 32
KERF_API char *kerf_bytes_text(uint64_t bytes, char *out);

/* "1536x4096", "scalar"; "no shape" for a rank above KERF_MAX_RANK. Cut to size; out holds
 * KERF_SHAPE_TEXT bytes. Returns out. */
#define KERF_SHAPE_TEXT 96
KERF_API char *kerf_shape_text(const kerf_shape *shape, char *out);

/* How a result becomes text for a person: all functions whose names end in _text and that give
 * malloc'd text take one, or NULL for all zeros. Such texts hold no control character of a name
 * or a path. What they say may change from version to version: programs read the JSON. */
typedef struct kerf_text_form {
    unsigned columns; /* of the window: tables leave out what matters less, and shorten names, to
                         fit in it; 0: no window, tables fit in 80 columns if they can and names
                         stay whole */
    int wide;         /* all columns of tables in full, whatever the window                     */
    int colours;      /* with the sequences by which terminals change colours                   */
} kerf_text_form;

#ifdef __cplusplus
}
#endif
#endif
