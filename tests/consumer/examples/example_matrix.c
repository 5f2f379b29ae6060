/* example_matrix.c - a matrix in memory to NVFP4 and back: cc example_matrix.c $(pkg-config
 * --cflags --libs kerf)
 */
#include <kerf/kerf.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLS = 256, N = ROWS * COLS };

static kerf_status run(kerf_error *err)
{
    static float source[N], back[N];
    for (int i = 0; i < N; i++) source[i] = (float)(i * 7919 % 1009 - 504) / 504;

    kerf_codec codec;
    kerf_geometry g;
    kerf_span planes[KERF_PLANES];
    kerf_cspan read[KERF_PLANES];
    kerf_status s = kerf_codec_find("nvfp4:4/6", &codec, err);
    if (!s) s = kerf_geometry_init(&g, codec.format, &(kerf_shape){2, {ROWS, COLS}}, err);
    if (s) return s;
    for (int p = 0; p < KERF_PLANES; p++) {
        planes[p] = (kerf_span){malloc(g.plane[p].bytes), g.plane[p].bytes};
        read[p] = (kerf_cspan){planes[p].p, planes[p].n};
    }
    s = kerf_encode_matrix(&g, codec.encoder, (kerf_cspan){source, sizeof source}, KERF_F32, planes,
                           NULL, NULL, err);
    if (!s)
        s = kerf_decode_matrix(&g, read, (kerf_span){back, sizeof back}, KERF_F32, NULL, NULL, err);
    if (!s)
        printf("%d numbers in %zu bytes of codes: %.4f became %.4f\n", N, planes[0].n, source[9],
               back[9]);
    for (int p = 0; p < KERF_PLANES; p++) free(planes[p].p);
    return s;
}

int main(void)
{
    kerf_error err;
    if (run(&err) == KERF_OK) return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}
