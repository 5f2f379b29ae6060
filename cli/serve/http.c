/* http.c - checks who may ask, collects bodies of requests, sends answers, and ends connections
 * that take too long.
 *
 * Connections are served by two threads that never wait for a client: what is not ready is not
 * written, and a stream that has nothing to say is suspended. */
#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "progress.h"
#include "serve/host.h"
#include "serve/json_built.h"
#include "serve/json_taken.h"
#include "serve/refusals.h"

enum { IDLE_S = 30, CLASSES = 6, PASSED_MOST = 16 * BODY_MOST };

/* --- counters ------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    unsigned long long answers[CLASSES], bytes_in;
    double seconds;
    unsigned connections;
} counted = {.lock = PTHREAD_MUTEX_INITIALIZER};

void http_metrics(FILE *to)
{
    pthread_mutex_lock(&counted.lock);
    fprintf(to, "# HELP kerf_http_answers_total Answers by the first digit of their status.\n"
                "# TYPE kerf_http_answers_total counter\n");
    for (int i = 2; i < CLASSES; i++)
        fprintf(to, "kerf_http_answers_total{status=\"%dxx\"} %llu\n", i, counted.answers[i]);
    fprintf(to,
            "# HELP kerf_http_seconds_total Time from a request's header to its answer.\n"
            "# TYPE kerf_http_seconds_total counter\nkerf_http_seconds_total %.6f\n"
            "# HELP kerf_http_connections Connections that are open.\n"
            "# TYPE kerf_http_connections gauge\nkerf_http_connections %u\n",
            counted.seconds, counted.connections);
    pthread_mutex_unlock(&counted.lock);
}

/* --- answers ------------------------------------------------------------------------------- */

int reply_response(request *r, int status, struct MHD_Response *response, const char *type)
{
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self'; "
                            "connect-src 'self'; img-src data:; base-uri 'none'; "
                            "form-action 'none'; frame-ancestors 'none'");
    if (status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    r->status = status;
    const int queued = (int)queue_answer(r->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}

int reply_text(request *r, int status, const char *type, char *text, size_t n)
{
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) free(text);
    return reply_response(r, status, response, type);
}

int reply_static(request *r, int status, const char *type, const char *text, size_t n)
{
    return reply_response(
        r, status,
        MHD_create_response_from_buffer(n, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT), type);
}

/* Needs no memory but that of the connection. */
static int reply_no_memory(request *r)
{
    static const char text[] = "{\"schema\": \"kerf.error/1\", \"status\": 503, \"error\": "
                               "\"there is no memory for an answer; ask again\"}\n";
    return reply_static(r, 503, "application/json", text, sizeof text - 1);
}

int reply_json(request *r, int status, json_t *doc)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = doc ? open_memstream(&text, &n) : NULL;
    const int whole = to && json_dumpf(doc, to, JSON_INDENT(2)) == 0 && fputc('\n', to) != EOF;
    const int closed = to && fclose(to) == 0;
    json_decref(doc);
    if (whole && closed) return reply_text(r, status, "application/json", text, n);
    free(text);
    return reply_no_memory(r);
}

static json_t *error_json(int status, const char *text)
{
    char clean[1024];
    json_t *doc = json_pack("{s:s, s:i}", "schema", "kerf.error/1", "status", status);
    json_set(&doc, "error", json_path(kerf_text_printable(text, clean, sizeof clean)));
    return doc;
}

int reply_error(request *r, int status, const char *fmt, ...)
{
    char text[1024];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    return reply_json(r, status, error_json(status, text));
}

static int status_of(kerf_status s)
{
    switch (s) {
    case KERF_E_ARG:
    case KERF_E_RANGE: return 400;
    case KERF_E_DATA:
    case KERF_E_NOSUP:
    case KERF_E_IO:
    case KERF_E_CUDA:
    case KERF_E_LIMIT: return 422;
    case KERF_E_EXISTS: return 409;
    case KERF_E_NOMEM:
    case KERF_E_CANCELED: return 503;
    default: return 500;
    }
}

json_t *failure_json(kerf_status s, const kerf_error *err)
{
    return error_json(status_of(s), err->text[0] ? err->text : kerf_status_name(s));
}

int reply_failure(request *r, kerf_status s, const kerf_error *err)
{
    return reply_json(r, status_of(s), failure_json(s, err));
}

/* --- who may ask --------------------------------------------------------------------------- */

static const char *header_of(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

/* A page of another host could have this one's name in its own (DNS rebinding), or send a form:
 * both say so in these headers. */
static int refuse_stranger(request *r)
{
    const char *host = header_of(r, "Host"), *origin = header_of(r, "Origin");
    if (!host || !host_is_ours(host))
        return reply_error(r, 421, "this is no host of that name; --host NAME makes it one");
    if (origin && !origin_is_ours(origin))
        return reply_error(r, 403, "a page of another origin may not ask");
    const int is_page = r->route && r->route->answer == answer_page;
    if (!serving.token || is_page || token_is_ours(header_of(r, "Authorization"))) return -1;
    return reply_error(r, 401, "the header Authorization: Bearer TOKEN is missing, or another");
}

/* --- a request ----------------------------------------------------------------------------- */

static int refuse_early(request *r, const char *method, const char *url, const char *allowed)
{
    const char *fault = framing_fault(r->connection);
    if (fault) return reply_error(r, 400, "%s", fault);
    const int refused = refuse_stranger(r);
    if (refused >= 0) return refused;
    if (!r->route && allowed[0]) {
        static const char text[] = "{\"schema\": \"kerf.error/1\", \"status\": 405, \"error\": "
                                   "\"this path has other methods: see Allow\"}\n";
        struct MHD_Response *response = MHD_create_response_from_buffer(
            sizeof text - 1, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
        if (response) MHD_add_response_header(response, "Allow", allowed);
        return reply_response(r, 405, response, "application/json");
    }
    if (!r->route)
        return reply_error(r, 404, "%.10s %.200s: there is no such path; /api/v1 lists them",
                           method, url);
    const char *type = header_of(r, "Content-Type"), *length = header_of(r, "Content-Length");
    if (length && strtoull(length, NULL, 10) > BODY_MOST)
        return reply_error(r, 413, "a body of %.20s bytes: %d may be", length, BODY_MOST);
    if (r->route->fields &&
        (!type || strncasecmp(type, "application/json", 16) != 0 || !strchr("; \t", type[16])))
        return reply_error(r, 415, "the body must be application/json");
    return -1;
}

static enum MHD_Result begin(struct MHD_Connection *c, const char *url, const char *method,
                             void **state)
{
    char allowed[40];
    const char *id;
    request *r = calloc(1, sizeof *r);
    if (!r) return MHD_NO;
    *state = r;
    r->connection = c;
    r->began_s = now_s();
    r->route = route_find(method, url, &id, allowed);
    if (r->route && id) r->id = strndup(id, strcspn(id, "/"));
    const int refused = refuse_early(r, method, url, allowed);
    return refused < 0 ? MHD_YES : (enum MHD_Result)refused;
}

static enum MHD_Result take_body(request *r, const char *p, size_t *n)
{
    const size_t more = *n;
    *n = 0;
    if (r->status) return MHD_YES;
    const int slow = now_s() - r->began_s > BODY_S;
    if (slow || r->size + more > PASSED_MOST) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info) refuse_on_socket(info->connect_fd, slow ? 408 : 413);
        return MHD_NO;
    }
    if (!r->route->fields || r->size + more > BODY_MOST) {
        r->size += more; /* not asked for, or too large: passed over, and counted */
        return MHD_YES;
    }
    if (r->size + more > r->room) {
        const size_t room = r->size + more > 4096 ? 2 * (r->size + more) : 4096;
        char *body = realloc(r->body, room);
        if (!body) return MHD_NO;
        r->body = body;
        r->room = room;
    }
    memcpy(r->body + r->size, p, more);
    r->size += more;
    return MHD_YES;
}

static int answer(request *r)
{
    kerf_error err = {0};
    json_error_t where;
    if (!r->route->fields) return r->route->answer(r);
    if (r->size > BODY_MOST) return reply_error(r, 413, "a body of more than %d bytes", BODY_MOST);
    if (now_s() - r->began_s > BODY_S) return reply_error(r, 408, "the body came too slowly");
    r->json = json_taken(r->body ? r->body : "", r->size, &where);
    if (!r->json && !where.text[0]) return reply_no_memory(r);
    if (!r->json)
        return reply_error(r, 400, "the body is no JSON: %s, at byte %d", where.text,
                           where.position);
    const kerf_status s = body_check(r->route, r->json, &err);
    return s == KERF_OK ? r->route->answer(r) : reply_failure(r, s, &err);
}

static void mark_busy(struct MHD_Connection *c, int busy);

static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *data, size_t *n,
                              void **state)
{
    request *r = *state;
    (void)ctx, (void)version;
    mark_busy(c, 1);
    if (!r) return begin(c, url, method, state);
    if (*n) return take_body(r, data, n);
    return r->status ? MHD_YES : (enum MHD_Result)answer(r);
}

static void completed(void *ctx, struct MHD_Connection *c, void **state,
                      enum MHD_RequestTerminationCode why)
{
    request *r = *state;
    (void)ctx, (void)why;
    mark_busy(c, 0);
    if (!r) return;
    pthread_mutex_lock(&counted.lock);
    counted.answers[r->status / 100 % CLASSES]++;
    counted.seconds += now_s() - r->began_s;
    pthread_mutex_unlock(&counted.lock);
    json_decref(r->json);
    free(r->body);
    free(r->id);
    free(r);
    *state = NULL;
}

/* --- connections --------------------------------------------------------------------------- */

/* A connection from its beginning to its end. Those that have begun no request HEADER_S after
 * they were opened, or IDLE_S after the last one, may be sending a header byte by byte. */
typedef struct link_ {
    struct link_ *next, **self;
    int fd, busy, used; /* used: it has had a request */
    double since_s;
} link_;

static link_ *links; /* under counted.lock */

static void notify(void *ctx, struct MHD_Connection *c, void **state,
                   enum MHD_ConnectionNotificationCode code)
{
    (void)ctx;
    pthread_mutex_lock(&counted.lock);
    link_ *l = *state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED && (l = calloc(1, sizeof *l)) != NULL) {
        l->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        l->since_s = now_s();
        l->next = links;
        l->self = &links;
        if (links) links->self = &l->next;
        links = l;
        *state = l;
        counted.connections++;
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && l) {
        *l->self = l->next;
        if (l->next) l->next->self = l->self;
        free(l);
        *state = NULL;
        counted.connections--;
    }
    pthread_mutex_unlock(&counted.lock);
}

static void mark_busy(struct MHD_Connection *c, int busy)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    link_ *l = info ? info->socket_context : NULL;
    if (!l || (l->busy && busy)) return;
    pthread_mutex_lock(&counted.lock);
    l->busy = busy;
    l->used = 1;
    l->since_s = now_s();
    pthread_mutex_unlock(&counted.lock);
}

void http_end_slow(void)
{
    pthread_mutex_lock(&counted.lock);
    const double now = now_s();
    for (link_ *l = links; l; l = l->next)
        if (!l->busy && now - l->since_s > (l->used ? IDLE_S : HEADER_S)) {
            if (!l->used) refuse_on_socket(l->fd, 408);
            shutdown(l->fd, SHUT_RDWR);
        }
    pthread_mutex_unlock(&counted.lock);
}

/* --- the listener -------------------------------------------------------------------------- */

static kerf_status address_of(struct sockaddr_storage *out, kerf_error *err)
{
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, serving.address, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)serving.port);
        return KERF_OK;
    }
    if (inet_pton(AF_INET6, serving.address, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)serving.port);
        return KERF_OK;
    }
    return USAGE(err, "--address %.60s: expected an address in numbers, as 127.0.0.1 or ::1",
                 serving.address);
}

/* Paths have no escapes: what is written with some is no path of this server. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *c, char *text)
{
    (void)ctx, (void)c;
    return strlen(text);
}

static void quiet_log(void *ctx, const char *fmt, va_list list)
{
    (void)ctx, (void)fmt, (void)list; /* what a client does wrong is the client's */
}

kerf_status http_start(struct MHD_Daemon **out, kerf_error *err)
{
    struct sockaddr_storage where;
    TRY(address_of(&where, err));
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           MHD_USE_ERROR_LOG | (where.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0u);
    errno = 0;
    *out = MHD_start_daemon(
        flags, (uint16_t)serving.port, NULL, NULL, handle, NULL, MHD_OPTION_EXTERNAL_LOGGER,
        quiet_log, NULL, MHD_OPTION_SOCK_ADDR, &where, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)serving.connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)24 << 10, MHD_OPTION_THREAD_POOL_SIZE, 2u,
        MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, notify, NULL,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_END);
    if (!*out)
        return kerf_fail(err, KERF_E_IO,
                         "cannot listen on %.60s port %d: %s; --port 0 takes a free one",
                         serving.address, serving.port, strerror(errno));
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(*out, MHD_DAEMON_INFO_BIND_PORT);
    serving_port = info ? info->port : serving.port;
    return KERF_OK;
}
