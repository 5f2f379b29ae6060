/* runtimes.h - programs that run quantized checkpoints: which formats each loads from which layout,
 * and on which GPUs it has kernels for them. What kerf knows stands in advisor/advice/runtimes.def,
 * with the file and version where each line was read, and whether the program's own reader was run
 * on what kerf writes (bench/results/runtimes.md, interop.md); none was run on a GPU. */
#ifndef KERF_RUNTIMES_H
#define KERF_RUNTIMES_H

#include <kerf/hardware.h>
#include <kerf/layouts.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_runtime {
    const char *name;   /* "vllm"                                                             */
    const char *title;  /* "vLLM"                                                             */
    const char *layout; /* what it loads most formats from: "compressed-tensors"              */
    int mixes;          /* 1: it loads several formats in one checkpoint, where the layout does */
} kerf_runtime;

/* How a runtime multiplies by weights of a format, and where that was read. Static storage. */
typedef struct kerf_runtime_way {
    const char *how;       /* "weights alone, by Marlin" */
    const char *source;    /* project, file, version     */
    int least_sm, most_sm; /* 80: from sm_80 on; most_sm 0: to any */
} kerf_runtime_way;

KERF_API size_t kerf_runtime_count(void);
KERF_API const kerf_runtime *kerf_runtime_at(size_t i); /* NULL past the end */

/* The runtime that a person means by "vLLM" or "TensorRT-LLM": case and dashes do not count.
 * KERF_E_ARG: none; the text lists them. */
KERF_API KERF_CHECK kerf_status kerf_runtime_get(const char *text, const kerf_runtime **out,
                                                 kerf_error *err);

/* How the runtime loads this format from this layout on this machine (NULL: on some machine; one
 * whose arch is no sm_* is not looked at). out may be NULL. KERF_E_NOSUP, with the reason: the
 * layout has no place for the format, the runtime does not load it as far as kerf knows, or not on
 * this machine (the text says on which). */
KERF_API KERF_CHECK kerf_status kerf_runtime_check(const kerf_runtime *r, const kerf_layout *l,
                                                   const kerf_format *f, const kerf_hardware *h,
                                                   kerf_runtime_way *out, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
