/* tilings.c - what is said of the matrix-vector kernels without CUDA is what they were compiled
 * with. Needs CUDA and no GPU. */
#include "cuda/gemv_job.h"

#include <stdio.h>

static const kf_gemv_launches *const compiled[] = {
#define KERF_FORMAT(ID, ...) &kf_gemv_launches_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

int main(void)
{
    int differ = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        const kf_gemv_tiling a = compiled[i]->tiling, b = kf_gemv_tiling_of(f);
        /* Where there is no tiled kernel the rest says nothing. */
        if (a.stage_codes == b.stage_codes &&
            (a.stage_codes == 0 ||
             (a.ring_bytes == b.ring_bytes && a.table_bytes == b.table_bytes &&
              a.scale_bytes == b.scale_bytes && a.column_ring == b.column_ring &&
              a.column_row == b.column_row && a.rounding == b.rounding)))
            continue;
        printf("%s: compiled %u %u %u %u %u %u %g, said %u %u %u %u %u %u %g\n", f->name,
               a.stage_codes, a.ring_bytes, a.table_bytes, a.scale_bytes, a.column_ring,
               a.column_row, a.rounding, b.stage_codes, b.ring_bytes, b.table_bytes, b.scale_bytes,
               b.column_ring, b.column_row, b.rounding);
        differ = 1;
    }
    return differ;
}
