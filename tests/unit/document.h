/* document.h - JSON documents that the library wrote, for tests. */
#ifndef KERF_TESTS_DOCUMENT_H
#define KERF_TESTS_DOCUMENT_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Takes the text of a document; its schema must be this. */
static inline json_t *document(char *text, size_t n, const char *schema)
{
    json_error_t why;
    json_t *doc = json_loadb(text, n, 0, &why);
    if (!doc) fail_msg("%s: %s", schema, why.text);
    assert_int_equal(n, strlen(text));
    assert_string_equal(json_string_value(json_object_get(doc, "schema")), schema);
    free(text);
    return doc;
}

static inline json_int_t integer_at(const json_t *row, const char *key)
{
    assert_true(json_is_integer(json_object_get(row, key)));
    return json_integer_value(json_object_get(row, key));
}

static inline const char *text_at(const json_t *row, const char *key)
{
    assert_true(json_is_string(json_object_get(row, key)));
    return json_string_value(json_object_get(row, key));
}

#endif
