/* fences.c - the planes, and no byte beside them: everything is coded between pages that cannot be
 * touched. */
#include "property/laws.h"

#include <sys/mman.h>
#include <unistd.h>

/* Memory that ends (or begins) at a page that cannot be touched. */
typedef struct fenced {
    uint8_t *map, *p;
    size_t size;
} fenced;

static fenced fence(size_t n, int at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (n + page - 1) / page * page;
    fenced m = {0};
    m.size = inside + 2 * page;
    m.map = mmap(NULL, m.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m.map == MAP_FAILED ||
        (inside && mprotect(m.map + page, inside, PROT_READ | PROT_WRITE) != 0)) {
        perror("mmap");
        exit(1);
    }
    m.p = m.map + page + (at_end ? inside - n : 0);
    return m;
}

/* Encodes and decodes with every array between guard pages, into memory full of `fill`; a byte
 * outside faults, a byte that is not written keeps `fill`. */
static void code_fenced(const subject *s, sample *a, int at_end, int fill, sample *out)
{
    const kerf_geometry *g = &a->c.g;
    kerf_error err = {0};
    kerf_span plane[KERF_PLANES];
    kerf_cspan from[KERF_PLANES];
    fenced m[KERF_PLANES + 2];
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t n = a->c.plane[p].n;
        m[p] = fence(n, at_end);
        memset(m[p].p, fill, n);
        plane[p] = (kerf_span){m[p].p, n};
        from[p] = (kerf_cspan){m[p].p, n};
    }
    size_t bytes = a->n * sizeof(float), source_bytes = a->n * kerf_dtype_bits(a->dtype) / 8;
    fenced *source = &m[KERF_PLANES], *target = &m[KERF_PLANES + 1];
    *source = fence(source_bytes, at_end);
    *target = fence(bytes, at_end);
    memcpy(source->p, sample_source(a), source_bytes);
    memset(target->p, fill, bytes);
    kerf_cspan x = {source->p, source_bytes};
    kerf_span y = {target->p, bytes};
    must(&a->c,
         kerf_encode(g, s->codec.encoder, a->c.stats, 0, g->bands, x, a->dtype, plane, &coded_exec,
                     &err),
         &err);
    must(&a->c, kerf_decode(g, 0, g->bands, from, y, KERF_F32, &coded_exec, &err), &err);
    for (int p = 0; p < KERF_PLANES; p++) memcpy(out->c.plane[p].p, plane[p].p, plane[p].n);
    memcpy(out->y, target->p, bytes);
    for (int i = 0; i < KERF_PLANES + 2; i++) munmap(m[i].map, m[i].size);
}

uint64_t inside_the_planes(subject *s)
{
    sample a, b;
    kerf_shape shape = draw_shape(s);
    sample_draw(&a, s, shape, draw_kind(s));
    sample_code(&a);
    sample_init(&b, s, shape);
    for (int i = 0; i < 4; i++) {
        code_fenced(s, &a, i & 1, i & 2 ? 0xff : 0x00, &b);
        for (int p = 0; p < KERF_PLANES; p++)
            if (memcmp(a.c.plane[p].p, b.c.plane[p].p, a.c.plane[p].n) != 0)
                report(s, "bytes not written, plane", p, 0, 0);
        if (memcmp(a.y, b.y, a.n * sizeof *a.y) != 0) report(s, "values not written", 0, 0, 0);
    }
    uint64_t n = a.n;
    sample_free(&a);
    sample_free(&b);
    return n;
}
