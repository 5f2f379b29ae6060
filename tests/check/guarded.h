/* guarded.h - memory that ends, or begins, at a page that must not be touched. */
#ifndef TEST_GUARDED_H
#define TEST_GUARDED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guarded {
    uint8_t *base; /* the first byte after the leading guard */
    size_t room;   /* whole pages between the guards         */
} guarded;

static guarded guarded_open(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page + page;
    uint8_t *p =
        mmap(NULL, room + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) != 0 ||
        mprotect(p + page + room, page, PROT_NONE) != 0) {
        fprintf(stderr, "no guarded memory\n");
        exit(2);
    }
    return (guarded){p + page, room};
}

enum { GUARDED_SLACK = 512 };

/* The bytes next to [p, p + n) that are watched. */
static void guarded_bounds(guarded g, const uint8_t *p, size_t n, uint8_t **from, uint8_t **to)
{
    size_t before = (size_t)(p - g.base), after = g.room - before - n;
    *from = g.base + (before < GUARDED_SLACK ? 0 : before - GUARDED_SLACK);
    *to = g.base + before + n + (after < GUARDED_SLACK ? after : GUARDED_SLACK);
}

/* n bytes against the guard behind (at_end) or `skew` bytes after the guard before; they and their
 * neighbours are set to `poison`. */
static uint8_t *guarded_place(guarded g, size_t n, int at_end, size_t skew, uint8_t poison)
{
    uint8_t *from, *to;
    if (n + skew > g.room) {
        fprintf(stderr, "guarded memory is too small\n");
        exit(2);
    }
    uint8_t *p = at_end ? g.base + g.room - n : g.base + skew;
    guarded_bounds(g, p, n, &from, &to);
    memset(from, poison, (size_t)(to - from));
    return p;
}

/* Whether the neighbours of [p, p + n) still hold the poison. */
static int guarded_intact(guarded g, const uint8_t *p, size_t n, uint8_t poison)
{
    uint8_t *from, *to;
    guarded_bounds(g, p, n, &from, &to);
    for (const uint8_t *q = from; q < to; q++)
        if ((q < p || q >= p + n) && *q != poison) return 0;
    return 1;
}

#endif
