/* properties.c - laws that hold for every input, on random tensors: 10^7 elements each in full,
 * 10^5 otherwise. An encoder without a line in exhaustive/oracle.c fails. */
#include "property/laws.h"

/* --- running ---------------------------------------------------------------------------------- */

typedef struct law {
    const char *name;
    unsigned trait; /* that an encoder must have; 0: all do */
    uint64_t (*check)(subject *s);
} law;

static const law laws[] = {
    {"decoding, encoding and decoding again changes nothing", ORACLE_IDEMPOTENT, decoding_again},
    {"monotone within a group", 0, monotone},
    {"sign-symmetric", ORACLE_SYMMETRIC, symmetric},
    {"a factor of 2^k moves the scales only", ORACLE_SCALES, scaling},
    {"error at most half a step", ORACLE_NEAREST, half_a_step},
    {"a tail is padded with zeros; neighbours do not show", ORACLE_PADS, tails},
    {"search is never worse than the simple rule", 0, search_wins},
    {"4/6 is never worse than 6, sweep never worse than 4/6", 0, four_over_six_wins},
    {"every byte of the planes, and no other, is written", 0, inside_the_planes},
};
enum { LAWS = sizeof laws / sizeof *laws, MAX_SUBJECTS = 512 };

static subject subjects[MAX_SUBJECTS];
static size_t subject_count;

/* From fp32 where it is taken; encoders to which the type matters from every type. */
static size_t add_subjects(kerf_codec codec, const oracle_rule *rule)
{
    static const kerf_dtype types[] = {KERF_F32, KERF_BF16, KERF_F16};
    size_t added = 0;
    for (int i = 0; i < 3 && subject_count < MAX_SUBJECTS; i++) {
        if (!takes_source(codec, types[i])) continue;
        if (added > 0 && !(rule->traits & ORACLE_TYPED)) continue;
        subjects[subject_count++] = (subject){.codec = codec, .rule = rule, .dtype = types[i]};
        added++;
    }
    return added;
}

/* Whole blocks of ggml, whose bytes peers/ compares: these laws hold for them besides. Weighted
 * encoders need weights, and are no function of the numbers alone. */
static const oracle_rule *rule_of(kerf_codec codec)
{
    static const oracle_rule blocks = {.family = KERF_FAMILY_SUPER, .traits = ORACLE_SCALES};
    if (codec.format->geometry != KERF_GROUP_SUPER) return oracle_find(codec);
    return strcmp(codec.encoder->name, "ggml") == 0 ? &blocks : NULL;
}

static int list_subjects(size_t *codecs)
{
    int missing = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++, ++*codecs) {
            kerf_codec codec = {f, kerf_encoder_at(f, e)};
            const oracle_rule *rule = rule_of(codec);
            if (rule && add_subjects(codec, rule) > 0) continue;
            if (!rule && f->geometry == KERF_GROUP_SUPER) continue;
            printf("%s:%s: no line in tests/exhaustive/oracle.c, or no source\n", f->name,
                   codec.encoder->name);
            missing++;
        }
    }
    return missing;
}

/* Every codec once. */
static uint64_t run_round(const law *l, uint64_t seed)
{
    uint64_t n = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : n)
    for (size_t i = 0; i < subject_count; i++) {
        subject s = subjects[i];
        s.law = l->name;
        s.random = mix_bits(seed * 1024 + i);
        if ((s.rule->traits & l->trait) == l->trait) n += l->check(&s);
    }
    return n;
}

int main(int argc, char **argv)
{
    test_options o = read_options(argc, argv);
    const uint64_t wanted = o.full ? 10000000 : 100000;
    oracle_init();
    size_t codecs = 0;
    int missing = list_subjects(&codecs);
    double start = seconds_now();
    for (int i = 0; i < LAWS; i++) {
        double begin = seconds_now();
        uint64_t n = 0, added = 1, before = failure_count();
        for (uint64_t round = 0; n < wanted && added; round++, n += added)
            added = run_round(&laws[i], mix_bits(o.seed * LAWS + (uint64_t)i) + round);
        if (n < wanted)
            report(&(subject){.codec = subjects[0].codec, .law = laws[i].name}, "no cases", 0, 0,
                   0);
        printf("%-56s %9llu cases  %s  %6.2f s\n", laws[i].name, (unsigned long long)n,
               failure_count() == before ? "pass" : "FAIL", seconds_now() - begin);
    }
    printf("%d laws, %zu codecs, %zu with their sources, %llu failures, %d codecs without a line, "
           "%.1f s\n",
           LAWS, codecs, subject_count, (unsigned long long)failure_count(), missing,
           seconds_now() - start);
    return failure_count() || missing ? 1 : 0;
}
