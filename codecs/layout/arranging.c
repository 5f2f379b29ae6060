/* arranging.c - making weights whose planes are views of stored tensors. */
#include "layout/arranging.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "roles/groups.h"

static const char down_name[] = "down_proj";
const char kf_experts_mark[] = "experts.";

size_t kf_before_expert(const char *name, uint64_t *number)
{
    const size_t n = strlen(kf_experts_mark);
    size_t found = 0;
    for (const char *at = name; (at = strstr(at, kf_experts_mark)) != NULL; at += n) {
        const size_t digits = strspn(at + n, "0123456789");
        if ((at != name && at[-1] != '.') || digits == 0 || digits > 9 || at[n + digits] != '.')
            continue;
        found = (size_t)(at - name) + n;
        if (number) *number = strtoull(at + n, NULL, 10);
    }
    return found;
}

uint64_t kf_stacked_singles(const kerf_weight *w)
{
    uint64_t n = 1;
    for (unsigned i = 0; i + 2 < w->shape.rank; i++) n *= w->shape.dim[i];
    return n > 1 && w->whole && kf_before_expert(w->whole, NULL) ? n : 0;
}

char *kf_stacked_name(const kerf_weight *w, uint64_t expert, char *out, size_t size)
{
    const size_t n = kf_before_expert(w->whole, NULL);
    const char *rest = w->whole + n;
    snprintf(out, size, "%.*s%llu%s", (int)n, w->whole, (unsigned long long)expert,
             rest + strspn(rest, "0123456789"));
    return out;
}

/* gate and up are a row of groups.def. */
const char *kf_single_end(int which)
{
    return which == KF_SINGLE_DOWN ? down_name : kf_groups[KF_GROUP_GATE_UP].member[which].name;
}

const char *kf_stack_end(int which, char out[KF_STACK_END])
{
    const int is_down = which == KF_DOWN || which == KF_DOWN_BIAS;
    snprintf(out, KF_STACK_END, "%s%s", is_down ? down_name : kf_groups[KF_GROUP_GATE_UP].name,
             which < KF_GATE_UP_BIAS ? "" : "_bias");
    return out;
}

kerf_status kf_arrange_no_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for experts");
}

void *kf_arrange_keep(kf_arranging *a, uint64_t count, size_t size)
{
    return kf_weights_own(a->out, count, size);
}

kerf_status kf_arrange_append(kf_arranging *a, const kerf_weight *w)
{
    if (!a->at || a->count == a->room) {
        const size_t room = a->count + (a->count < 64 ? 64 : a->count / 2);
        kerf_weight *more = realloc(a->at, room * sizeof *more);
        if (!more) return kf_arrange_no_memory(a->err);
        if (!a->at && a->count > 0) memcpy(more, a->out->weight, a->count * sizeof *more);
        a->at = more;
        a->room = room;
    }
    a->at[a->count++] = *w;
    return KERF_OK;
}

char *kf_arrange_name(kf_arranging *a, const char *prefix, size_t n, const char *rest)
{
    char *name = kf_arrange_keep(a, n + strlen(rest) + 1, 1);
    if (name) snprintf(name, n + strlen(rest) + 1, "%.*s%s", (int)n, prefix, rest);
    return name;
}

kerf_status kf_arrange_tensor(kf_arranging *a, const kerf_tensor *from, const char *name,
                              kerf_shape shape, kerf_view v, const kerf_tensor **out)
{
    struct {
        kerf_tensor tensor;
        kerf_view view;
        const kerf_tensor *from;
    } *made = kf_arrange_keep(a, 1, sizeof *made);
    uint64_t count, bytes;
    if (!made) return kf_arrange_no_memory(a->err);
    KF_TRY(kerf_shape_count(&shape, &count, a->err));
    v.size = kerf_dtype_bits(from->dtype) / 8;
    if (!kf_mul_ok(count, v.size, &bytes))
        return kf_fail(a->err, KERF_E_RANGE, KF_NOWHERE, "%s: too large", name);
    made->tensor = (kerf_tensor){.name = name, .dtype = from->dtype, .shape = shape};
    made->tensor.bytes = bytes;
    made->tensor.shard = from->shard;
    made->tensor.view = &made->view;
    made->from = from;
    if (kf_stored_bytes(from) != from->bytes) /* a share of what others made of it */
        v.stored_bytes =
            (uint64_t)((double)kf_stored_bytes(from) * (double)bytes / (double)from->bytes);
    if (!v.parts) v.from = &made->from;
    made->view = v;
    *out = &made->tensor;
    return KERF_OK;
}

const kerf_weight *kf_expert_find(const kerf_weights *w, const char *like, size_t prefix,
                                  const char *rest)
{
    char name[KERF_MAX_NAME_BYTES + 64];
    snprintf(name, sizeof name, "%.*s%s", (int)prefix, like, rest);
    return kerf_weights_find(w, name);
}

int kf_is_plain(const kerf_weight *w)
{
    const unsigned bits = kerf_dtype_bits(w->dtype);
    return !w->codec.format && !w->plane[0]->block_type && bits > 0 && bits % 8 == 0;
}
