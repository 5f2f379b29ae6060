/* target_reader.c - one file of weights: opened, its tensors found and read, its weights grouped
 * and decoded, asked whether they fit every layout. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <kerf/inspect.h>
#include <kerf/layouts.h>

#include "fuzz.h"

enum { MOST_PLANE = 1 << 20, MOST_ELEMENTS = 1 << 16 };

static void wrong(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_error(kerf_status s, const kerf_error *e)
{
    if (s != KERF_OK && (e->status != s || !e->text[0])) wrong("a failure without a reason");
}

static void read_tensors(const kerf_reader *r)
{
    static uint8_t room[4096];
    kerf_error e = {.text = ""};
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        const kerf_tensor *same = kerf_reader_find(r, t->name);
        if (same != t) wrong("a tensor is not found by its name");
        const size_t n = t->bytes < sizeof room ? (size_t)t->bytes : sizeof room;
        check_error(kerf_reader_read(r, t, t->bytes - n, room, n, &e), &e);
        if (kerf_reader_read(r, t, t->bytes, room, 1, &e) == KERF_OK) wrong("read beyond a tensor");
    }
    const char *key, *value;
    for (size_t i = 0; kerf_reader_metadata_at(r, 0, i, &key, &value); i++)
        if (!kerf_reader_metadata(r, 0, key))
            wrong("a key of the metadata is not found by its name");
}

static void decode(const kerf_reader *r, const kerf_weight *w)
{
    kerf_cspan plane[KERF_PLANES] = {{0}};
    uint8_t *room[KERF_PLANES] = {NULL};
    kerf_error e = {.text = ""};
    const kerf_geometry g = kerf_weight_geometry(w);
    int ok = g.elements <= MOST_ELEMENTS;
    for (int p = 0; p < KERF_PLANES && ok; p++) {
        const uint64_t n = g.plane[p].bytes;
        if (n == 0) continue;
        room[p] = n <= MOST_PLANE ? malloc((size_t)n) : NULL;
        ok = room[p] &&
             kerf_weight_read(r, w, (kerf_plane_id)p, 0, room[p], (size_t)n, &e) == KERF_OK;
        plane[p] = (kerf_cspan){room[p], (size_t)n};
    }
    const size_t bytes = (size_t)g.elements * sizeof(float);
    void *out = ok ? malloc(bytes + 1) : NULL;
    const kerf_exec exec = {.threads = 1};
    if (out)
        check_error(
            kerf_decode(&g, 0, g.bands, plane, (kerf_span){out, bytes}, KERF_F32, &exec, &e), &e);
    free(out);
    for (int p = 0; p < KERF_PLANES; p++) free(room[p]);
}

/* As the file has them, and with experts taken apart or stacked. */
static void read_weights(const kerf_reader *r, kerf_experts how)
{
    kerf_weights *all = NULL;
    kerf_error e = {.text = ""};
    char doubt[256];
    kerf_status s = kerf_weights_open(r, &all, &e);
    check_error(s, &e);
    if (s == KERF_OK && how != KERF_EXPERTS_AS_THEY_ARE)
        check_error(kerf_weights_arrange(all, how, NULL, NULL, &e), &e);
    for (size_t i = 0; s == KERF_OK && i < kerf_weights_count(all); i++) {
        const kerf_weight *w = kerf_weights_at(all, i);
        if (w->plane[0] && !w->codec.format) kerf_tensor_doubt(r, w->plane[0], doubt, sizeof doubt);
        if (!w->codec.format) continue;
        decode(r, w);
        for (size_t l = 0; l < kerf_layout_count(); l++)
            check_error(kerf_layout_check_tensor(kerf_layout_at(l), w->codec.format, w->name,
                                                 &w->shape, &e),
                        &e);
    }
    kerf_weights_close(all);
}

void fuzz_input(const uint8_t *p, size_t n)
{
    static int fd = -1;
    static char path[64];
    kerf_reader *r = NULL;
    kerf_error e = {.text = ""};
    if (fd < 0) {
        fd = memfd_create("weights", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, p, n, 0) != (ssize_t)n) abort();
    const kerf_status s = kerf_reader_open(path, &r, &e);
    check_error(s, &e);
    if (s != KERF_OK) return;
    uint64_t fingerprint;
    check_error(kerf_reader_fingerprint(r, &fingerprint, &e), &e);
    read_tensors(r);
    read_weights(r, KERF_EXPERTS_AS_THEY_ARE);
    read_weights(r, KERF_EXPERTS_SINGLE);
    read_weights(r, KERF_EXPERTS_STACKED);
    kerf_reader_close(r);
}

size_t fuzz_change(uint8_t *p, size_t n, size_t room, unsigned seed)
{
    fuzz_random r = {seed};
    fuzz_bytes b = fuzz_change_file(&r, p, n);
    return fuzz_take(b, p, room);
}
