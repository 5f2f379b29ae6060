/* decoder_families.c - one row for each family: what a configuration of it means where it does not
 * say, and what it never says.
 *
 * Sources: transformers 5 (src/transformers/models), configuration and modeling file of each name;
 * llama.cpp's names of architectures. */
#include <string.h>

#include "forward/decoder_config.h"

#define PLAIN (KF_HAS_HEADS | KF_HAS_DENSE)
#define GEMMA (PLAIN | KF_HAS_UNIT_NORMS | KF_HAS_SCALED_INPUT | KF_HAS_TIED)
#define LATENT (KF_HAS_LATENT | KF_HAS_DENSE | KF_HAS_PAIRS)
#define MIXED (KF_HAS_HEADS | KF_HAS_EXPERTS)

/* clang-format off */
static const kf_decoder_family families[] = {
    /* names                 gguf        has                                                  windowed, switch         router            nope theta, local */
    {"llama",                "llama",    PLAIN,                                               0, NULL,                 KF_ROUTER_NONE,    0, 1e4, 0},
    {"mistral ministral",    NULL,       PLAIN,                                               1, NULL,                 KF_ROUTER_NONE,    0, 1e4, 0},
    {"mixtral",              NULL,       MIXED,                                               1, NULL,                 KF_ROUTER_SHARES,  0, 1e6, 0},
    {"qwen2",                "qwen2",    PLAIN | KF_HAS_QKV_BIAS,                             1, "use_sliding_window", KF_ROUTER_NONE,    0, 1e4, 0},
    {"qwen3",                "qwen3",    PLAIN | KF_HAS_HEAD_NORM,                            1, "use_sliding_window", KF_ROUTER_NONE,    0, 1e4, 0},
    {"qwen3_moe",            "qwen3moe", MIXED | KF_HAS_HEAD_NORM,                            1, "use_sliding_window", KF_ROUTER_SOFTMAX, 0, 1e4, 0},
    {"gemma",                NULL,       GEMMA,                                               0, NULL,                 KF_ROUTER_NONE,    0, 1e4, 0},
    {"gemma2",               NULL,       GEMMA | KF_HAS_OUTPUT_NORMS,                         2, NULL,                 KF_ROUTER_NONE,    0, 1e4, 0},
    {"gemma3_text gemma3",   NULL,       GEMMA | KF_HAS_OUTPUT_NORMS | KF_HAS_HEAD_NORM,      6, NULL,                 KF_ROUTER_NONE,    0, 1e6, 1e4},
    {"phi3",                 NULL,       PLAIN,                                               1, NULL,                 KF_ROUTER_NONE,    0, 1e4, 0},
    {"smollm3",              NULL,       PLAIN | KF_HAS_TIED,                                 1, "use_sliding_window", KF_ROUTER_NONE,    4, 2e6, 0},
    {"gpt_oss",              NULL,       MIXED | KF_HAS_SINKS | KF_HAS_QKV_BIAS | KF_HAS_O_BIAS | KF_HAS_ROUTER_BIAS | KF_HAS_CLAMPED,
                                                                                              2, NULL,                 KF_ROUTER_SHARES,  0, 1.5e5, 0},
    {"deepseek_v2",          NULL,       LATENT | KF_HAS_GROUPED_MAX,                         0, NULL,                 KF_ROUTER_WHOLE,   0, 1e4, 0},
    {"deepseek_v3",          NULL,       LATENT | KF_HAS_CORRECTION,                          0, NULL,                 KF_ROUTER_SIGMOID, 0, 1e4, 0},
};
/* clang-format on */

#define COUNT (sizeof families / sizeof *families)

static int holds_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; n > 0 && (at = strstr(at, word)) != NULL; at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return 1;
    return 0;
}

const kf_decoder_family *kf_decoder_family_find(const char *type, const char *architecture)
{
    for (size_t i = 0; i < COUNT; i++)
        if (architecture ? families[i].gguf && strcmp(families[i].gguf, architecture) == 0
                         : type && holds_word(families[i].names, type))
            return &families[i];
    return NULL;
}

const char *kerf_decoder_family_at(size_t i)
{
    return i < COUNT ? families[i].names : NULL;
}
