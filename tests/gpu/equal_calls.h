/* equal_calls.h - scales in tiles, and what a GPU that is full, or not there, must answer. */
#ifndef KERF_TESTS_EQUAL_CALLS_H
#define KERF_TESTS_EQUAL_CALLS_H

#include "equal_tensor.h"

/* --- scales in tiles ----------------------------------------------------------------------------
 */

/* Every byte of a tile holds one scale or padding: scales that count from 1 on come once each, and
 * all the rest is zero. */
static void check_places(uint8_t *tiles, uint64_t matrices, uint64_t rows, uint64_t cols,
                         const char *name)
{
    uint64_t n = matrices * rows * cols, tiled = 0, sum = 0, want = 0, filled = 0;
    uint8_t *plain = allocate(n);
    for (uint64_t i = 0; i < n; i++) want += plain[i] = (uint8_t)(1 + i % 251);
    kerf_dbuf a = {0}, b = {0};
    ok(kerf_tiled_scale_bytes(matrices, rows, cols, &tiled, &error), "size", name);
    ok(kerf_dbuf_alloc(gpu, n, &a, &error), "allocation", name);
    ok(kerf_dbuf_alloc(gpu, tiled, &b, &error), "allocation", name);
    ok(kerf_dbuf_write(&a, 0, plain, n, &error), "copy in", name);
    memset(tiles, 0x7f, tiled);
    ok(kerf_dbuf_write(&b, 0, tiles, tiled, &error), "poison", name);
    ok(kerf_device_scales_to_tiles(gpu, matrices, rows, cols, (kerf_cspan){a.p, n},
                                   (kerf_span){b.p, tiled}, &error),
       "to tiles", name);
    ok(kerf_dbuf_read(&b, 0, tiles, tiled, &error), "copy out", name);
    for (uint64_t i = 0; i < tiled; i++) {
        sum += tiles[i];
        filled += tiles[i] != 0;
    }
    check(filled == n && sum == want, "a scale is not there once, or padding is not zero", name,
          "");
    kerf_dbuf_free(&a);
    kerf_dbuf_free(&b);
    free(plain);
}

/* The device's tiles are the host's, padding among them, and lead back to the scales. */
static void check_tiles(uint64_t matrices, uint64_t rows, uint64_t cols)
{
    uint64_t n = matrices * rows * cols, tiled = 0;
    kerf_dbuf a = {0}, b = {0};
    char name[64];
    snprintf(name, sizeof name, "tiles of %llu x %llu x %llu", (unsigned long long)matrices,
             (unsigned long long)rows, (unsigned long long)cols);
    ok(kerf_tiled_scale_bytes(matrices, rows, cols, &tiled, &error), "size", name);
    uint8_t *plain = allocate(n + 1), *want = allocate(tiled), *got = allocate(tiled + n);
    fill_patterns(plain, KERF_BF16, (n + 1) / 2, rows + 7 * cols);
    memset(want, 0x7f, tiled);
    memset(got, 0x7f, tiled);
    ok(kerf_scales_to_tiles(matrices, rows, cols, (kerf_cspan){plain, n}, (kerf_span){want, tiled},
                            &error),
       "to tiles on the host", name);
    ok(kerf_dbuf_alloc(gpu, n, &a, &error), "allocation", name);
    ok(kerf_dbuf_alloc(gpu, tiled, &b, &error), "allocation", name);
    ok(kerf_dbuf_write(&a, 0, plain, n, &error), "copy in", name);
    ok(kerf_dbuf_write(&b, 0, got, tiled, &error), "poison", name);
    ok(kerf_device_scales_to_tiles(gpu, matrices, rows, cols, (kerf_cspan){a.p, n},
                                   (kerf_span){b.p, tiled}, &error),
       "to tiles", name);
    ok(kerf_dbuf_read(&b, 0, got, tiled, &error), "copy out", name);
    check(memcmp(got, want, tiled) == 0, "other tiles than on the host", name, "");
    memset(got, 0x7f, n);
    ok(kerf_dbuf_write(&a, 0, got, n, &error), "poison", name);
    ok(kerf_device_scales_from_tiles(gpu, matrices, rows, cols, (kerf_cspan){b.p, tiled},
                                     (kerf_span){a.p, n}, &error),
       "from tiles", name);
    ok(kerf_dbuf_read(&a, 0, got, n, &error), "copy out", name);
    check(memcmp(got, plain, n) == 0, "tiles do not lead back", name, "");
    check_places(want, matrices, rows, cols, name);
    kerf_dbuf_free(&a);
    kerf_dbuf_free(&b);
    free(plain);
    free(want);
    free(got);
}

/* --- failures --------------------------------------------------------------------------------- */

/* A GPU with no room left: a clear refusal, and the next call works when there is room again. */
static void check_full_gpu(const kerf_codec *codec)
{
    kerf_shape shape = {2, {1024, 4096}};
    kerf_device *d = NULL;
    kerf_dbuf hog[64];
    int n = 0;
    tensor t = {.codec = *codec, .name = "a full GPU", .dtype = KERF_F32, .nan = KERF_NAN_ZERO};
    if (!ok(kerf_device_open(0, &d, &error), "opens again", t.name) ||
        !ok(kerf_geometry_init(&t.g, codec->format, &shape, &error), "geometry", t.name))
        return;
    kerf_exec on_d = {.device = d};
    t.reference = make_planes(&t.g, 0x88);
    t.source = calloc(t.g.elements, 4);
    for (size_t part = (size_t)1 << 38; t.source && part >= 4096 && n < 64;)
        if (kerf_dbuf_alloc(d, part, &hog[n], &error) == KERF_OK)
            n++;
        else
            part /= 2;
    kerf_status s =
        kerf_encode(&t.g, codec->encoder, NULL, 0, t.g.bands, source_of(&t, 0, t.g.bands), t.dtype,
                    t.reference.plane, &on_d, &error);
    check(s == KERF_E_NOMEM && strstr(error.text, "too little free memory"), "is refused", t.name,
          error.text);
    while (n > 0) kerf_dbuf_free(&hog[--n]);
    encode_into(&t, &t.reference, t.g.bands, &on_d, "works when there is room again");
    kerf_device_close(d);
    free((void *)(uintptr_t)t.source);
    free(t.reference.all);
}

/* What a device call has found is there for the next wait, whatever calls over host memory find
 * meanwhile. */
static void check_found(const kerf_codec *codec, const kerf_geometry *g, const float *x)
{
    float there[512] = {0};
    uint8_t codes[512], scales[512];
    const kerf_exec dev = {.device = gpu, .nan = KERF_NAN_ERROR};
    const kerf_span dst[KERF_PLANES] = {{codes, sizeof codes}, {scales, sizeof scales}};
    uint64_t bad = 0;
    kerf_dbuf dense = {0}, plane[2] = {{0}, {0}};
    there[411] = 1.0f / there[0];
    ok(kerf_dbuf_alloc(gpu, sizeof there, &dense, &error), "allocation", "found");
    ok(kerf_dbuf_write(&dense, 0, there, sizeof there, &error), "copy in", "found");
    for (int k = 0; k < 2; k++) ok(kerf_dbuf_alloc(gpu, 512, &plane[k], &error), "plane", "found");
    const kerf_device_bands b = {.geometry = g,
                                 .b1 = g->bands,
                                 .dense = {dense.p, dense.n},
                                 .dtype = KERF_F32,
                                 .plane = {{plane[0].p, 512}, {plane[1].p, 512}},
                                 .nan = KERF_NAN_ERROR};
    ok(kerf_device_encode(gpu, &b, codec->encoder, NULL, &error), "a device call", "found");
    const kerf_status s = kerf_encode(g, codec->encoder, NULL, 0, 8, (kerf_cspan){x, 2048},
                                      KERF_F32, dst, &dev, &error);
    check(s == KERF_E_DATA && error.offset == 77, "by the host call", "found", error.text);
    ok(kerf_device_wait(gpu, &bad, &error), "waits", "found");
    check(bad == 411, "what a device call has found is lost", "found", "");
    ok(kerf_device_wait(gpu, &bad, &error), "waits", "found");
    check(bad == UINT64_MAX, "what was found is found again", "found", "");
    kerf_dbuf_free(&dense);
    for (int k = 0; k < 2; k++) kerf_dbuf_free(&plane[k]);
}

static void check_failures(void)
{
    kerf_device *none;
    kerf_dbuf b = {0};
    kerf_exec dev = {.device = gpu};
    kerf_geometry g;
    kerf_codec codec;
    kerf_shape shape = {2, {8, 64}};
    float x[512] = {0};
    uint8_t codes[512], scales[512];
    kerf_span dst[KERF_PLANES] = {{codes, sizeof codes}, {scales, sizeof scales}};
    check(kerf_device_open(99, &none, &error) == KERF_E_NOSUP && !none, "GPU 99", "device", "");
    check(kerf_dbuf_alloc(gpu, (size_t)1 << 50, &b, &error) == KERF_E_NOMEM && !b.p,
          "a petabyte is refused", "device", error.text);
    ok(kerf_codec_find("mxfp4", &codec, &error), "codec", "mxfp4");
    ok(kerf_geometry_init(&g, codec.format, &shape, &error), "geometry", "mxfp4");
    x[77] = x[300] = 1.0f / x[511];
    kerf_status s = kerf_encode(&g, codec.encoder, NULL, 1, 8, (kerf_cspan){x + 64, 448 * 4},
                                KERF_F32, dst, &dev, &error);
    check(s == KERF_E_DATA && error.offset == 77, "the first Inf is named", "mxfp4", error.text);
    check_found(&codec, &g, x);
    s = kerf_encode(&g, codec.encoder, NULL, 0, 8, (kerf_cspan){x, 2047}, KERF_F32, dst, &dev,
                    &error);
    check(s == KERF_E_BUFFER, "a short source", "mxfp4", error.text);
    check_full_gpu(&codec);
    x[77] = x[300] = 1;
    ok(kerf_encode(&g, codec.encoder, NULL, 0, 8, (kerf_cspan){x, 2048}, KERF_F32, dst, &dev,
                   &error),
       "works after failures", "mxfp4");
}

/* Runs a command on a GPU of which all but `left` bytes are taken. */
static int run_beside(uint64_t left, char **command)
{
    kerf_dbuf hog[64];
    kerf_device_info info;
    int n = 0, code = 0;
    uint64_t part = (uint64_t)1 << 40;
    while (n < 64 && part >= 1 << 20 && kerf_device_describe(0, &info, &error) == KERF_OK) {
        uint64_t most = info.free_bytes > left ? info.free_bytes - left : 0;
        if (part > most) part = most;
        if (part < 1 << 20) break;
        if (kerf_dbuf_alloc(gpu, part, &hog[n], &error) == KERF_OK)
            n++;
        else
            part /= 2;
    }
    pid_t child;
    if (posix_spawn(&child, command[0], NULL, NULL, command, environ) != 0 ||
        waitpid(child, &code, 0) != child)
        code = 127 << 8;
    while (n > 0) kerf_dbuf_free(&hog[--n]);
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128;
}

static void check_all_tiles(void)
{
    static const uint64_t cases[][3] = {
        {1, 128, 4},   {3, 130, 7}, {2, 1, 1},   {1, 4096, 256}, {1, 128, 3},  {1, 127, 4},
        {1, 129, 5},   {5, 32, 16}, {2, 33, 1},  {1, 1, 513},    {4, 256, 12}, {7, 31, 2},
        {1, 5120, 45}, {1, 0, 4},   {0, 128, 4}, {3, 96, 0},     {64, 2, 3},   {2, 1000, 129},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_tiles(cases[i][0], cases[i][1], cases[i][2]);
}

#define BRIEF 13 /* of the small tensors one in so many: all types are among them */

#endif
