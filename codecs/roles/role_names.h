/* role_names.h - a name of a tensor cut into its parts, and the patterns that are held against it
 * (patterns.def says how they are written). */
#ifndef KERF_ROLES_ROLE_NAMES_H
#define KERF_ROLES_ROLE_NAMES_H

#include <kerf/roles.h>

#define KF_NAME_PARTS 32 /* of longer names the last ones */

typedef struct kf_parts {
    const char *text; /* the whole name */
    struct {
        unsigned at, bytes;
        int is_number;
    } part[KF_NAME_PARTS];
    int count;             /* without the parameter at the end                       */
    int layer;             /* the first number; -1: there is none                    */
    int expert;            /* 1: a part is "expert_3", or "experts" with a number behind it */
    const char *parameter; /* "weight", "bias", ...; "": the module's name is all there is */
} kf_parts;

void kf_parts_cut(const char *name, kf_parts *out);

/* 1: one of the alternatives fits the end of the name. *first: the part at which the fit begins. */
int kf_parts_end_in(const kf_parts *p, const char *patterns);

/* The first part that one of the alternatives fits; -1: none. */
int kf_parts_around(const kf_parts *p, const char *patterns);

#endif
