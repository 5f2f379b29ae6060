/* scale_tiles.h - where cuBLASLt wants the one-byte scales of a block format (VEC16_UE4M3 and
 * VEC32_UE8M0): tiles of 128 rows and 4 columns, 512 bytes each, those of a row of tiles one after
 * the other. Within a tile rows r, r + 32, r + 64, r + 96 stand side by side, 16 bytes. Edges are
 * padded, and the padding is 0: a NaN there would poison the product.
 * Source: CUTLASS, Sm1xxBlockScaledConfig; PyTorch torchao, to_blocked. */
#ifndef KERF_SCALE_TILES_H
#define KERF_SCALE_TILES_H

#include "scalar/bits.h"

enum { KF_TILE_ROWS = 128, KF_TILE_COLS = 4 };

/* Byte of scale (row, col), `across` tiles lying side by side. */
KF_HD uint64_t kf_tiled_place(uint64_t row, uint64_t col, uint64_t across)
{
    uint64_t tile = row / KF_TILE_ROWS * across + col / KF_TILE_COLS;
    return tile * (KF_TILE_ROWS * KF_TILE_COLS) + row % 32 * 16 + row % KF_TILE_ROWS / 32 * 4 +
           col % KF_TILE_COLS;
}

#endif
