/* output.h - what the command prints on standard output: texts and JSON documents. */
#ifndef KERF_OUTPUT_H
#define KERF_OUTPUT_H

#include <kerf/quantize.h>
#include <kerf/roles.h>
#include <kerf/score.h>

#include "cli.h"

/* Prints a document that the library wrote, unless s says that it failed to, and frees it. */
kerf_status put_document(kerf_status s, char **text, kerf_error *err);

/* The same for a text, without a newline behind it, on standard output; and into a file, as
 * write_file does. */
kerf_status put_text(kerf_status s, char **text, kerf_error *err);
kerf_status put_file(kerf_status s, const char *path, char **text, int overwrite, kerf_error *err);

/* Where documents go from now on; NULL: standard output. */
void set_documents(FILE *to);

/* Prints a failure as the one document of a run with --json, unless another has been printed. Takes
 * no memory. The text is a line of UTF-8. */
void print_failure(kerf_status s, int code, const char *text);

/* A path or another text from outside, for a line of text: control characters become '?'. One of
 * eight buffers, which the ninth call takes again; a text beyond 4095 bytes is cut. */
const char *shown(const char *text);

/* Notes that an output is in place: a failure after that says so. */
void note_written(const char *path);
/* Those that were noted, as "; OUT is written"; "" when there is none. */
const char *written_text(void);

/* Writes a file whole; KERF_E_EXISTS says how to overwrite one. */
kerf_status write_file(const char *path, const void *p, size_t n, int overwrite, kerf_error *err);

/* note_written of an output, or of the part of it that was written (cmd_merge.c). */
void note_output(const kerf_output *to);
/* What one part of scores or of a calibration is: a note, or the document where --json is given. */
kerf_status report_part(const args *a, const kerf_finished_part *p, kerf_error *err);
/* Scores as text or, with --json, as their document (cmd_score.c). */
kerf_status print_scores(const kerf_scores *s, const args *a, kerf_error *err);

#endif
