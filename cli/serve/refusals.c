/* refusals.c - answers to requests that are not valid HTTP. libmicrohttpd answers those that it
 * finds by a page of HTML, which no option changes, through MHD_queue_response: a function of that
 * name here is linked in place of the library's, and answers with JSON as the rest of the API does.
 * Requests that libmicrohttpd accepts, but that a proxy before this server could read otherwise,
 * are refused here. */
#include "serve/refusals.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static const struct {
    int status;
    const char *name, *error;
} refusals[] = {
    {400, "Bad Request", "this is no request as HTTP/1.1 has them"},
    {408, "Request Timeout", "the request came too slowly"},
    {413, "Content Too Large", "the body is too large"},
    {414, "URI Too Long", "the address is too long"},
    {431, "Request Header Fields Too Large", "the header is too large"},
};

/* The row of a status; the first one for those that it lacks: whatever a request has made of the
 * library, the request was at fault. */
static size_t row_of(unsigned status)
{
    size_t i = sizeof refusals / sizeof *refusals - 1;
    while (i && refusals[i].status != (int)status) i--;
    return i;
}

void refuse_on_socket(int fd, unsigned status)
{
    char body[256], text[512], passed[4096];
    const size_t row = row_of(status);
    const int n = snprintf(body, sizeof body,
                           "{\"schema\": \"kerf.error/1\", \"status\": %d, \"error\": \"%s\"}\n",
                           refusals[row].status, refusals[row].error);
    const int all = snprintf(text, sizeof text,
                             "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                             "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                             refusals[row].status, refusals[row].name, n, body);
    (void)!send(fd, text, (size_t)all, MSG_NOSIGNAL | MSG_DONTWAIT);
    /* What was sent and not read would make the end of the connection cut the answer too. */
    for (int i = 0; i < 64 && recv(fd, passed, sizeof passed, MSG_DONTWAIT) > 0; i++) continue;
}

/* --- what the library refuses ---------------------------------------------------------------- */

#ifndef KERF_STATIC_MICROHTTPD /* of which the library's own calls would go past this */

typedef enum MHD_Result queue_function(struct MHD_Connection *, unsigned, struct MHD_Response *);

static _Thread_local int is_ours;

/* Both threads of the server come here. */
static queue_function *queue_of_library(void)
{
    static _Atomic(queue_function *) known;
    queue_function *found = known;
    if (!found) {
        void *p = dlsym(RTLD_NEXT, "MHD_queue_response");
        memcpy(&found, &p, sizeof found);
        known = found;
    }
    return found;
}

__attribute__((visibility("default"))) enum MHD_Result
MHD_queue_response(struct MHD_Connection *c, unsigned status, struct MHD_Response *response)
{
    queue_function *queue = queue_of_library();
    if (is_ours && queue) return queue(c, status, response);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info) refuse_on_socket(info->connect_fd, status);
    return MHD_NO; /* and the library ends the connection */
}

enum MHD_Result queue_answer(struct MHD_Connection *c, unsigned status,
                             struct MHD_Response *response)
{
    is_ours = 1;
    const enum MHD_Result queued = MHD_queue_response(c, status, response);
    is_ours = 0;
    return queued;
}

#else

enum MHD_Result queue_answer(struct MHD_Connection *c, unsigned status,
                             struct MHD_Response *response)
{
    return MHD_queue_response(c, status, response);
}

#endif

/* --- what it lets pass ----------------------------------------------------------------------- */

typedef struct framing {
    int hosts, lengths, chunked, other;
} framing;

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    framing *f = ctx;
    (void)kind;
    f->hosts += strcasecmp(key, "Host") == 0;
    f->lengths += strcasecmp(key, "Content-Length") == 0;
    if (strcasecmp(key, "Transfer-Encoding") != 0) return MHD_YES;
    f->chunked++;
    f->other |= !value || strcasecmp(value, "chunked") != 0;
    return MHD_YES;
}

const char *framing_fault(struct MHD_Connection *c)
{
    framing f = {0};
    MHD_get_connection_values(c, MHD_HEADER_KIND, count_header, &f);
    if (f.hosts > 1) return "more than one header Host";
    if (f.lengths + f.chunked > 1) return "a body has one Content-Length, or is chunked";
    return f.other ? "Transfer-Encoding: only chunked is known" : NULL;
}
