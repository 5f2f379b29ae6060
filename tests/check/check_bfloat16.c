/* check_bfloat16.c - every bfloat16 under every shared exponent of the MX formats, and under FP8
 * scales of every exponent and of many mantissas, from each backend byte for byte as from the
 * reference.
 *
 * Backends may take such a source apart as integers. The blocks of MX here have one element that
 * fixes the exponent, the largest of its binade, and then every number that can stand beside it, of
 * either sign, zeros and subnormals among them: all that can ever meet that exponent. Of the
 * encoders `floor` clips the top of a block, and `rceil` has it one binade lower. Under a lesser
 * mantissa fewer numbers meet the same exponents; check_backends has those. The scale of FP8 is any
 * that an amax may lead to, and not only that of the numbers at hand. */
#include <kerf/codec.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, PATTERNS = 1 << 16, COLS = 2048, MAX_ELEMENTS = PATTERNS * 2 + COLS };

static uint16_t source[MAX_ELEMENTS];
static uint8_t want[2][MAX_ELEMENTS], got[2][MAX_ELEMENTS]; /* codes and scales */
static unsigned long long compared;

/* Rows of COLS with all that is no larger than the largest number with this exponent field. */
static uint64_t fill_source(unsigned field)
{
    const uint16_t largest = (uint16_t)(field << 7 | 0x7f);
    size_t n = 0;
    for (unsigned u = 0; u <= largest; u++) {
        for (unsigned sign = 0; sign < 2; sign++) {
            if (n % BLOCK == field % BLOCK) {
                source[n] = (uint16_t)(largest | (n / BLOCK & 1) << 15);
                n++;
            }
            source[n++] = (uint16_t)(u | sign << 15);
        }
    }
    while (n % COLS) source[n++] = largest;
    return n / COLS;
}

static int same_bytes(const kerf_geometry *g, const kerf_encoder *e, const char *backend,
                      const kerf_stats *stats, unsigned nth)
{
    const size_t elements = (size_t)g->elements;
    const kerf_cspan src = {source, 2 * elements};
    const kerf_exec ref = {.threads = 1, .backend = "ref"},
                    own = {.threads = 1, .backend = backend};
    kerf_span a[KERF_PLANES] = {{want[0], (size_t)g->plane[0].bytes},
                                {want[1], (size_t)g->plane[1].bytes}};
    kerf_span b[KERF_PLANES] = {{got[0], a[0].n}, {got[1], a[1].n}};
    kerf_error err = {0};
    if (kerf_encode(g, e, stats, 0, g->bands, src, KERF_BF16, a, &ref, &err) != KERF_OK ||
        kerf_encode(g, e, stats, 0, g->bands, src, KERF_BF16, b, &own, &err) != KERF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 0;
    }
    compared += elements;
    if (memcmp(want[0], got[0], a[0].n) == 0 && memcmp(want[1], got[1], a[1].n) == 0) return 1;
    fprintf(stderr, "%s: %s:%s differs from the reference under scale %u\n", backend,
            g->format->name, e->name, nth);
    return 0;
}

static int check_format(const char *codec, const char *backend)
{
    kerf_error err = {0};
    kerf_codec c;
    kerf_geometry g;
    int good = kerf_codec_find(codec, &c, &err) == KERF_OK;
    for (unsigned field = 0; good && field < 255; field++) {
        kerf_shape shape = {2, {fill_source(field), COLS}};
        good = kerf_geometry_init(&g, c.format, &shape, &err) == KERF_OK &&
               same_bytes(&g, c.encoder, backend, NULL, field);
    }
    if (err.text[0]) fprintf(stderr, "%s: %s\n", codec, err.text);
    return good;
}

/* The nth amax: every exponent, every mantissa of bfloat16, and some of fp32. */
static float find_amax(unsigned nth)
{
    uint32_t u = (uint32_t)(nth - 383) * 0x9e3779b1u >> 9 | 120u << 23;
    if (nth < 255) u = nth << 23 | 0x290000;
    if (nth >= 255 && nth < 383) u = 127u << 23 | (nth - 255) << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static int check_fp8(const char *codec, const char *backend)
{
    kerf_error err = {0};
    kerf_codec c;
    kerf_geometry g;
    kerf_shape shape = {2, {fill_source(254), COLS}};
    int good = kerf_codec_find(codec, &c, &err) == KERF_OK &&
               kerf_geometry_init(&g, c.format, &shape, &err) == KERF_OK;
    for (unsigned nth = 0; good && nth < 512; nth++) {
        const float amax = find_amax(nth);
        const kerf_stats stats = {.amax = amax, .min = -amax, .max = amax};
        good = same_bytes(&g, c.encoder, backend, &stats, nth);
    }
    if (err.text[0]) fprintf(stderr, "%s: %s\n", codec, err.text);
    return good;
}

int main(void)
{
    static const char *const formats[] = {"mxfp4",      "mxfp6-e2m3", "mxfp6-e3m2",
                                          "mxfp8-e4m3", "mxfp8-e5m2", "mxint8"};
    static const char *const encoders[] = {"floor", "rceil"};
    int good = 1;
    for (size_t i = 0; i < kerf_backend_count(); i++) {
        if (strcmp(kerf_backend_at(i), "ref") == 0) continue;
        good &= check_fp8("fp8-e4m3:amax", kerf_backend_at(i));
        good &= check_fp8("fp8-e5m2:amax", kerf_backend_at(i));
        for (size_t k = 0; k < sizeof formats / sizeof *formats * 2; k++) {
            char codec[64];
            snprintf(codec, sizeof codec, "%s:%s", formats[k / 2], encoders[k % 2]);
            good &= check_format(codec, kerf_backend_at(i));
        }
    }
    printf("%llu elements compared\n", compared);
    return !good;
}
