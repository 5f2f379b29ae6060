/* target_request.c - a request to kerf serve, as the server takes it: a line each for method and
 * path, Host, Origin and Authorization, then the body. What a body may hold becomes the words of a
 * command line; verbs that answer at once are run. */
#include <stdlib.h>
#include <string.h>

#include "serve/host.h"
#include "serve/http.h"
#include "serve/verb_words.h"

#include "fuzz.h"

enum { HEADERS = 4, HEADER_ROOM = 512 };

/* The lines before the body; where it begins. */
static size_t split(const uint8_t *p, size_t n, char line[HEADERS][HEADER_ROOM])
{
    size_t at = 0;
    for (int i = 0; i < HEADERS; i++) {
        size_t m = 0;
        for (; at < n && p[at] != '\n'; at++)
            if (p[at] && m + 1 < HEADER_ROOM) line[i][m++] = (char)p[at];
        line[i][m] = 0;
        at += at < n;
    }
    return at;
}

/* A server of one model, whose weights are none. */
static void begin(void)
{
    static char models[300], output[300];
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 64,"
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 64}";
    if (serving.address) return;
    fuzz_put("models", "config.json", config, sizeof config - 1);
    snprintf(models, sizeof models, "%s/models", fuzz_folder());
    snprintf(output, sizeof output, "%s/written", fuzz_folder());
    serving = (serve_options){.address = "127.0.0.1",
                              .token = "0123456789abcdef",
                              .models = {models},
                              .model_folders = 1,
                              .output = output};
    serving_port = 8420;
}

static void run(const route *r, const json_t *body)
{
    static const char *const more[] = {NULL};
    char config[CONFIG_PATH], *text = NULL;
    size_t n = 0;
    word_list words = {0};
    kerf_error err = {.text = ""};
    config_make(body, config);
    kerf_status s = words_of(r, body, config[0] ? config : NULL, more, &words, &err);
    if (s == KERF_OK && r->answer == answer_verb) s = run_here(&words, &text, &n, &err);
    if (s != KERF_OK && !err.text[0]) abort();
    for (size_t i = 0; i < words.count; i++) /* nothing outside of the folders */
        if (strstr(words.word[i], "/../")) abort();
    json_t *doc = text ? json_loadb(text, n, 0, NULL) : NULL;
    if (text && !doc) abort();
    json_decref(doc);
    free(text);
    words_free(&words);
    if (config[0]) remove(config);
}

void fuzz_input(const uint8_t *p, size_t n)
{
    char line[HEADERS][HEADER_ROOM], allowed[40];
    const char *id = NULL;
    kerf_error err = {.text = ""};
    begin();
    const size_t at = split(p, n, line);
    char *path = strchr(line[0], ' ');
    if (path) *path++ = 0;
    (void)host_is_ours(line[1]);
    (void)origin_is_ours(line[2]);
    if (token_is_ours(line[3]) && strcmp(line[3] + strlen("Bearer "), serving.token) != 0) abort();
    const route *r = route_find(line[0], path ? path : "", &id, allowed);
    if (!r || !r->fields) return;
    json_t *body = json_loadb((const char *)p + at, n - at, JSON_REJECT_DUPLICATES, NULL);
    if (!body) return;
    const kerf_status s = body_check(r, body, &err);
    if (s != KERF_OK && !err.text[0]) abort();
    if (s == KERF_OK && r->verb) run(r, body);
    json_decref(body);
}

size_t fuzz_change(uint8_t *p, size_t n, size_t room, unsigned seed)
{
    char line[HEADERS][HEADER_ROOM];
    fuzz_random r = {seed};
    const size_t at = split(p, n, line);
    const int whole = fuzz_below(&r, 6) == 0;
    const size_t kept = whole ? 0 : at;
    fuzz_bytes b = whole ? fuzz_change_bytes(&r, p, n) : fuzz_change_json(&r, p + at, n - at);
    const size_t m = b.n < room - kept ? b.n : room - kept;
    if (m > 0) memcpy(p + kept, b.p, m);
    free(b.p);
    return kept + m;
}
