/* foreign_forms.h - the forms of foreign.c: what a weight consists of, and where its rows are. */
#ifndef KERF_LAYOUT_FOREIGN_FORMS_H
#define KERF_LAYOUT_FOREIGN_FORMS_H

#include <jansson.h>

#include "file/read/view.h"
#include "layout/recognize.h"
#include "layout/turned.h"

/* What is known of the folder; asked for once, when the first weight needs it. All zeros to begin.
 */
typedef struct kf_foreign {
    int asked;
    int is_int8;          /* quant_method says that bytes are integers, not FP8 */
    int is_second, is_ct; /* GPTQ's version 2, compressed-tensors: config.json says so        */
    int in_order;         /* it says that columns are not sorted                              */
    uint64_t tile[2];     /* its weight_block_size; 0: none                            */
    json_t *mlx;          /* MLX's "quantization": sizes of all, and of some modules           */
} kf_foreign;

void kf_foreign_close(kf_foreign *folder); /* all zeros are fine */

enum {
    KF_PART_CODES,
    KF_PART_SCALES,
    KF_PART_ZEROS,  /* or what is added after scaling: is_biased */
    KF_PART_GROUPS, /* of each column, I32 */
    KF_PART_SHAPE,
    KF_PARTS
};

/* Where the rows of a part are: as they stand, or through an order of turned.h. */
typedef struct kf_foreign_rows {
    int is_ordered;
    kf_turned order;
    uint64_t row_bytes;
} kf_foreign_rows;

typedef struct kf_foreign_parts {
    kerf_tensor tensor;
    kerf_view view;
    const kerf_tensor *part[KF_PARTS]; /* NULL: there is no such part */
    kf_foreign_rows rows_of[KF_PART_ZEROS + 1];
    int is_unsigned;      /* codes and zero points count from 0 */
    kerf_element element; /* else                              */
    unsigned bits;
    int is_symmetric; /* zero points are there, but all alike */
    int is_biased;    /* numbers of scales' type are added in the place of zero points */
    int is_stream;    /* zero points of a group follow each other, `less` less than they are */
    unsigned less;
    int is_sorted;                         /* columns of a group are apart         */
    uint32_t middle;                       /* zero point where there are none */
    kerf_shape shape;                      /* rank 0: [rows, cols] */
    uint64_t rows, cols;                   /* rows of all matrices */
    uint64_t tile_rows, tile_cols, across; /* rows and columns of a scale; scales of a row */
    char form[80];
} kf_foreign_parts;

/* Whether these codes, and the tensors beside them, are a weight in one of the forms: *found is 1,
 * *f has all but its tensor, and `name` is that of the weight. The content of groups is not asked
 * for. */
kerf_status kf_foreign_find(const kerf_reader *r, kf_foreign *folder, const kerf_tensor *codes,
                            kf_foreign_parts *f, char name[KF_NAME_ROOM], int *found,
                            kerf_error *err);

#endif
