/* gemv_launches.c - see gemv_launches.h. */
#include "plan/gemv_launches.h"

/* Asks of a launch that was divided, and of the last of several where that has fewer columns. */
static int ask_launches(const kf_gemv_launch *l, uint32_t columns, kf_gemv_count count, void *ctx)
{
    kf_gemv_launch last = *l;
    last.task.columns = columns % l->task.columns;
    int fits = last.task.columns ? count(ctx, &last) : 1;
    if (fits > 0) fits = count(ctx, l); /* the last that was tried may be another */
    return fits > 0 ? 1 : fits;
}

/* By as many columns as find room. */
static int divide_columns(kf_gemv_launch *l, const kf_gemv_task *task, const kf_gemv_tiling *t,
                          const kf_gemv_machine *m, kf_gemv_count count, void *ctx)
{
    int fits = 0;
    for (uint32_t most = t->has_many ? task->columns : t->few; most && !fits; most /= 2) {
        l->task = *task;
        l->task.columns = kf_gemv_next_columns(task->columns, 0, most);
        fits = kf_gemv_divide(l, t, m, count, ctx);
        if (fits > 0) fits = ask_launches(l, task->columns, count, ctx);
        if (t->has_many) break;
    }
    return fits;
}

/* Sums and factors of rows take room, on a card of few multiprocessors more than it has: then each
 * block has fewer rows. */
int kf_gemv_divide_product(kf_gemv_launch *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                           kf_gemv_count count, void *ctx)
{
    enum { MOST = 64 };
    kf_gemv_task task = l->task;
    int fits = 0;
    for (task.waves = 1; !fits && task.waves <= MOST; task.waves++)
        fits = divide_columns(l, &task, t, m, count, ctx);
    return fits;
}
