/* families.h - the rows of families.def and patterns.def. */
#ifndef KERF_ROLES_FAMILIES_H
#define KERF_ROLES_FAMILIES_H

#include <kerf/roles.h>

enum {
    KF_FAMILY_CONV1D = 1,
    KF_FAMILY_STACKS_TURNED = 2,
    KF_FAMILY_ALTERNATES = 4,
    KF_FAMILY_ONE_TOWER = 8,
    KF_FAMILY_EVEN = 16
};

typedef struct kf_pattern {
    const char *names; /* NULL after the last */
    kerf_role role;
    kerf_piece piece;
} kf_pattern;

#define KF_FAMILY_PATTERNS 10

typedef struct kf_family {
    const char *names;
    unsigned flags;
    kf_pattern pattern[KF_FAMILY_PATTERNS];
} kf_family;

/* What stands around a tensor. */
typedef struct kf_around {
    const char *parts;
    kerf_role role;
    enum { KF_AROUND_ALL, KF_AROUND_SMALL, KF_AROUND_MLP, KF_AROUND_UNKNOWN } of;
} kf_around;

extern const kf_family kf_families[];
extern const size_t kf_family_count;
extern const kf_pattern kf_patterns[];
extern const size_t kf_pattern_count;
extern const kf_around kf_arounds[];
extern const size_t kf_around_count;

/* The row with this name; "Qwen3ForCausalLM" is found as qwen3 is. NULL: none. */
const kf_family *kf_family_find(const char *name);

#endif
