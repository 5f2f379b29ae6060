/* text.h - JSON into a text that grows (base/growing_text.h), for what kerf writes line by line.
 * Strings are quoted by jansson. */
#ifndef KERF_FILE_TEXT_H
#define KERF_FILE_TEXT_H

#include <jansson.h>

#include "base/growing_text.h"

void kf_text_add_quoted(kf_text *t, const char *s); /* fails when s is not UTF-8 */
/* A document, or NULL: there was no memory for it. Its texts must come from here: json_dumps leaves
 * out a name of a member when it has no memory for it, and says nothing. */
void kf_text_add_json(kf_text *t, const json_t *j, size_t flags);

int kf_is_utf8(const char *s);

#endif
