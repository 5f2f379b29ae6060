/* backends.c - the table of backends, the fastest last. With KERF_REF_ONLY the reference alone, for
 * builds that give every file the same options; with KERF_NO_AVX512 without that one. */
#include "cpu/backends.h"
#include "base/base.h"
#include "cpu/features.h"

typedef struct backend {
    const char *name;
    uint32_t needs; /* features of the processor */
    const kf_codec_ops *(*ops)(const kerf_format *f);
} backend;

#define AVX512 (KF_CPU_AVX512F | KF_CPU_AVX512BW | KF_CPU_AVX512DQ | KF_CPU_AVX512VL)

static const backend backends[] = {
    {"ref", 0, kf_ref_ops},
#if defined(KERF_REF_ONLY)
#elif defined(__x86_64__)
    {"avx2", KF_CPU_AVX2, kf_avx2_ops},
#ifndef KERF_NO_AVX512
    {"avx512", KF_CPU_AVX2 | AVX512, kf_avx512_ops},
#endif
#elif defined(__aarch64__)
    {"neon", KF_CPU_NEON, kf_neon_ops},
#endif
};
#define BACKENDS (sizeof backends / sizeof backends[0])

static int runs_here(const backend *b)
{
    return (kf_cpu_detect() & b->needs) == b->needs;
}

size_t kerf_backend_count(void)
{
    size_t n = 0;
    for (size_t i = 0; i < BACKENDS; i++) n += (size_t)runs_here(&backends[i]);
    return n;
}

const char *kerf_backend_at(size_t i)
{
    for (size_t k = 0; k < BACKENDS; k++)
        if (runs_here(&backends[k]) && i-- == 0) return backends[k].name;
    return NULL;
}

kerf_status kf_backend_ops(const kerf_format *f, const char *name, const kf_codec_ops **out,
                           kerf_error *err)
{
    const backend *found = NULL;
    for (size_t i = 0; i < BACKENDS; i++)
        if (runs_here(&backends[i]) && (!name || strcmp(name, backends[i].name) == 0))
            found = &backends[i];
    if (!found)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "no backend \"%.40s\" on this machine", name);
    *out = found->ops(f);
    return KERF_OK;
}
