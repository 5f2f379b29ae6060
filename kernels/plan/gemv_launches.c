/* gemv_launches.c - see gemv_launches.h. */
#include "plan/gemv_launches.h"

#include "plan/gemv_divide.h"

/* Asks of a launch that was divided, and of the last of several where that has fewer columns. */
static int ask_launches(const kf_gemv_launch *l, uint32_t columns, kf_gemv_count count, void *ctx)
{
    kf_gemv_launch last = *l;
    last.task.columns = columns % l->task.columns;
    int fits = last.task.columns ? count(ctx, &last) : 1;
    if (fits > 0) fits = count(ctx, l); /* the last that was tried may be another */
    return fits > 0 ? 1 : fits;
}

/* By launches of `most` columns and so many waves. */
static int try_launches(kf_gemv_launch *l, const kf_gemv_task *task, uint32_t most, unsigned waves,
                        const kf_gemv_target *on)
{
    l->task = *task;
    l->task.waves = waves;
    l->task.columns = kf_gemv_next_columns(task->columns, 0, most);
    const int fits = kf_gemv_divide(l, on->tiling, on->machine, on->count, on->ctx);
    return fits > 0 ? ask_launches(l, task->columns, on->count, on->ctx) : fits;
}

/* Sums and factors of rows take room, on a card of few multiprocessors more than it has: then each
 * block has fewer rows, and at last a launch fewer columns. Of GGUF's blocks, which are decoded
 * once more for each launch but need not have all of x at once, first fewer columns. */
int kf_gemv_divide_product(kf_gemv_launch *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                           kf_gemv_count count, void *ctx)
{
    enum { MOST_WAVES = 1024 };
    const kf_gemv_task task = l->task;
    const kf_gemv_target on = {t, m, count, ctx};
    const uint32_t all = t->has_many ? task.columns : t->few;
    int fits = 0;
    for (uint32_t most = all; most && !fits && !t->has_many; most /= 2)
        fits = try_launches(l, &task, most, 1, &on);
    for (uint32_t most = all; most && !fits; most /= 2)
        for (unsigned waves = 1; !fits && waves <= MOST_WAVES; waves += waves / 4 + 1)
            fits = try_launches(l, &task, most, waves, &on);
    return fits;
}
