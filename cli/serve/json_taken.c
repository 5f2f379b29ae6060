/* json_taken.c - notes when an allocation of jansson fails. Without memory in the middle of a text,
 * jansson may read a word without its last letters, or call the text wrong, and does not say that
 * memory was lacking: whatever it has read then must be thrown away. */
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
