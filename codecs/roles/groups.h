/* groups.h - the rows of groups.def. */
#ifndef KERF_ROLES_GROUPS_H
#define KERF_ROLES_GROUPS_H

#include <kerf/roles.h>

#define KF_GROUP_MOST 4 /* the most members of a row */

enum {
#define KF_GROUP(ID, ...) KF_GROUP_##ID,
#include "roles/groups.def"
#undef KF_GROUP
    KF_GROUPS
};

typedef struct kf_fused_row {
    kerf_role role;
    const char *name, *module, *norm;
    struct {
        const char *name; /* NULL after the last */
        kerf_piece piece;
    } member[KF_GROUP_MOST];
} kf_fused_row;

extern const kf_fused_row kf_groups[KF_GROUPS];

/* The row that has the n bytes at `layer` as a member, which is in *piece; NULL: none has. */
const kf_fused_row *kf_group_find(const char *layer, size_t n, kerf_piece *piece);

#endif
