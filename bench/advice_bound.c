/* advice_bound.c - for advice_bound.py: a matrix of bf16 in several formats, each decoded again to
 * a file of float32 beside it. Needs the codecs alone:
 *
 *   cmake -S . -B /tmp/k -G Ninja -DKERF_CODECS_ONLY=ON -DKERF_CUDA=OFF
 *   ninja -C /tmp/k kerf_static
 *   cc -O2 -Icodecs/include bench/advice_bound.c /tmp/k/libkerf*.a -lm -fopenmp -o enc
 *   ./enc MATRIX ROWS COLUMNS CODEC...      MATRIX.0, MATRIX.1, ...; prints the bytes of each */
#include <stdio.h>
#include <stdlib.h>

#include <kerf/encode_matrix.h>

static int fail(const char *what)
{
    fprintf(stderr, "advice_bound: %s\n", what);
    return 1;
}

static int try_codec(const char *name, const kerf_shape *shape, kerf_cspan source, float *decoded,
                     const char *path, int index)
{
    kerf_error err;
    kerf_codec codec;
    kerf_geometry g;
    char out[512];
    size_t bytes = 0;
    kerf_span planes[KERF_PLANES];
    kerf_cspan read[KERF_PLANES];
    if (kerf_codec_find(name, &codec, &err) || kerf_geometry_init(&g, codec.format, shape, &err))
        return fail(err.text);
    for (int p = 0; p < KERF_PLANES; p++) {
        planes[p] = (kerf_span){calloc(1, g.plane[p].bytes + 1), g.plane[p].bytes};
        read[p] = (kerf_cspan){planes[p].p, planes[p].n};
        bytes += planes[p].n;
    }
    const size_t n = source.n / 2;
    if (kerf_encode_matrix(&g, codec.encoder, source, KERF_BF16, planes, NULL, NULL, &err) ||
        kerf_decode_matrix(&g, read, (kerf_span){decoded, n * 4}, KERF_F32, NULL, NULL, &err))
        return fail(err.text);
    snprintf(out, sizeof out, "%s.%d", path, index);
    FILE *f = fopen(out, "wb");
    if (!f || fwrite(decoded, 4, n, f) != n || fclose(f)) return fail(out);
    for (int p = 0; p < KERF_PLANES; p++) free(planes[p].p);
    printf("%zu\n", bytes);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 5) return fail("MATRIX ROWS COLUMNS CODEC...");
    const kerf_shape shape = {2, {strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10)}};
    const size_t n = (size_t)(shape.dim[0] * shape.dim[1]);
    unsigned short *source = malloc(2 * n);
    float *decoded = malloc(4 * n);
    FILE *f = fopen(argv[1], "rb");
    if (!source || !decoded || !f || fread(source, 2, n, f) != n) return fail(argv[1]);
    for (int i = 4; i < argc; i++)
        if (try_codec(argv[i], &shape, (kerf_cspan){source, 2 * n}, decoded, argv[1], i - 4))
            return 1;
    return 0;
}
