/* oracle_stored.h - where the bytes of a tensor lie, as the formats' descriptions have it: rows of
 * codes on whole bytes, little-endian streams of bits, and the byte structs of GGUF. Shares nothing
 * with the library but the geometry's counts. */
#ifndef KERF_TEST_STORED_H
#define KERF_TEST_STORED_H

#include "exhaustive/coded.h"

/* Of the element in row `row` of the stacked matrices; flat formats have one row. Scales and zero
 * points are those of its group; 0 where a format has none. */
uint32_t stored_code(const coded *c, uint64_t row, uint64_t col);
uint32_t stored_scale(const coded *c, uint64_t row, uint64_t col);
uint32_t stored_zero(const coded *c, uint64_t row, uint64_t col);

void store_code(coded *c, uint64_t row, uint64_t col, uint32_t code);
void store_scale(coded *c, uint64_t row, uint64_t col, uint32_t bits);

/* Scales are this wide; all their bit patterns are worth a test. */
unsigned stored_scale_bits(const kerf_format *f);

#endif
