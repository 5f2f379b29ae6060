/* server.c - starts what serves, waits for the signal that ends it, and ends it in order: no new
 * job, running jobs to their end or to where the next server goes on, then the streams. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/host.h"
#include "serve/jobs.h"
#include "serve/json_taken.h"
#include "serve/monitoring.h"
#include "serve/page.h"
#include "serve/streams.h"

serve_options serving;
atomic_int serving_port;

int answer_page(request *r)
{
    static const struct {
        const char *path;
        const unsigned char *text;
        const size_t *size;
    } files[] = {{"/", page_html, &page_html_size},
                 {"/page.css", page_css, &page_css_size},
                 {"/page.js", page_js, &page_js_size}};
    char type[64];
    snprintf(type, sizeof type, "%.40s; charset=utf-8", r->route->type);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].path, r->route->path) == 0)
            return reply_static(r, 200, type, (const char *)files[i].text, *files[i].size);
    return reply_error(r, 404, "there is no such page");
}

static void say_where(void)
{
    const int six = strchr(serving.address, ':') != NULL;
    char url[160];
    snprintf(url, sizeof url, "http://%s%.60s%s:%d/", six ? "[" : "", serving.address,
             six ? "]" : "", serving_port);
    if (serving.json)
        printf("{\"schema\": \"kerf.serve/1\", \"url\": \"%s\", \"port\": %d}\n", url,
               serving_port);
    else
        printf("serving %s\n", url);
    fflush(stdout);
}

/* Signals are taken here and nowhere else. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void wait_for_end(const sigset_t *set)
{
    const struct timespec second = {1, 0};
    for (;;) {
        const int number = sigtimedwait(set, NULL, &second);
        if (number > 0) return;
        http_end_slow();
        streams_beat();
    }
}

kerf_status serve(const serve_options *o, kerf_error *err)
{
    struct MHD_Daemon *daemon = NULL;
    sigset_t set;
    serving = *o;
    if (!address_is_loopback(o->address) && !o->token)
        return USAGE(err, "--address %.60s: others than the loopback need --token TEXT|@FILE",
                     o->address);
    json_goes_on();
    block_signals(&set);
    TRY(monitoring_start(err));
    kerf_status s = jobs_open(err);
    if (s == KERF_OK) s = http_start(&daemon, err);
    if (s == KERF_OK) {
        say_where();
        wait_for_end(&set);
        jobs_close(o->drain_s); /* meanwhile it answers, but takes no job */
        monitoring_stop();
        streams_wait(1);
        MHD_stop_daemon(daemon);
    } else {
        jobs_close(0);
        monitoring_stop();
    }
    monitoring_close();
    return s;
}
