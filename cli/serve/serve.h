/* serve.h - kerf serve as the verb starts it: what it may read, what it may write, who may ask. */
#ifndef KERF_SERVE_H
#define KERF_SERVE_H

#include <stdatomic.h>

#include "cli.h"

enum { SERVE_FOLDERS = 16 };

typedef struct serve_options {
    const char *address;             /* "127.0.0.1"                                     */
    int port;                        /* 0: one that is free                             */
    const char *token;               /* NULL: none is asked for                         */
    const char *host[SERVE_FOLDERS]; /* names that requests may be for, besides address */
    size_t hosts;
    const char *models[SERVE_FOLDERS]; /* the only folders that are read                  */
    size_t model_folders;
    const char *output; /* the only folder that is written to; NULL: none          */
    int connections;    /* at most                                                 */
    double drain_s;     /* how long running jobs may go on after SIGTERM           */
    double interval_s;  /* between two readings of the monitor                     */
    int json;           /* says where it serves as a document                      */
} serve_options;

/* Serves until SIGTERM or SIGINT. KERF_E_NOSUP: this kerf was built without libmicrohttpd. */
kerf_status serve(const serve_options *o, kerf_error *err);

/* The page as one file that works from disk, with the answers that its controls can ask for. */
typedef struct page_options {
    const char *path;
    const char *advice;   /* a document of kerf advise --json; NULL: no frontier         */
    const char *hardware; /* NULL: the advice's, or h200                                 */
    const char *model;    /* a config.json or its folder; NULL: the advice's where it is */
    const char *shapes;   /* of products, "NxK,NxK"; NULL: of common models              */
    int overwrite;
} page_options;

kerf_status page_write(const page_options *o, kerf_error *err);

/* The one server of this process: set before its threads start, then only read. */
extern serve_options serving;
extern atomic_int serving_port; /* known when it listens; its threads ask */

#endif
