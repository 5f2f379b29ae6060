/* dtype.c - the element types of tensors: names and widths. */
#include <kerf/codec.h>

#include <string.h>

static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {{"?", 0},
#define X(name, bits) {#name, bits},
              KERF_DTYPES(X)
#undef X
};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

const char *kerf_dtype_name(kerf_dtype t)
{
    return dtypes[(size_t)t < DTYPES ? t : 0].name;
}

unsigned kerf_dtype_bits(kerf_dtype t)
{
    return dtypes[(size_t)t < DTYPES ? t : 0].bits;
}

kerf_dtype kerf_dtype_find(const char *name)
{
    for (size_t i = 1; i < DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0) return (kerf_dtype)i;
    return KERF_DTYPE_NONE;
}
