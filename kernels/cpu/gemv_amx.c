/* gemv_amx.c - the matrix-vector product for several columns on the tiles of AMX. */
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && \
    defined(__AVX512VBMI__)
#include "cpu/tiles_amx.h"

#define KF_ISA(name) kf_gemv_amx_##name
#include "cpu/gemv_tiles.h"

const kf_gemv_ops kf_gemv_amx = {"amx", tile_plan, tile_start, tile_rows};
#endif
