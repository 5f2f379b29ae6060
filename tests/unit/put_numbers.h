/* put_numbers.h - other numbers in tensors of a file that was written already. */
#ifndef KERF_TESTS_PUT_NUMBERS_H
#define KERF_TESTS_PUT_NUMBERS_H

#include <jansson.h>

#include "test_output.h"

/* These numbers, again and again, in the tensors whose names end so. */
static inline void put_numbers(const char *path, const char *end, const float *x, long numbers)
{
    FILE *f = fopen(path, "r+b");
    unsigned char head[8];
    const char *name;
    json_t *entry;
    assert_non_null(f);
    assert_int_equal(fread(head, 1, 8, f), 8);
    const long bytes = head[0] | head[1] << 8 | head[2] << 16;
    json_t *header = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(header);
    json_object_foreach(header, name, entry)
    {
        const size_t n = strlen(name), m = strlen(end);
        if (n < m || strcmp(name + n - m, end) != 0) continue;
        const json_t *at = json_object_get(entry, "data_offsets");
        const long from = (long)json_integer_value(json_array_get(at, 0));
        const long to = (long)json_integer_value(json_array_get(at, 1));
        assert_int_equal(fseek(f, 8 + bytes + from, SEEK_SET), 0);
        for (long i = 0; i < (to - from) / 4; i++)
            assert_int_equal(fwrite(&x[i % numbers], 4, 1, f), 1);
    }
    json_decref(header);
    assert_int_equal(fclose(f), 0);
}

#endif
