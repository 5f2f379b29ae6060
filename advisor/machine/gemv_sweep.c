/* gemv_sweep.c - runs the timer over the lists of the command line. */
#include "machine/gemv_sweep.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#include "verbs/predict_verb.h"
#include "progress.h"

const option option_sweep_format = {"format", 'f', "LIST",
                                    "formats, patterns, or all (default: those of kerf predict)"};
const option option_sweep_batch = {"batch", 'b', "N,N,...",
                                   "columns of X, at most 16 (default: 1)"};
const option option_sweep_type = {"dtype", 0, "TYPE", "of X: bf16 (default), fp16, fp32"};
const option option_sweep_trials = {
    "trials", 'n', "N", "runs of which the median counts (default: 21, on a GPU 9 graphs)"};

static kerf_status parse_lists(gemv_sweep *s, const args *a, const char *shapes, kerf_error *err)
{
    const char *formats = args_value(a, "format");
    KF_TRY(parse_shapes(shapes, &s->shapes, err));
    KF_TRY(parse_batches(args_value(a, "batch"), &s->batch, err));
    for (size_t i = 0; i < s->batch.count; i++) {
        if (s->batch.item[i] > KERF_GEMV_COLUMNS) {
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "--batch %llu: matrix-vector kernels have at most %d columns",
                           (unsigned long long)s->batch.item[i], KERF_GEMV_COLUMNS);
        }
    }
    KF_TRY(codec_list_parse(&s->codecs, formats ? formats : PREDICT_FORMATS, err));
    for (size_t i = s->codecs.count; i-- > 1;) { /* another encoder of a format */
        if (s->codecs.item[i].format == s->codecs.item[i - 1].format) {
            codec_list_drop(&s->codecs, i);
        }
    }
    return KERF_OK;
}

/* --device cuda or cuda:N, which is open. */
static kerf_status describe_device(const args *a, kerf_device_info *out, kerf_error *err)
{
    const char *number = strchr(args_value(a, "device"), ':');
    return kerf_device_describe(number ? (int)strtol(number + 1, NULL, 10) : 0, out, err);
}

static kerf_status open_timer(gemv_sweep *s, const args *a, kerf_error *err)
{
    static const char *const types[] = {"bf16", "fp16", "fp32", NULL};
    static const kerf_dtype type_of[] = {KERF_BF16, KERF_F16, KERF_F32};
    int type = 0, trials = 0;
    KF_TRY(args_choice(a, "dtype", types, &type, err));
    KF_TRY(args_integer(a, "trials", 1, MAX_TRIALS, &trials, err));
    KF_TRY(option_exec_open(a, &s->exec, err));
    if (s->exec.device) KF_TRY(describe_device(a, &s->device, err));
    if (!args_has(a, "threads"))
        s->exec.threads = 0; /* products have no readers and writers beside */
    return gemv_timer_open(&s->timer, &s->exec, type_of[type], trials, err);
}

static kerf_status time_all(gemv_sweep *s, progress *p, kerf_error *err)
{
    KF_TRY(gemv_timer_rates(&s->timer, &s->stream_gbps, &s->copy_gbps, err));
    for (size_t c = 0; c < s->codecs.count; c++) {
        const kerf_format *f = s->codecs.item[c].format;
        kf_work_item(&p->work, f->name, "timing");
        for (size_t i = 0; i < s->shapes.count; i++) {
            for (size_t b = 0; b < s->batch.count; b++) {
                gemv_time *t = &s->item[s->count];
                shape at = s->shapes.item[i];
                KF_TRY(gemv_timer_run(&s->timer, f, at.n, at.k, s->batch.item[b], t, err));
                if (!(t->error <= 1e-2)) {
                    return kf_fail(
                        err, KERF_E_DATA, KF_NOWHERE,
                        "%s %llux%llu: %s is off by %.2g of rms from the reference; please "
                        "report this",
                        f->name, (unsigned long long)at.n, (unsigned long long)at.k, t->backend,
                        t->error);
                }
                s->count++;
                KF_TRY(kf_work_add(&p->work, at.n * at.k, err));
            }
        }
    }
    return KERF_OK;
}

kerf_status gemv_sweep_run(gemv_sweep *s, const args *a, const char *shapes, int chains_only,
                           kerf_error *err)
{
    progress p;
    uint64_t work = 0;
    *s = (gemv_sweep){0};
    KF_TRY(parse_lists(s, a, shapes, err));
    for (size_t i = 0; i < s->shapes.count; i++) work += s->shapes.item[i].n * s->shapes.item[i].k;
    size_t most = s->shapes.count * s->batch.count * s->codecs.count;
    KF_TRY(kf_allocate(&s->item, most, sizeof *s->item, err));
    KF_TRY(progress_open(&p, a, work * s->batch.count * s->codecs.count, err));
    kerf_status status = open_timer(s, a, err);
    s->timer.chains_only = chains_only;
    if (status == KERF_OK) status = time_all(s, &p, err);
    progress_close(&p);
    return status;
}

void gemv_sweep_close(gemv_sweep *s)
{
    shape_list_free(&s->shapes);
    codec_list_free(&s->codecs);
    gemv_timer_close(&s->timer);
    option_exec_close(&s->exec);
    free(s->item);
    *s = (gemv_sweep){0};
}
