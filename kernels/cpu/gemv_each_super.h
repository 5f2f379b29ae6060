/* gemv_each_super.h - a function for blocks of two levels (gemv_super.h, gemv_levels.h), compiled
 * for each of their formats with the row of formats.def as a literal. What includes it says
 *
 *   EACH_SUPER(s, call, r0, r1)   the function
 *   EACH_SUPER_SMALL              how many bits codes of one level may have (kf_gemv_level_block)
 *   EACH_SUPER_NAME(x)            what names begin with; EACH_SUPER_NAME(any) does every format
 *
 * All three are undefined again at the end. */
KF_HD void EACH_SUPER_NAME(rows)(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    if (kf_gemv_level_block(s, EACH_SUPER_SMALL).elements) EACH_SUPER(s, call, r0, r1);
}

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...)      \
    static void EACH_SUPER_NAME(ID)(const kf_gemv_call *c, size_t r0, size_t r1)                  \
    {                                                                                             \
        static const kf_spec s = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero); \
        EACH_SUPER_NAME(rows)(s, c, r0, r1);                                                      \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

static kf_gemv_rows_function *const EACH_SUPER_NAME(each)[] = {
#define KERF_FORMAT(ID, ...) EACH_SUPER_NAME(ID),
#include <kerf/formats.def>
#undef KERF_FORMAT
};

static void EACH_SUPER_NAME(any)(const kf_gemv_call *c, size_t r0, size_t r1)
{
    EACH_SUPER_NAME(each)[kf_format_index(c->plan->shape.format)](c, r0, r1);
}

#undef EACH_SUPER
#undef EACH_SUPER_SMALL
#undef EACH_SUPER_NAME
