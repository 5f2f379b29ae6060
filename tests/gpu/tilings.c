/* tilings.c - what is said of the matrix-vector kernels without CUDA is what they were compiled
 * with. Needs CUDA and no GPU. */
#include "cuda/gemv/gemv_job.h"

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
        /* Where there is no kernel for tiles the rest says nothing. */
        if (a.stage_codes == 0 && b.stage_codes == 0) continue;
        const struct {
            const char *what;
            double compiled, said;
        } figures[] = {
            {"bits", a.bits, b.bits},
            {"stage_codes", a.stage_codes, b.stage_codes},
            {"stage_ring", a.stage_ring, b.stage_ring},
            {"stage_scales", a.stage_scales, b.stage_scales},
            {"slice_codes", a.slice_codes, b.slice_codes},
            {"slice_unit", a.slice_unit, b.slice_unit},
            {"slice_ring", a.slice_ring, b.slice_ring},
            {"slice_scales", a.slice_scales, b.slice_scales},
            {"table_bytes", a.table_bytes, b.table_bytes},
            {"rounding", a.rounding, b.rounding},
        };
        for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
            if (figures[k].compiled == figures[k].said) continue;
            printf("%s: %s is %g, said to be %g\n", f->name, figures[k].what, figures[k].compiled,
                   figures[k].said);
            differ = 1;
        }
    }
    return differ;
}
