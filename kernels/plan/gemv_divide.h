/* gemv_divide.h - the three ways to divide a product, and what they share. Each tries to fill in
 * division and grid of a launch. 1: done; 0: not for this one, or no room; -1: `count` failed. */
#ifndef KERF_GEMV_DIVIDE_H
#define KERF_GEMV_DIVIDE_H

#include "base/base.h"
#include "plan/gemv_division.h"
#include "plan/gemv_tuning.h"

/* What a launch is divided for. */
typedef struct kf_gemv_target {
    const kf_gemv_tiling *tiling;
    const kf_gemv_machine *machine;
    kf_gemv_count count;
    void *ctx;
} kf_gemv_target;

int kf_gemv_divide_few(kf_gemv_launch *l, const kf_gemv_target *on);
int kf_gemv_divide_many(kf_gemv_launch *l, const kf_gemv_target *on);
/* Only if that takes less than `least` us. */
int kf_gemv_divide_wide(kf_gemv_launch *l, const kf_gemv_target *on, double least);

/* Us that the kernel for many columns takes for 16 of them by a division of its own, roughly. */
double kf_gemv_many_us(const kf_gemv_launch *l, const kf_gemv_machine *m);

/* Tiles that stay together count as one unit of work. */
static inline unsigned kf_gemv_work(const kf_gemv_launch *l)
{
    return l->task.tiles / l->task.together;
}

static inline unsigned kf_gemv_waves(const kf_gemv_launch *l)
{
    return l->task.waves ? l->task.waves : 1;
}

/* Divides tiles among teams. */
static inline void kf_gemv_share_tiles(kf_gemv_launch *l, unsigned teams)
{
    kf_gemv_share *s = &l->share;
    s->team_tiles = kf_gemv_work(l) / teams;
    s->team_rest = kf_gemv_work(l) % teams;
    s->most = (s->team_tiles + (s->team_rest > 0)) * l->task.together;
}

static inline int kf_gemv_has_room(const kf_gemv_machine *m, size_t shared, unsigned per_sm)
{
    return shared + (per_sm > 1 ? 1024 : 0) <= m->most_shared / per_sm;
}

/* Each row of a block's tiles has a factor and a zero point. */
enum { KF_GEMV_ROW_BYTES = 2 * sizeof(float) };

/* Ends the layout of shared memory at `at` with the table of a code book; returns its size. */
static inline size_t kf_gemv_end_layout(kf_gemv_launch *l, const kf_gemv_tiling *t, size_t at)
{
    at = (at + 127) / 128 * 128;
    l->division.table_at = (uint32_t)at;
    return at + t->table;
}

#endif
