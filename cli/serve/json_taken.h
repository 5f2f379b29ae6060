/* json_taken.h - JSON from outside, in a process that may not end for lack of memory. */
#ifndef KERF_SERVE_JSON_TAKEN_H
#define KERF_SERVE_JSON_TAKEN_H

#include <jansson.h>

/* From now on jansson goes on without memory: a verb may end for lack of it, a server may not. */
void json_goes_on(void);
/* Whether jansson lacked memory in this thread since the last call. */
int json_lacked_memory(void);
/* The document of a text. NULL: it is none, or, where why->text is empty, there was no memory. */
json_t *json_taken(const char *text, size_t n, json_error_t *why);

#endif
