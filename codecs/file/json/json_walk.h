/* json_walk.h - reads a large JSON object member by member.
 *
 * jansson builds a tree of a whole document, a hundred bytes for each of the input in the worst
 * case. Headers and indexes are one object of up to a million members, so the object is cut at its
 * commas here and only the parts go to jansson: memory follows the largest member. Every byte
 * is still judged by jansson's grammar, except for the braces, commas and colons of the outer
 * object, which are judged here. What jansson has no opinion on (depth, form of numbers) is
 * checked once over the whole text before. */
#ifndef KERF_FILE_JSON_WALK_H
#define KERF_FILE_JSON_WALK_H

#include <jansson.h>

#include "base/base.h"

typedef struct kf_json_rules {
    unsigned max_depth;
    int integers_only; /* no sign, fraction or exponent                      */
    int brace_first;   /* the first byte is '{'; else white space may precede */
} kf_json_rules;

/* A text and what to call it in errors ("model.safetensors: header"). */
typedef struct kf_json {
    const char *what;
    const char *text;
    size_t n;
} kf_json;

typedef struct kf_member {
    kf_json key; /* with its quotes */
    kf_json value;
} kf_member;

typedef struct kf_json_walk {
    kf_json json;
    size_t at;
    int state;
} kf_json_walk;

/* One pass over the text: a single object, depth, numbers, no NUL, nothing behind it. On success
 * *members is how many members the outer object has at most. */
kerf_status kf_json_check(kf_json j, const kf_json_rules *rules, uint64_t *members,
                          kerf_error *err);

/* Steps through the members of a text that kf_json_check passed, or of a value inside of one. A
 * value that is no object is KERF_E_DATA. *more is 0 past the last. */
void kf_json_walk_init(kf_json_walk *w, kf_json j);
kerf_status kf_json_walk_next(kf_json_walk *w, kf_member *m, int *more, kerf_error *err);

/* Decodes a part that is a JSON string into dst, which has part.n bytes: a decoded string and its
 * NUL are never longer than the source with its two quotes. *length is without the NUL; SIZE_MAX:
 * the part is valid JSON but no string. */
kerf_status kf_json_string(kf_json part, char *dst, size_t *length, kerf_error *err);

/* Gives a part of the text to jansson; duplicate keys are refused. The caller decrefs. */
kerf_status kf_json_load(kf_json part, json_t **out, kerf_error *err);

#endif
