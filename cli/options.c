/* options.c - the options that verbs share, from text to structs. */
#include "options.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/cuda.h>

#include "advice/recipe.h"

/* --- who computes -------------------------------------------------------------------------- */

enum { HANDLES = 2 }; /* of a GPU: one copies while the other computes */

/* One more than there are processors. A team that has a processor for each thread waits for work by
 * spinning, and takes the processors from the threads that read and write (measured: a third of
 * the time is left without that); a larger team sleeps. */
static int default_threads(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    return CPU_COUNT(&set) + 1;
}

/* All but the device. */
static kerf_status read_exec(const args *a, kerf_exec *out, kerf_error *err)
{
    static const char *const nans[] = {"error", "zero", "saturate", NULL};
    static const kerf_nan nan_of[] = {KERF_NAN_ERROR, KERF_NAN_ZERO, KERF_NAN_SATURATE};
    int nan = 0;
    *out = (kerf_exec){0};
    TRY(args_integer(a, "threads", 1, 4096, &out->threads, err));
    if (!out->threads) out->threads = default_threads();
    TRY(args_choice(a, "nan", nans, &nan, err));
    out->nan = nan_of[nan];
    return KERF_OK;
}

static kerf_status device_fails(const char *text, kerf_status s, const kerf_error *why,
                                kerf_error *err)
{
    if (s == KERF_E_NOSUP) s = KERF_E_CUDA; /* the exit code of a missing device */
    return fail(err, s, "--device %s: %.300s; or use --device cpu", text, why->text);
}

/* The GPUs [*first, *end) that --device names; none for the processor. */
static kerf_status read_device(const char *text, int *first, int *end, kerf_error *err)
{
    int n = 0, used = 0;
    *first = *end = 0;
    if (!text || strcmp(text, "cpu") == 0) return KERF_OK;
    if (strcmp(text, "cuda:all") == 0) {
        kerf_error why = {0};
        kerf_status s = kerf_device_count(end, &why);
        if (s == KERF_OK && *end == 0) {
            s = KERF_E_CUDA;
            fail(&why, s, "this machine has no GPU");
        }
        return s == KERF_OK ? s : device_fails(text, s, &why, err);
    }
    if (strcmp(text, "cuda") != 0 &&
        (sscanf(text, "cuda:%3d%n", &n, &used) != 1 || text[used] || n < 0)) {
        return USAGE(err, "--device %.40s: expected cpu, cuda, cuda:N or cuda:all", text);
    }
    *first = n;
    *end = n + 1;
    return KERF_OK;
}

static kerf_status open_gpu(const char *text, int ordinal, kerf_exec *out, kerf_error *err)
{
    kerf_error why = {0};
    kerf_status s = kerf_device_open(ordinal, &out->device, &why);
    return s == KERF_OK ? s : device_fails(text, s, &why, err);
}

/* Architectures whose code has only been compiled and disassembled. */
static void warn_untested(int ordinal)
{
    kerf_device_info info;
    if (kerf_device_describe(ordinal, &info, NULL) == KERF_OK && info.compute_major >= 10) {
        fprintf(stderr, "note: GPU %d, %.100s: the code for sm_%d%d is untested on hardware\n",
                ordinal, info.name, info.compute_major, info.compute_minor);
    }
}

kerf_status option_team_open(team_option *t, const args *a, kerf_error *err)
{
    const char *text = args_value(a, "device");
    kerf_exec plain;
    int first, end;
    *t = (team_option){0};
    TRY(read_exec(a, &plain, err));
    TRY(read_device(text, &first, &end, err));
    size_t count = first < end ? (size_t)(end - first) * HANDLES : 1;
    TRY(allocate(&t->member, count, sizeof *t->member, err));
    t->team.member = t->member;
    for (; t->team.count < count; t->team.count++) {
        kerf_exec *member = &t->member[t->team.count];
        *member = plain;
        if (first < end) TRY(open_gpu(text, first + (int)t->team.count / HANDLES, member, err));
    }
    for (int gpu = first; gpu < end; gpu++) warn_untested(gpu);
    return KERF_OK;
}

void option_team_close(team_option *t)
{
    for (size_t i = 0; i < t->team.count; i++) kerf_device_close(t->member[i].device);
    free(t->member);
    *t = (team_option){0};
}

kerf_status option_exec_open(const args *a, kerf_exec *out, kerf_error *err)
{
    const char *text = args_value(a, "device");
    int first, end;
    TRY(read_exec(a, out, err));
    TRY(read_device(text, &first, &end, err));
    if (end - first > 1) return USAGE(err, "--device %.40s: this verb uses one GPU", text);
    if (first == end) return KERF_OK;
    TRY(open_gpu(text, first, out, err));
    warn_untested(first);
    return KERF_OK;
}

void option_exec_close(kerf_exec *exec)
{
    kerf_device_close(exec->device);
    exec->device = NULL;
}

/* --- formats of tensors -------------------------------------------------------------------- */

kerf_status option_codec(const char *text, kerf_codec *out, kerf_error *err)
{
    kerf_status s = kerf_codec_find(text, out, err);
    if (s == KERF_OK) return s;
    if (err) err->status = KERF_E_ARG;
    return KERF_E_ARG;
}

static size_t count_values(const args *a, const char *name)
{
    size_t n = 0;
    while (args_value_at(a, name, n)) n++;
    return n;
}

kerf_status option_select_open(select_option *s, const args *a, kerf_error *err)
{
    const size_t keeps = count_values(a, "keep"), onlys = count_values(a, "only");
    *s = (select_option){0};
    TRY(allocate(&s->glob, keeps + onlys, sizeof *s->glob, err));
    for (size_t i = 0; i < keeps; i++) s->glob[i] = args_value_at(a, "keep", i);
    for (size_t i = 0; i < onlys; i++) s->glob[keeps + i] = args_value_at(a, "only", i);
    s->select = (kerf_select){.keep = s->glob,
                              .keeps = keeps,
                              .only = s->glob + keeps,
                              .onlys = onlys,
                              .all = args_has(a, "all-tensors")};
    return KERF_OK;
}

void option_select_close(select_option *s)
{
    free(s->glob);
    *s = (select_option){0};
}

/* Adds a rule for a pattern of n bytes, which the option `origin` gave as `text`. */
static kerf_status add_rule(rules_option *r, const char *glob, size_t n, kerf_codec codec,
                            const char *origin, const char *text, kerf_error *err)
{
    const size_t room = strlen(origin) + strlen(text) + 2;
    char **own = &r->text[2 * r->count];
    own[0] = strndup(glob, n);
    own[1] = malloc(room);
    if (!own[0] || !own[1]) return fail(err, KERF_E_NOMEM, "no memory for %s", origin);
    snprintf(own[1], room, "%s %s", origin, text);
    r->rule[r->count++] = (kerf_rule){own[0], own[1], codec};
    return KERF_OK;
}

/* GLOB=FORMAT[:ENCODER] or GLOB=keep; patterns may hold an equals sign, formats none. */
static kerf_status add_tensor_rule(rules_option *r, const char *text, kerf_error *err)
{
    const char *equals = strrchr(text, '=');
    kerf_codec codec = {NULL, NULL};
    if (!equals || equals == text) {
        return USAGE(err, "--tensor %.200s: expected GLOB=FORMAT[:ENCODER] or GLOB=keep", text);
    }
    if (strcmp(equals + 1, "keep") != 0) TRY(option_codec(equals + 1, &codec, err));
    return add_rule(r, text, (size_t)(equals - text), codec, "--tensor", text, err);
}

static kerf_status add_rules(rules_option *r, const args *a, const recipe *rec, kerf_error *err)
{
    const size_t given = count_values(a, "tensor");
    size_t written = 0;
    const char *glob;
    kerf_codec codec;
    while (recipe_rule_at(rec, written, &glob, &codec)) written++;
    TRY(allocate(&r->rule, written + given, sizeof *r->rule, err));
    TRY(allocate(&r->text, 2 * (written + given), sizeof *r->text, err));
    r->texts = 2 * (written + given);
    for (size_t i = 0; recipe_rule_at(rec, i, &glob, &codec); i++)
        TRY(add_rule(r, glob, strlen(glob), codec, "--recipe", glob, err));
    for (size_t i = 0; i < given; i++) TRY(add_tensor_rule(r, args_value_at(a, "tensor", i), err));
    return KERF_OK;
}

kerf_status option_rules_open(rules_option *r, const args *a, kerf_error *err)
{
    const char *path = args_value(a, "recipe");
    recipe rec = {0};
    *r = (rules_option){0};
    if (path) TRY(recipe_open(&rec, path, err));
    kerf_status s = add_rules(r, a, &rec, err);
    recipe_close(&rec);
    return s;
}

void option_rules_close(rules_option *r)
{
    for (size_t i = 0; i < r->texts; i++) free(r->text[i]);
    free(r->rule);
    free(r->text);
    *r = (rules_option){0};
}
