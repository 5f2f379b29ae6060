/* consumer.c - a program that uses libkerf as anybody can, from its installed headers alone:
 * cancels a run, quantizes a folder with progress, verifies and scores it, and asks for advice with
 * a report.
 *
 *   consumer MODEL OUT_FOLDER REPORT.html
 */
#include <kerf/advise.h>
#include <kerf/file.h>
#include <kerf/quantize.h>
#include <kerf/verify.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define TRY(expr)                             \
    do {                                      \
        kerf_status status = (expr);          \
        if (status != KERF_OK) return status; \
    } while (0)

typedef struct follower {
    uint64_t events, stop_at; /* stop_at: events after which to cancel; 0: never */
} follower;

static void follow(void *ctx, const kerf_event *e)
{
    follower *f = ctx;
    f->events++;
    if (e->kind == KERF_EVENT_PHASE) printf("%s\n", e->what);
}

static int is_canceled(void *ctx)
{
    const follower *f = ctx;
    return f->stop_at && f->events >= f->stop_at;
}

/* Quantizes to nvfp4:4/6. Canceled in the middle first: then nothing may be left. */
static kerf_status quantize(const kerf_checkpoint *model, kerf_codec codec, const char *path,
                            kerf_error *err)
{
    follower first = {.stop_at = 9}, second = {0};
    const kerf_job canceled = {follow, is_canceled, &first}, job = {follow, is_canceled, &second};
    kerf_plan *plan = NULL;
    kerf_result result = {0};
    struct stat there;
    TRY(kerf_plan_make(model, NULL, NULL, 0, codec, &(kerf_output){.path = path}, &plan, err));
    kerf_status s = kerf_quantize(plan, NULL, &canceled, NULL, err);
    if (s != KERF_E_CANCELED || stat(path, &there) == 0) {
        fprintf(stderr, "a canceled run ended with %s\n", kerf_status_name(s));
        exit(1);
    }
    s = kerf_quantize(plan, NULL, &job, &result, err);
    kerf_plan_free(plan);
    printf("%zu tensors quantized, %zu kept, %llu events\n", result.changed, result.kept,
           (unsigned long long)second.events);
    return s;
}

static kerf_status verify(const kerf_checkpoint *model, const char *path, kerf_error *err)
{
    kerf_checkpoint *written = NULL;
    kerf_verification *v = NULL;
    TRY(kerf_checkpoint_open(path, &written, err));
    kerf_status s = kerf_verify(model, written, NULL, NULL, NULL, &v, err);
    if (s == KERF_OK)
        printf("verify: %s, t2 %.3e\n", v->passed ? "passed" : "failed", kerf_score_t2(&v->total));
    kerf_verification_close(v);
    kerf_checkpoint_close(written);
    return s;
}

/* Scores two formats, then chooses one for each group of layers, and writes the report. */
static kerf_status advise(const kerf_checkpoint *model, kerf_codec codec[2], const char *report,
                          kerf_error *err)
{
    const kerf_score_request score = {.codec = codec, .codecs = 2};
    const kerf_advise_request request = {.codec = codec, .codecs = 2, .budget = {.bits = 5}};
    kerf_scores *scores = NULL;
    kerf_advice *advice = NULL;
    char *text = NULL;
    size_t n = 0;
    TRY(kerf_score_checkpoint(model, &score, NULL, NULL, &scores, err));
    for (size_t c = 0; c < scores->codecs; c++)
        printf("%zu tensors in %s: t2 %.3e\n", scores->tensors, scores->codec[c].format->name,
               kerf_score_t2(&scores->total[c]));
    kerf_scores_close(scores);
    TRY(kerf_advise(model, &request, NULL, NULL, &advice, err));
    kerf_status s = kerf_advice_write(advice, KERF_ADVICE_HTML, &text, &n, err);
    if (s == KERF_OK) s = kerf_file_replace(report, text, n, 1, err);
    printf("advice: %.3f bits per weight, report of %zu bytes\n", kerf_advice_total(advice).bits,
           n);
    free(text);
    kerf_advice_close(advice);
    return s;
}

static kerf_status run(char **argv, kerf_error *err)
{
    kerf_checkpoint *model = NULL;
    kerf_codec codec[2];
    TRY(kerf_codec_find("nvfp4:4/6", &codec[0], err));
    TRY(kerf_codec_find("mxfp6-e2m3", &codec[1], err));
    TRY(kerf_checkpoint_open(argv[1], &model, err));
    kerf_status s = quantize(model, codec[0], argv[2], err);
    if (s == KERF_OK) s = verify(model, argv[2], err);
    if (s == KERF_OK) s = advise(model, codec, argv[3], err);
    kerf_checkpoint_close(model);
    return s;
}

int main(int argc, char **argv)
{
    kerf_error err = {0};
    if (argc == 4 && run(argv, &err) == KERF_OK) return 0;
    fprintf(stderr, "%s\n", argc == 4 ? err.text : "usage: consumer MODEL OUT_FOLDER REPORT.html");
    return 1;
}
