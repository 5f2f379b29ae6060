/* json_taken.c - notes where jansson lacked memory. When that happens in the middle of a text, it
 * may read a word with a letter less, or call the text wrong, and says nothing of memory: what was
 * read then is no document, whatever it looks like. */
#include "serve/json_taken.h"

#include <stdlib.h>

static _Thread_local int lacked;

static void *take(size_t n)
{
    void *p = malloc(n);
    lacked |= !p;
    return p;
}

void json_goes_on(void)
{
    json_set_alloc_funcs(take, free);
}

int json_lacked_memory(void)
{
    const int had = lacked;
    lacked = 0;
    return had;
}

json_t *json_taken(const char *text, size_t n, json_error_t *why)
{
    (void)json_lacked_memory();
    json_t *doc = json_loadb(text, n, JSON_REJECT_DUPLICATES, why);
    if (!json_lacked_memory()) return doc;
    json_decref(doc);
    why->text[0] = 0;
    return NULL;
}
