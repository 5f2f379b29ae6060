/* consumer.c - the smallest use of libkerf: one block of numbers to nvfp4 and back. All of them
 * are representable with the scale that this block gets, so they must return unchanged. */
#include <kerf/codec.h>

#include <stdio.h>
#include <string.h>

#define COUNT 16

static const float numbers[COUNT] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f, 0.0f};

static kerf_status round_trip(float *back, double *bpw, kerf_error *err)
{
    kerf_codec codec;
    kerf_status s = kerf_codec_find("nvfp4", &codec, err);
    if (s != KERF_OK) return s;

    kerf_shape shape = {2, {1, COUNT}};
    kerf_geometry g;
    s = kerf_geometry_init(&g, codec.format, &shape, err);
    if (s != KERF_OK) return s;
    *bpw = kerf_geometry_bpw(&g);

    uint8_t bytes[KERF_PLANES][64] = {{0}};
    kerf_span planes[KERF_PLANES];
    kerf_cspan encoded[KERF_PLANES];
    for (int p = 0; p < KERF_PLANES; p++) {
        planes[p] = (kerf_span){bytes[p], (size_t)g.plane[p].bytes};
        encoded[p] = (kerf_cspan){bytes[p], (size_t)g.plane[p].bytes};
    }

    kerf_cspan source = {numbers, sizeof numbers};
    kerf_stats stats = {0};
    s = kerf_measure(&g, 0, g.bands, source, KERF_F32, &stats, NULL, err);
    if (s != KERF_OK) return s;
    s = kerf_encode(&g, codec.encoder, &stats, 0, g.bands, source, KERF_F32, planes, NULL, err);
    if (s != KERF_OK) return s;
    return kerf_decode(&g, 0, g.bands, encoded, (kerf_span){back, sizeof numbers}, KERF_F32, NULL,
                       err);
}

int main(void)
{
    float back[COUNT] = {0};
    double bpw = 0;
    kerf_error err = {0};
    if (round_trip(back, &bpw, &err) != KERF_OK) {
        fprintf(stderr, "%s: %s\n", kerf_status_name(err.status), err.text);
        return 1;
    }
    if (memcmp(back, numbers, sizeof back) != 0) {
        fputs("16 numbers came back changed\n", stderr);
        return 1;
    }
    printf("kerf %s: %d numbers in nvfp4, %g bits each, came back unchanged\n", KERF_VERSION_TEXT,
           COUNT, bpw);
    return 0;
}
