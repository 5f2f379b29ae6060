/* routes.h - the table of all that can be asked: its rows check requests, become command lines of
 * verbs, and are the OpenAPI document. */
#ifndef KERF_ROUTES_H
#define KERF_ROUTES_H

#include <jansson.h>

#include "cli.h"

/* What a field of a request holds. */
typedef enum field_kind {
    FIELD_INTEGER,  /* [lo, hi]                                          */
    FIELD_NUMBER,   /* [lo, hi]                                          */
    FIELD_SWITCH,   /* true gives the option                             */
    FIELD_WORD,     /* one of `words`, "a|b|c"                           */
    FIELD_HARDWARE, /* a name of the registry                            */
    FIELD_FORMAT,   /* a name of the table of formats                    */
    FIELD_FORMATS,  /* a list of those                                   */
    FIELD_CODEC,    /* "nvfp4", "nvfp4:4/6"                              */
    FIELD_CODECS,   /* a list of those, or of patterns                   */
    FIELD_LIMITS,   /* a list of budgets, "4.5bits"                      */
    FIELD_RANGE,    /* "128:256"                                         */
    FIELD_GLOBS,    /* a list of patterns of tensor names                */
    FIELD_RULES,    /* a list of "GLOB=FORMAT"                           */
    FIELD_INTEGERS, /* a list, each in [lo, hi]                          */
    FIELD_SHAPES,   /* a list of [outputs, inputs]                       */
    FIELD_MODEL,    /* a path below a folder of --models                 */
    FIELD_MODELS,   /* a list of those                                   */
    FIELD_CONFIG,   /* an object: a config.json                          */
    FIELD_OUTPUT    /* a name in the folder of --output                  */
} field_kind;

int field_is_list(field_kind k);
enum { FIELD_LIST_MOST = 64 };

typedef struct field {
    const char *name;
    field_kind kind;
    int required;
    const char *option; /* of the verb; NULL: an operand; "": the endpoint takes it itself */
    double lo, hi;
    const char *words;
    const char *note;
    int repeats; /* a list gives the option again and again, else joined by commas */
} field;

struct request;

typedef struct route {
    const char *method, *path; /* "{id}" stands for the number of a job */
    const char *note;
    const char *verb;    /* whose --json answers; NULL: none                  */
    const field *fields; /* of the body, ended by an empty row; NULL: no body */
    const char *operand; /* of the verb, before its options; NULL: none       */
    int (*answer)(struct request *r);
    const char *schema;  /* of the answer; NULL: another type than JSON       */
    const char *type;    /* where that is no JSON                             */
    const char *example; /* of the body                                       */
    int status;          /* of success                                        */
} route;

const route *route_at(size_t i); /* NULL past the end; of verbs that this kerf has alone */
/* The row of a method and path; *id: what stands for {id}, else NULL; *allowed (40 bytes): the
 * methods of this path, "" where there is no such path. */
const route *route_find(const char *method, const char *path, const char **id, char *allowed);

/* Whether a value is one that the field may hold: KERF_E_ARG says what it may. */
kerf_status field_check(const field *f, const json_t *value, kerf_error *err);
/* The same of a whole body: all fields are known, and those that are required are there. */
kerf_status body_check(const route *r, const json_t *body, kerf_error *err);

/* The OpenAPI document of the table. */
json_t *openapi_document(int with_token);

#endif
