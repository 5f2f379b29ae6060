/* streams.h - server-sent events: a topic has events, and any number of clients that read them. */
#ifndef KERF_SERVE_STREAMS_H
#define KERF_SERVE_STREAMS_H

#include "serve/http.h"

typedef struct topic topic;

topic *topic_open(void); /* NULL: no memory */
/* Tells all readers; data is one line. The last events are kept for those that come later. */
void topic_publish(topic *t, const char *event, const char *data);
/* Readers, also those that come later, end after the last event. */
void topic_end(topic *t);
/* The same, and gives the topic up: it is freed with its last reader. NULL is fine. */
void topic_close(topic *t);

/* Answers with the topic's events from the oldest that is kept on. */
int topic_reply(request *r, topic *t);

/* Lets streams that have been silent for some seconds say so, which finds clients that are gone. */
void streams_beat(void);
size_t streams_count(void);
/* Gives streams whose topics have ended so long to send what is left of them. */
void streams_wait(double seconds);

#endif
