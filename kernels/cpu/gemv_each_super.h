/* gemv_each_super.h - the end of a unit for blocks of two levels (gemv_super.h, gemv_levels.h): its
 * function, compiled for each of their formats with the row of formats.def as a literal. What
 * includes it says
 *
 *   EACH_SUPER(s, call, r0, r1)   the function
 *   EACH_SUPER_SMALL              whether it takes blocks of one level, too (kf_gemv_level_block)
 *   EACH_SUPER_ENTRY              the name of the unit's table
 */
KF_HD void each_rows(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    if (kf_gemv_level_block(s, EACH_SUPER_SMALL).elements) EACH_SUPER(s, call, r0, r1);
}

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...)      \
    static void each_##ID(const kf_gemv_call *c, size_t r0, size_t r1)                            \
    {                                                                                             \
        static const kf_spec s = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero); \
        each_rows(s, c, r0, r1);                                                                  \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

static kf_gemv_rows_function *const each_of[] = {
#define KERF_FORMAT(ID, ...) each_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

static void any_super(const kf_gemv_call *c, size_t r0, size_t r1)
{
    each_of[kf_format_index(c->plan->shape.format)](c, r0, r1);
}

kf_gemv_rows_function *const EACH_SUPER_ENTRY[KF_SCALINGS] = {[KF_SCALING_STEP] = any_super};
