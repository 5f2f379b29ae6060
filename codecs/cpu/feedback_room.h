/* feedback_room.h - some rows while they are encoded with error feedback: what the first pass over
 * their columns (feedback_rows.c) and those that follow it (feedback_again.c) share. Sixteen rows
 * go side by side as lanes of a vector. */
#ifndef KERF_CPU_FEEDBACK_ROOM_H
#define KERF_CPU_FEEDBACK_ROOM_H

#include <kerf/feedback.h>

#include "cpu/band.h"
#include "format/device.h"

enum { LANES = 16, STEP = 16, MOST_CODES = 64, MOST_ELEMENTS = 256 };

/* How a group of one row rounds. */
typedef struct kf_rounder {
    kf_quant quant;
    kf_dequant dequant;
    float value[MOST_CODES]; /* of the codes, where the nearest is taken */
} kf_rounder;

typedef struct kf_feedback_room {
    const kerf_geometry *g;
    const kerf_feedback *f;
    kf_spec spec;
    int encoder, nearest; /* nearest: codes are searched for by their numbers */
    int tries;            /* more than one scale is looked at                 */
    size_t bands, rows, cols, blocks, scratch;
    kf_band *band;
    size_t band_rows;   /* of one band, counted as rows of the matrix          */
    float *x, *t;       /* [rows][cols] source; with feedback up to the group  */
    float *sum, *fault; /* [blocks][cols][LANES]                              */
    float *more;        /* [bands] scratch memory                              */
    float *stretched;   /* a group                                             */
    kf_rounder *round;  /* [groups][rows]                                      */
    uint8_t *code;      /* [rows][cols]                                        */
} kf_feedback_room;

typedef struct kf_columns {
    size_t first, end;
} kf_columns;

static inline size_t kf_feedback_lane(const kf_feedback_room *r, size_t row, size_t k)
{
    return (row / LANES * r->cols + k) * LANES + row % LANES;
}

/* sum_k += sum over columns j of `over`, in rising order, of matrix_kj fault_j, for the columns k
 * of `of`, in one block of rows. */
void kf_feedback_sum(kf_feedback_room *r, const float *matrix, size_t block, kf_columns of,
                     kf_columns over);

/* The number that x becomes in column k of a row whose scales are chosen, and its code. */
float kf_feedback_round(const kf_feedback_room *r, size_t row, size_t k, float x, uint32_t *code);

/* The passes behind the first: changes codes and faults. */
void kf_feedback_again(kf_feedback_room *r, size_t rows);

#endif
