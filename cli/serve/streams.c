/* streams.c - a stream without news is suspended: it takes no thread, some hundred bytes, and the
 * memory of its connection. Events are shared by all readers. */
#include "serve/streams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "progress.h"

enum { KEPT = 64, SILENT_S = 15, BLOCK = 1024 };

typedef struct event_text {
    size_t holders, n;
    char text[];
} event_text;

struct topic {
    event_text *kept[KEPT]; /* event number i is kept[i % KEPT] */
    uint64_t first, next;
    size_t readers;
    int ended, given_up;
};

typedef struct stream {
    struct stream *following, **self;
    topic *topic;
    struct MHD_Connection *connection;
    uint64_t at;      /* number of the event that comes next */
    event_text *text; /* that is being sent; NULL: none      */
    size_t sent;
    int suspended, beat;
    double told_s;
} stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static stream *streams;
static size_t count;

/* --- events -------------------------------------------------------------------------------- */

static void let_go(event_text *e)
{
    if (e && --e->holders == 0) free(e);
}

static void free_topic(topic *t)
{
    for (size_t i = 0; i < KEPT; i++) let_go(t->kept[i]);
    free(t);
}

static void wake(stream *s)
{
    if (!s->suspended) return;
    s->suspended = 0;
    MHD_resume_connection(s->connection);
}

static void wake_all(const topic *t)
{
    for (stream *s = streams; s; s = s->following)
        if (s->topic == t) wake(s);
}

topic *topic_open(void)
{
    return calloc(1, sizeof(topic));
}

void topic_publish(topic *t, const char *event, const char *data)
{
    const size_t room = strlen(event) + strlen(data) + 32;
    event_text *e = malloc(sizeof *e + room);
    if (!e) return;
    e->holders = 1;
    e->n = (size_t)snprintf(e->text, room, "event: %s\ndata: %s\n\n", event, data);
    pthread_mutex_lock(&lock);
    let_go(t->kept[t->next % KEPT]);
    t->kept[t->next % KEPT] = e;
    if (++t->next - t->first > KEPT) t->first++;
    wake_all(t);
    pthread_mutex_unlock(&lock);
}

static void end_topic(topic *t)
{
    t->ended = 1;
    wake_all(t);
}

void topic_end(topic *t)
{
    pthread_mutex_lock(&lock);
    end_topic(t);
    pthread_mutex_unlock(&lock);
}

void topic_close(topic *t)
{
    if (!t) return;
    pthread_mutex_lock(&lock);
    end_topic(t);
    t->given_up = 1;
    const int unread = t->readers == 0;
    pthread_mutex_unlock(&lock);
    if (unread) free_topic(t);
}

/* --- streams ------------------------------------------------------------------------------- */

/* Puts what comes next into s->text; 0: there is nothing. */
static int take_next(stream *s)
{
    static event_text *beat;
    topic *t = s->topic;
    if (s->at < t->first) s->at = t->first; /* it reads slower than things happen */
    if (s->at < t->next) {
        s->text = t->kept[s->at++ % KEPT];
    } else if (s->beat && !t->ended) {
        if (!beat && (beat = malloc(sizeof *beat + 8)) != NULL) {
            beat->holders = 1;
            beat->n = 3;
            memcpy(beat->text, ":\n\n", 4);
        }
        s->text = beat;
    }
    s->beat = 0;
    s->sent = 0;
    if (s->text) s->text->holders++;
    return s->text != NULL;
}

static ssize_t read_stream(void *ctx, uint64_t pos, char *to, size_t most)
{
    stream *s = ctx;
    ssize_t n = 0;
    (void)pos;
    pthread_mutex_lock(&lock);
    if (s->text || take_next(s)) {
        const size_t left = s->text->n - s->sent;
        n = (ssize_t)(left < most ? left : most);
        memcpy(to, s->text->text + s->sent, (size_t)n);
        s->sent += (size_t)n;
        s->told_s = now_s();
        if (s->sent == s->text->n) {
            let_go(s->text);
            s->text = NULL;
        }
    } else if (s->topic->ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        s->suspended = 1;
        MHD_suspend_connection(s->connection);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

static void end_stream(void *ctx)
{
    stream *s = ctx;
    pthread_mutex_lock(&lock);
    *s->self = s->following;
    if (s->following) s->following->self = s->self;
    count--;
    let_go(s->text);
    topic *t = s->topic;
    const int last = --t->readers == 0 && t->given_up;
    pthread_mutex_unlock(&lock);
    if (last) free_topic(t);
    free(s);
}

int topic_reply(request *r, topic *t)
{
    stream *s = calloc(1, sizeof *s);
    if (!s) return reply_error(r, 503, "no memory for a stream");
    s->topic = t;
    s->connection = r->connection;
    s->told_s = now_s();
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, s, end_stream);
    if (!response) {
        free(s);
        return reply_error(r, 503, "no memory for a stream");
    }
    pthread_mutex_lock(&lock);
    t->readers++;
    s->at = t->first;
    s->following = streams;
    s->self = &streams;
    if (streams) streams->self = &s->following;
    streams = s;
    count++;
    pthread_mutex_unlock(&lock);
    return reply_response(r, 200, response, "text/event-stream");
}

void streams_beat(void)
{
    const double now = now_s();
    pthread_mutex_lock(&lock);
    for (stream *s = streams; s; s = s->following) {
        if (now - s->told_s < SILENT_S) continue;
        s->beat = 1;
        wake(s);
    }
    pthread_mutex_unlock(&lock);
}

size_t streams_count(void)
{
    pthread_mutex_lock(&lock);
    const size_t n = count;
    pthread_mutex_unlock(&lock);
    return n;
}

void streams_wait(double seconds)
{
    const struct timespec step = {0, 10000000};
    for (const double end = now_s() + seconds; streams_count() && now_s() < end;)
        nanosleep(&step, NULL);
}
