/* http.h - one request on its way: what came, what is answered, and the functions of the routes. */
#ifndef KERF_HTTP_H
#define KERF_HTTP_H

#include <jansson.h>
#include <microhttpd.h>

#include "serve/routes.h"
#include "serve/serve.h"

enum {
    BODY_MOST = 1 << 20,
    BODY_S = 30,  /* a body must be there after so many seconds   */
    HEADER_S = 10 /* the first request's header, or the connection ends */
};

typedef struct request {
    struct MHD_Connection *connection;
    const route *route; /* NULL: none */
    char *id;           /* of a job; NULL: the route has none */
    char *body;
    size_t size, room;
    json_t *json; /* the body, checked; NULL: the route has none */
    double began_s;
    int status; /* that was answered; 0: not yet */
} request;

/* Answers, which take the response; each returns what MHD wants of a handler: MHD_YES or MHD_NO. */
int reply_text(request *r, int status, const char *type, char *text, size_t n); /* takes text */
int reply_static(request *r, int status, const char *type, const char *text, size_t n);
int reply_json(request *r, int status, json_t *doc); /* takes doc; NULL: 503 */
int reply_error(request *r, int status, const char *fmt, ...) KERF_PRINTF(3, 4);
int reply_failure(request *r, kerf_status s, const kerf_error *err);
json_t *failure_json(kerf_status s, const kerf_error *err); /* what that answers */
int reply_response(request *r, int status, struct MHD_Response *response, const char *type);

/* The rows' functions. */
int answer_index(request *r);
int answer_openapi(request *r);
int answer_health(request *r);
int answer_verb(request *r);
int answer_models(request *r);
int answer_analyze(request *r);
int answer_sweep(request *r);
int answer_submit(request *r);
int answer_jobs(request *r);
int answer_job(request *r);
int answer_cancel(request *r);
int answer_result(request *r);
int answer_events(request *r);
int answer_solve(request *r);
int answer_monitor(request *r);
int answer_monitor_stream(request *r);
int answer_metrics(request *r);
int answer_page(request *r);

/* Opens the listener; *out is stopped by MHD_stop_daemon. */
kerf_status http_start(struct MHD_Daemon **out, kerf_error *err);
/* Ends connections that keep the next header back. */
void http_end_slow(void);
/* Counters of requests and connections, as Prometheus reads them, appended to a text. */
void http_metrics(FILE *to);

#endif
