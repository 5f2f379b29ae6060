/* hardware.h - what a machine can do: a registry of facts, each with its source and date.
 *
 * Every peak is dense. A sparse figure counts multiplications by zeros that are never done; next to
 * a dense one it makes a machine look twice as fast as it is, so the reader refuses them.
 *
 * A machine may also carry what was measured on it: fits (a few parameters per kernel), tables
 * (times of anchor shapes) and a GPU's tuning, by which plans of its products are made. The
 * registry has none; they come from a file, kerf.hardware/1.
 */
#ifndef KERF_HARDWARE_H
#define KERF_HARDWARE_H

#include <kerf/gemv_tune.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(ID, key in JSON and on screen, unit, what it is). A machine that lacks a number format lacks
 * the fact. Rates of tensor units; accumulation in fp32 (int32) unless the key says otherwise. */
#define KERF_FACTS(X)                                                                        \
    X(BANDWIDTH, "bandwidth_gbps", "GB/s", "peak memory bandwidth as published")             \
    X(STREAM, "stream_gbps", "GB/s", "measured by a kernel that only reads")                 \
    X(COPY, "copy_gbps", "GB/s", "measured by a device-to-device copy, read + write")        \
    X(MEMORY, "memory_gb", "GB", "memory, 10^9 bytes")                                       \
    X(LINK, "link_gbps", "GB/s", "to its peers, one direction, all links together")          \
    X(L2, "l2_mb", "MB", "last-level cache")                                                 \
    X(SMS, "sm_count", "", "streaming multiprocessors, compute units or cores")              \
    X(CLOCK, "clock_mhz", "MHz", "highest sustained clock of those")                         \
    X(LANES, "lanes_per_sm", "", "instructions a multiprocessor issues per clock, in lanes") \
    X(FP32, "fp32_tflops", "TFLOPS", "without tensor units")                                 \
    X(BF16, "bf16_tflops", "TFLOPS", "bf16 and fp16")                                        \
    X(FP16_ACC16, "fp16_acc16_tflops", "TFLOPS", "fp16 accumulated in fp16")                 \
    X(FP8, "fp8_tflops", "TFLOPS", "fp8")                                                    \
    X(FP8_ACC16, "fp8_acc16_tflops", "TFLOPS", "fp8 accumulated in fp16")                    \
    X(INT8, "int8_tops", "TOPS", "int8")                                                     \
    X(INT4, "int4_tops", "TOPS", "int4")                                                     \
    X(FP4, "fp4_tflops", "TFLOPS", "fp4, with scales per block")

typedef enum kerf_fact_id {
#define X(ID, ...) KERF_FACT_##ID,
    KERF_FACTS(X)
#undef X
        KERF_FACT_COUNT
} kerf_fact_id;

typedef struct kerf_fact {
    double value;       /* > 0; 0: not known, or the machine has no such unit */
    const char *source; /* where the number stands                             */
    const char *date;   /* of that source, "2026-08"                           */
    int unverified;     /* sources disagree, or none is first hand             */
} kerf_fact;

/* What a fit is called that is of no format: sums over several GPUs, kerf_predict_all_reduce. */
#define KERF_FIT_ALL_REDUCE "all-reduce"

/* How a row of weights ends for a kernel that takes rows in stages: with one; within one, so that
 * activations are made ready one at a time; within a step of scales besides. */
enum { KERF_ROW_ENDS = 3 };

/* A kernel's time as a few parameters: see kerf_predict. A rate of 0 is no roof. */
typedef struct kerf_fit {
    const char *format;             /* of the weights                                    */
    uint64_t batch_min, batch_max;  /* rows of activations that it holds for             */
    double fixed_us;                /* launch, ramp and drain                            */
    double bandwidth_gbps;          /* what it draws from memory                         */
    double decode_gweights;         /* 10^9 weights decoded per second                   */
    double tflops;                  /* of its arithmetic                                 */
    double error_median, error_p90; /* |predicted / measured - 1| on shapes not fitted; 0:
                                       not known                                         */
    const char *source, *date;
    /* of kerf's products on a GPU, whose plan is known; before all roofs */
    double input_us;                /* of 1024 activations that a block makes ready      */
    double round_us[KERF_ROW_ENDS]; /* of a round of its threads over them               */
    double stage_us[KERF_ROW_ENDS]; /* of a stage of the warp that has most of them      */
} kerf_fit;

/* Measured times of shapes at one batch. Where there is a fit, times are read against it. */
typedef struct kerf_anchors {
    const char *format;
    uint64_t batch;
    size_t count;
    const double *n, *k; /* [count] outputs and inputs   */
    const double *us;    /* [count]                      */
    const char *source, *date;
    double error_median, error_p90; /* |predicted / measured - 1|, each from the others; 0: not
                                       known                                                    */
} kerf_anchors;

typedef struct kerf_hardware {
    const char *name;   /* "h200"                                   */
    const char *title;  /* "NVIDIA H200 SXM"                        */
    const char *kind;   /* "gpu" or "cpu"                           */
    const char *arch;   /* "sm_90"; "" where it says nothing        */
    const char *native; /* element types of its matrix instructions */
    const char *note;   /* what to beware of; "" for nothing        */
    kerf_fact fact[KERF_FACT_COUNT];
    const kerf_fit *fit;
    size_t fits;
    const kerf_anchors *anchors;
    size_t tables;
    const kerf_gemv_tuning *tuning; /* of plans on this GPU; NULL: kerf's rules as they are */
    const char *tuning_source, *tuning_date;
} kerf_hardware;

KERF_API size_t kerf_hardware_count(void);
KERF_API const kerf_hardware *kerf_hardware_at(size_t i);           /* NULL past the end */
KERF_API const kerf_hardware *kerf_hardware_find(const char *name); /* NULL if unknown   */

KERF_API const char *kerf_fact_key(kerf_fact_id id);  /* "bandwidth_gbps" */
KERF_API const char *kerf_fact_unit(kerf_fact_id id); /* "GB/s"           */
KERF_API const char *kerf_fact_text(kerf_fact_id id);

/* A machine of one's own from a JSON file of at most 16 MiB (else KERF_E_LIMIT), as `kerf hardware
 * NAME --json` prints it. Unknown keys, facts without source and date, figures that are sparse or
 * look like it, and numbers out of any reach are KERF_E_DATA with the place in the text. */
KERF_API KERF_CHECK kerf_status kerf_hardware_open(const char *path, kerf_hardware **out,
                                                   kerf_error *err);

/* The machine that a person names: one of the registry, or, where `text` ends in ".json", a file as
 * for kerf_hardware_open. Case and dashes do not count; words of its title are enough where they
 * stand in no other: "RTX-4090", "4090", "NVIDIA H100 PCIe". The caller closes it either way.
 * KERF_E_ARG: no such name, or several; the text lists those, or says which one is near. */
KERF_API KERF_CHECK kerf_status kerf_hardware_get(const char *text, kerf_hardware **out,
                                                  kerf_error *err);

/* The registry as one document of such, schema kerf.hardware-list/1. */
KERF_API KERF_CHECK kerf_status kerf_hardware_list_json(char **out, kerf_error *err);

/* Sets *out to h as a JSON document, as kerf_hardware_open reads it. Freed by free(). */
KERF_API KERF_CHECK kerf_status kerf_hardware_json(const kerf_hardware *h, char **out,
                                                   kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h): a machine with the source of
 * each fact; h NULL: a table of the registry. malloc'd, ends in a 0 that n (may be NULL) does not
 * count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_hardware_text(const kerf_hardware *h,
                                                   const kerf_text_form *form, char **text,
                                                   size_t *n, kerf_error *err);

/* Frees a machine that a function gave as kerf_hardware **out, with all that it points to. NULL is
 * fine. Not for entries of the registry. */
KERF_API void kerf_hardware_close(kerf_hardware *h);

#ifdef __cplusplus
}
#endif
#endif
