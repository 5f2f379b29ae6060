/* options.c - the options that verbs share, from text to structs. */
#include "options.h"

#include "output.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

#include <kerf/cuda.h>
#include <kerf/inspect.h>

/* --- who computes -------------------------------------------------------------------------- */

enum { HANDLES = 2 }; /* of a GPU: one copies while the other computes */

/* All but the device. */
static kerf_status read_exec(const args *a, kerf_exec *out, kerf_error *err)
{
    static const char *const nans[] = {"error", "zero", "saturate", NULL};
    static const kerf_nan nan_of[] = {KERF_NAN_ERROR, KERF_NAN_ZERO, KERF_NAN_SATURATE};
    int nan = 0;
    *out = (kerf_exec){0};
    TRY(args_integer(a, "threads", 1, 4096, &out->threads, err));
    TRY(args_choice(a, "nan", nans, &nan, err));
    out->nan = nan_of[nan];
    return KERF_OK;
}

static kerf_status device_fails(const char *text, kerf_status s, const kerf_error *why,
                                kerf_error *err)
{
    if (s == KERF_E_NOSUP) s = KERF_E_CUDA; /* the exit code of a missing device */
    return kerf_fail(err, s, "--device %s: %.300s; or use --device cpu", text, why->text);
}

static kerf_status read_device(const char *text, kerf_device_list *l, kerf_error *err)
{
    kerf_error why = {0};
    int n = 0;
    *l = (kerf_device_list){0};
    const kerf_status s = text ? kerf_devices_find(text, l, &why) : KERF_OK;
    if (s == KERF_E_ARG) return USAGE(err, "--device %.40s: %s", text, why.text);
    if (s != KERF_OK) return device_fails(text, s, &why, err);
    if (!company.place || !text || strcmp(text, "cuda") != 0) return KERF_OK;
    TRY(kerf_device_count(&n, err)); /* of several ranks on a machine, one for each */
    l->ordinal[0] = n > 0 ? company.place % n : 0;
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
        print_note("note: GPU %d, %.100s: the code for sm_%d%d is untested on hardware", ordinal,
                   info.name, info.compute_major, info.compute_minor);
    }
}

/* `handles` members for each GPU. */
static kerf_status open_team(team_option *t, const args *a, size_t handles, kerf_error *err)
{
    const char *text = args_value(a, "device");
    kerf_exec plain;
    kerf_device_list gpus;
    *t = (team_option){0};
    TRY(read_exec(a, &plain, err));
    TRY(read_device(text, &gpus, err));
    const size_t count = gpus.count ? gpus.count * handles : 1;
    TRY(allocate(&t->member, count, sizeof *t->member, err));
    t->team.member = t->member;
    for (; t->team.count < count; t->team.count++) {
        kerf_exec *member = &t->member[t->team.count];
        *member = plain;
        if (gpus.count) TRY(open_gpu(text, gpus.ordinal[t->team.count / handles], member, err));
    }
    for (size_t i = 0; i < gpus.count; i++) warn_untested(gpus.ordinal[i]);
    return KERF_OK;
}

kerf_status option_team_open(team_option *t, const args *a, kerf_error *err)
{
    return open_team(t, a, HANDLES, err);
}

kerf_status option_ranks_open(team_option *t, const args *a, kerf_error *err)
{
    return open_team(t, a, 1, err);
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
    kerf_device_list gpus;
    TRY(read_exec(a, out, err));
    TRY(read_device(text, &gpus, err));
    if (gpus.count > 1) return USAGE(err, "--device %.40s: this verb uses one GPU", text);
    if (gpus.count == 0) return KERF_OK;
    TRY(open_gpu(text, gpus.ordinal[0], out, err));
    warn_untested(gpus.ordinal[0]);
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
    const size_t n = strlen(text);
    if (s == KERF_OK) return s;
    if (n > 5 && strcmp(text + n - 5, ".json") == 0)
        return USAGE(err, "-f %.200s: that is a file; a recipe is given with --recipe", text);
    if (err) err->status = KERF_E_ARG;
    return KERF_E_ARG;
}

kerf_status option_codecs(const char *text, kerf_codec_list *out, kerf_error *err)
{
    char word[128];
    *out = (kerf_codec_list){0};
    for (const char *p = text;; p++) {
        const size_t n = strcspn(p, ",");
        size_t picked = 0;
        kerf_codec one;
        if (n == 0 || n >= sizeof word)
            return USAGE(err, "-f %.200s: expected words separated by commas", text);
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        const kerf_status s = kerf_codec_list_add(out, word, &picked, err);
        if (s == KERF_E_NOMEM) return s;
        if (s != KERF_OK) return option_codec(word, &one, err); /* which says why */
        if (!picked) return USAGE(err, "-f %.100s picks no format; kerf formats lists them", word);
        p += n;
        if (!*p) return KERF_OK;
    }
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

/* GLOB=FORMAT[:ENCODER] or GLOB=keep; patterns may hold an equals sign, formats none. */
static kerf_status add_tensor_rule(rules_option *r, const char *text, kerf_error *err)
{
    static const char name[] = "--tensor ";
    const char *equals = strrchr(text, '=');
    const size_t room = sizeof name + strlen(text);
    kerf_codec codec = {NULL, NULL};
    if (!equals || equals == text)
        return USAGE(err, "--tensor %.200s: expected GLOB=FORMAT[:ENCODER] or GLOB=keep", text);
    if (strcmp(equals + 1, "keep") != 0) TRY(option_codec(equals + 1, &codec, err));
    char *glob = r->text[r->texts++] = strndup(text, (size_t)(equals - text));
    char *origin = r->text[r->texts++] = malloc(room);
    if (!glob || !origin) return kerf_fail(err, KERF_E_NOMEM, "no memory for --tensor");
    snprintf(origin, room, "%s%s", name, text);
    r->rule[r->count++] = (kerf_rule){glob, origin, codec};
    return KERF_OK;
}

kerf_status option_rules_open(rules_option *r, const args *a, kerf_error *err)
{
    const char *path = args_value(a, "recipe");
    const size_t given = count_values(a, "tensor");
    *r = (rules_option){0};
    if (path) TRY(kerf_recipe_open(path, &r->recipe, err));
    const size_t written = r->recipe ? r->recipe->rules : 0;
    TRY(allocate(&r->rule, written + given, sizeof *r->rule, err));
    TRY(allocate(&r->text, 2 * given, sizeof *r->text, err));
    for (; r->count < written; r->count++) r->rule[r->count] = r->recipe->rule[r->count];
    for (size_t i = 0; i < given; i++) TRY(add_tensor_rule(r, args_value_at(a, "tensor", i), err));
    return KERF_OK;
}

void option_rules_close(rules_option *r)
{
    for (size_t i = 0; i < r->texts; i++) free(r->text[i]);
    free(r->rule);
    free(r->text);
    kerf_recipe_close(r->recipe);
    *r = (rules_option){0};
}

/* --- what may be spent --------------------------------------------------------------------- */

kerf_status option_budget(const args *a, kerf_budget *budget, kerf_price *minimise, kerf_error *err)
{
    static const char *const words[] = {"error", "bytes", "time", NULL};
    static const kerf_price prices[] = {KERF_PRICE_LOSS, KERF_PRICE_BYTES, KERF_PRICE_TIME};
    int word = 0;
    const char *text;
    kerf_error why = {0};
    for (size_t i = 0; (text = args_value_at(a, "budget", i)) != NULL; i++)
        if (kerf_budget_read(text, budget, &why) != KERF_OK)
            return USAGE(err, "--budget %.60s: %s", text, why.text);
    TRY(args_choice(a, "minimise", words, &word, err));
    *minimise = prices[word];
    return KERF_OK;
}

/* --- output -------------------------------------------------------------------------------- */

/* What is made of the whole output has no place in a part. */
kerf_status option_part_of(const args *a, unsigned *part, unsigned *parts, kerf_error *err)
{
    const char *text = args_value(a, "part");
    int used = 0;
    if (!text) return KERF_OK;
    if (sscanf(text, "%5u/%5u%n", part, parts, &used) != 2 || text[used] || *part < 1 ||
        *part > *parts || *parts > KERF_PARTS_MOST)
        return USAGE(err, "--part %.40s: expected I/N, I from 1 to N, N at most %u", text,
                     KERF_PARTS_MOST);
    if (args_has(a, "sha256"))
        return USAGE(err, "--part: OUT.sha256 is of the whole output: give --sha256 to kerf merge");
    return KERF_OK;
}

kerf_status option_output(const args *a, kerf_output *out, kerf_error *err)
{
    *out = (kerf_output){.path = args_value(a, "output"),
                         .overwrite = args_has(a, "overwrite"),
                         .resume = args_has(a, "resume"),
                         .ranks = company.ranks};
    static const char *const ends[] = {".safetensors", ".safetensors.zst", ".gguf", NULL};
    TRY(args_suffix(a, "output", ends, 1, err));
    if (args_has(a, "layout")) TRY(args_layout(a, &out->layout, err));
    TRY(args_size(a, "shard-size", &out->shard_bytes, err));
    TRY(option_part_of(a, &out->part, &out->parts, err));
    TRY(args_integer(a, "threads", 1, 4096, &out->threads, err));
    return args_integer(a, "zstd-level", 1, 22, &out->zstd_level, err);
}

/* --- models -------------------------------------------------------------------------------- */

kerf_status option_source_open(const args *a, kerf_checkpoint **out, kerf_error *err)
{
    char text[512];
    size_t count;
    TRY(kerf_checkpoint_open(model_path(args_operand(a, 0)), out, err));
    TRY(kerf_find_ruined(*out, text, sizeof text, &count, NULL, err));
    if (count)
        print_note("the source is ruined: %s%s; kerf inspect shows all", shown(text),
                   count > 1 ? ", and others" : "");
    return KERF_OK;
}
