/* format_text.c - what a format is, in a few letters each: its elements, who shares a scale, and
 * what the scales are. */
#include <kerf/codec.h>

#include <stdio.h>

const char *kerf_element_text(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_F32: return "F32";
    case KERF_ELEM_F16: return "F16";
    case KERF_ELEM_BF16: return "BF16";
    case KERF_ELEM_E4M3: return "E4M3";
    case KERF_ELEM_E5M2: return "E5M2";
    case KERF_ELEM_E2M3: return "E2M3";
    case KERF_ELEM_E3M2: return "E3M2";
    case KERF_ELEM_E2M1: return "E2M1";
    case KERF_ELEM_MXI8: return "INT8/64";
    case KERF_ELEM_NF4: return "NF4";
    case KERF_ELEM_S8: return "INT8";
    case KERF_ELEM_S4: return "INT4";
    case KERF_ELEM_S2: return "INT2";
    case KERF_ELEM_U4: return "UINT4";
    case KERF_ELEM_U2: return "UINT2";
    case KERF_ELEM_U3: return "UINT3";
    case KERF_ELEM_U5: return "UINT5";
    case KERF_ELEM_U6: return "UINT6";
    }
    return "?";
}

char *kerf_group_text(const kerf_format *f, char *out, size_t size)
{
    const char *word = "?";
    switch (f->geometry) {
    case KERF_GROUP_NONE: word = "-"; break;
    case KERF_GROUP_TENSOR: word = "matrix"; break;
    case KERF_GROUP_ROW: word = "row"; break;
    case KERF_GROUP_BLOCK: snprintf(out, size, "%u", f->group); return out;
    case KERF_GROUP_TILE: snprintf(out, size, "%ux%u", f->group, f->group); return out;
    case KERF_GROUP_FLAT: snprintf(out, size, "%u flat", f->group); return out;
    case KERF_GROUP_STRUCT: snprintf(out, size, "%u inline", f->group); return out;
    case KERF_GROUP_SUPER: snprintf(out, size, "%u nested", f->group); return out;
    }
    snprintf(out, size, "%s", word);
    return out;
}

char *kerf_scale_text(const kerf_format *f, char *out, size_t size)
{
    static const char *const scales[] = {"-", "F32", "F16", "BF16", "E8M0", "E4M3", "8-bit map"};
    static const char *const seconds[] = {"", " + F32", " + F32/256"};
    static const char *const zeros[] = {"", " + zero", " + F32 offset"};
    snprintf(out, size, "%s%s%s", scales[f->scale], seconds[f->second], zeros[f->zero]);
    return out;
}
