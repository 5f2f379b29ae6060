/* cmd_serve.c - kerf serve: the command over HTTP, with a page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "args.h"
#include "output.h"
#include "serve/serve.h"

#ifndef KERF_SERVE
kerf_status serve(const serve_options *o, kerf_error *err)
{
    (void)o;
    return kerf_fail(err, KERF_E_NOSUP,
                     "this kerf was built without libmicrohttpd; "
                     "apt-get install libmicrohttpd-dev, then configure and build again");
}

kerf_status page_write(const page_options *o, kerf_error *err)
{
    (void)o;
    return serve(NULL, err);
}
#endif

/* Options of the file go with no option of the server. */
static kerf_status take_page(const args *a, page_options *p, kerf_error *err)
{
    static const char *const of_file[] = {"advice", "hardware", "model", "shape", NULL};
    static const char *const of_server[] = {"port",   "address",     "token",    "host",  "models",
                                            "output", "connections", "interval", "drain", NULL};
    p->path = args_value(a, "page");
    p->advice = args_value(a, "advice");
    p->hardware = args_value(a, "hardware");
    p->model = args_value(a, "model");
    p->shapes = args_value(a, "shape");
    p->overwrite = args_has(a, "overwrite");
    for (const char *const *others = p->path ? of_server : of_file; *others; others++)
        if (args_has(a, *others))
            return USAGE(err, "--%s %s --page", *others, p->path ? "does not go with" : "needs");
    return KERF_OK;
}

/* The values of an option that may be given several times. */
static kerf_status take_all(const args *a, const char *name, const char **out, size_t *count,
                            kerf_error *err)
{
    for (const char *text; (text = args_value_at(a, name, *count)) != NULL; ++*count) {
        if (*count == SERVE_FOLDERS) return USAGE(err, "--%s: more than %d", name, SERVE_FOLDERS);
        out[*count] = text;
    }
    return KERF_OK;
}

static kerf_status check_folder(const char *name, const char *path, kerf_error *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return KERF_OK;
    return kerf_fail(err, KERF_E_IO, "--%s %.300s is no folder; mkdir makes one", name, path);
}

/* --token: the text itself, or what stands in a file, which no list of processes shows. */
static kerf_status take_token(const args *a, char *room, size_t size, const char **out,
                              kerf_error *err)
{
    const char *text = args_value(a, "token");
    if (text && text[0] == '@') {
        errno = 0;
        FILE *f = fopen(text + 1, "r");
        const int got = f && fgets(room, (int)size, f) != NULL;
        if (f) fclose(f);
        if (!got)
            return kerf_fail(err, KERF_E_IO, "--token %.300s: %s", text,
                             errno ? strerror(errno) : "empty");
        room[strcspn(room, "\r\n")] = 0;
        text = room;
    }
    if (text && strlen(text) < 16) return USAGE(err, "--token: 16 characters at least");
    *out = text;
    return KERF_OK;
}

static int run_serve(const args *a, kerf_error *err)
{
    char token[512];
    page_options page;
    TRY(take_page(a, &page, err));
    if (page.path) return page_write(&page, err);
    serve_options o = {.address = "127.0.0.1",
                       .port = 8420,
                       .connections = 1200,
                       .drain_s = 10,
                       .interval_s = 1,
                       .json = args_has(a, "json")};
    if (args_value(a, "address")) o.address = args_value(a, "address");
    TRY(args_integer(a, "port", 0, 65535, &o.port, err));
    TRY(args_integer(a, "connections", 4, 60000, &o.connections, err));
    TRY(args_seconds(a, "drain", 0, 86400, &o.drain_s, err));
    TRY(args_seconds(a, "interval", 0.05, 3600, &o.interval_s, err));
    TRY(take_token(a, token, sizeof token, &o.token, err));
    TRY(take_all(a, "host", o.host, &o.hosts, err));
    TRY(take_all(a, "models", o.models, &o.model_folders, err));
    o.output = args_value(a, "output");
    for (size_t i = 0; i < o.model_folders; i++) TRY(check_folder("models", o.models[i], err));
    if (o.output) TRY(check_folder("output", o.output, err));
    return serve(&o, err);
}

static const option options[] = {
    {"port", 0, "N", "to listen on (default: 8420; 0: one that is free)"},
    {"address", 0, "ADDRESS", "to listen on (default: 127.0.0.1); others need --token"},
    {"token", 0, "TEXT|@FILE", "every request must have it, as Authorization: Bearer TEXT"},
    {"host", 0, "NAME", "a name that requests may be for, besides the address (repeatable)"},
    {"models", 0, "DIR", "a folder that may be read: of models, or a model (repeatable)"},
    {"output", 0, "DIR", "the folder that jobs write to; without it nothing is written"},
    {"connections", 0, "N", "at most (default: 1200)"},
    {"interval", 0, "SECONDS", "between two readings of the monitor (default: 1)"},
    {"drain", 0, "SECONDS", "that running jobs get after SIGTERM (default: 10)"},
    {"page", 0, "FILE", "no server: write the page as a file that works from disk"},
    {"advice", 0, "FILE", "with --page: its frontier and layers, as kerf advise --json wrote them"},
    {"hardware", 0, "NAME", "with --page: its machine (default: the advice's, or h200)"},
    {"model", 0, "CONFIG", "with --page: whose steps it shows (default: the advice's model)"},
    {"shape", 0, "NxK[,NxK]", "with --page: its products (default: of common models)"},
    {NULL, 0, NULL, NULL},
};

const verb verb_serve = {
    .name = "serve",
    .summary = "all of this over HTTP, with a page",
    .usage = "[--port N] [--models DIR] [--output DIR] [--address A --token T] | --page FILE",
    .details =
        "Serves until SIGTERM: a page at /, an API under /api/v1 whose answers are the documents\n"
        "of --json (/api/v1/openapi.json describes it), and counters at /metrics. Only the\n"
        "folders of --models are read, only that of --output is written to. What takes long is a\n"
        "job: a queue for each device, progress as server-sent events. Jobs that the end of the\n"
        "server cuts are taken up by the next one with the same --output; quantize goes on where\n"
        "it was.\n"
        "--page writes one file instead: the page with all answers that its controls ask for.",
    .examples = "  kerf serve --models ~/models\n"
                "  kerf serve --models ~/models --output ~/quantized --port 0\n"
                "  curl -s localhost:8420/api/v1/analyze -H 'Content-Type: application/json' \\\n"
                "    -d '{\"hardware\": \"h200\", \"rows\": 4096, \"cols\": 4096, \"format\": "
                "\"nvfp4\"}'\n"
                "  kerf advise model --budget 5bits --hardware h200 --json > advice.json\n"
                "  kerf serve --page model.html --advice advice.json\n",
    .options = options,
    .shared = {&option_json, &option_overwrite},
    .writes = {"page"},
    .run = run_serve,
};
