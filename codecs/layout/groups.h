/* groups.h - the rows of groups.def. */
#ifndef KERF_LAYOUT_GROUPS_H
#define KERF_LAYOUT_GROUPS_H

#include <kerf/layouts.h>

enum {
#define KF_GROUP(ID, ...) KF_GROUP_##ID,
#include "layout/groups.def"
#undef KF_GROUP
    KF_GROUPS
};

typedef struct kf_group {
    const char *name, *module, *norm;
    const char *member[KERF_FUSED_MOST]; /* NULL after the last */
} kf_group;

extern const kf_group kf_groups[KF_GROUPS];

/* The row that has the n bytes at `layer` as a member; NULL: none has. */
const kf_group *kf_group_find(const char *layer, size_t n);

#endif
