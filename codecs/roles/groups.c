/* groups.c - finds the layers that runtimes merge with another one, by the part of its name in
 * which they differ. */
#include "roles/groups.h"

#include <string.h>

const kf_fused_row kf_groups[KF_GROUPS] = {
#define KF_GROUP(ID, role, name, module, norm, ...) \
    {KERF_ROLE_##role, name, module, norm, {__VA_ARGS__}},
#include "roles/groups.def"
#undef KF_GROUP
};

const char *kerf_piece_fused(kerf_piece p)
{
    for (size_t g = 0; p != KERF_PIECE_NONE && g < KF_GROUPS; g++)
        for (size_t i = 0; i < KF_GROUP_MOST && kf_groups[g].member[i].name; i++)
            if (kf_groups[g].member[i].piece == p) return kf_groups[g].name;
    return NULL;
}

const kf_fused_row *kf_group_find(const char *layer, size_t n, kerf_piece *piece)
{
    for (size_t g = 0; g < KF_GROUPS; g++) {
        for (size_t i = 0; i < KF_GROUP_MOST && kf_groups[g].member[i].name; i++) {
            const char *member = kf_groups[g].member[i].name;
            if (strlen(member) != n || memcmp(member, layer, n) != 0) continue;
            *piece = kf_groups[g].member[i].piece;
            return &kf_groups[g];
        }
    }
    return NULL;
}
