/* families.c - the tables of families.def and patterns.def, and the row of a name. */
#include "roles/families.h"

#include <ctype.h>
#include <string.h>

#define CONV1D KF_FAMILY_CONV1D
#define STACKS_TURNED KF_FAMILY_STACKS_TURNED
#define ALTERNATES KF_FAMILY_ALTERNATES
#define ONE_TOWER KF_FAMILY_ONE_TOWER
#define EVEN KF_FAMILY_EVEN

const kf_family kf_families[] = {
#define KF_FAMILY(names, flags, ...) {names, flags, {__VA_ARGS__}},
#include "roles/families.def"
#undef KF_FAMILY
};
const size_t kf_family_count = sizeof kf_families / sizeof *kf_families;

#define KF_AROUND(...)
#define KF_AROUND_PARAMETER(...)
#define KF_AROUND_EXPERTS(...)
#define KF_AROUND_NORM(...)
const kf_pattern kf_patterns[] = {
#define KF_PATTERN(names, role, piece) {names, KERF_ROLE_##role, KERF_PIECE_##piece},
#include "roles/patterns.def"
#undef KF_PATTERN
};
const size_t kf_pattern_count = sizeof kf_patterns / sizeof *kf_patterns;
#undef KF_AROUND
#undef KF_AROUND_PARAMETER
#undef KF_AROUND_EXPERTS
#undef KF_AROUND_NORM

#define KF_PATTERN(...)
const kf_around kf_arounds[] = {
#define KF_AROUND(parts, role) {parts, KERF_ROLE_##role, KF_AROUND_ALL},
#define KF_AROUND_PARAMETER(parts, role) {parts, KERF_ROLE_##role, KF_AROUND_SMALL},
#define KF_AROUND_EXPERTS(parts, role) {parts, KERF_ROLE_##role, KF_AROUND_MLP},
#define KF_AROUND_NORM(parts, role) {parts, KERF_ROLE_##role, KF_AROUND_UNKNOWN},
#include "roles/patterns.def"
};
const size_t kf_around_count = sizeof kf_arounds / sizeof *kf_arounds;

/* Letters and digits alone, and no difference between large and small ones. */
static int is_same(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0, k = 0;
    for (;;) {
        while (i < n && !isalnum((unsigned char)a[i])) i++;
        while (k < m && !isalnum((unsigned char)b[k])) k++;
        if (i == n || k == m) return i == n && k == m;
        if (tolower((unsigned char)a[i++]) != tolower((unsigned char)b[k++])) return 0;
    }
}

/* Bytes of a class name without what it is for. */
static size_t stem_of(const char *name)
{
    static const char *const ends[] = {"ForCausalLM",
                                       "ForConditionalGeneration",
                                       "LMHeadModel",
                                       "ForMaskedLM",
                                       "ForSequenceClassification",
                                       "ForTokenClassification",
                                       "ChatModel",
                                       "Model"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strcmp(name + n - m, ends[i]) == 0) return n - m;
    }
    return n;
}

static const kf_family *find(const char *name, size_t n)
{
    for (size_t i = 0; n > 0 && i < kf_family_count; i++) {
        for (const char *at = kf_families[i].names; *at;) {
            const size_t m = strcspn(at, " ");
            if (is_same(at, m, name, n)) return &kf_families[i];
            at += m + (at[m] == ' ');
        }
    }
    return NULL;
}

const kf_family *kf_family_find(const char *name)
{
    const kf_family *f = find(name, strlen(name));
    return f ? f : find(name, stem_of(name));
}

const char *kerf_family_at(size_t i)
{
    return i < kf_family_count ? kf_families[i].names : NULL;
}
