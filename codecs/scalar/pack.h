/* pack.h - codes in bytes.
 *
 * Codes of 2, 4 and 6 bits form a little-endian bit stream: element 0 in the lowest bits of byte
 * 0. For 4 bits that is the even element in the low nibble, for 6 bits four elements in three
 * bytes, as OCP MX hardware, cuBLASLt and compressed-tensors have them. NF4 alone puts the even
 * element in the high nibble, as bitsandbytes does. Codes of 8, 16 and 32 bits are little-endian
 * words. A row starts on a byte and is filled with zero bits. */
#ifndef KERF_PACK_H
#define KERF_PACK_H

#include "scalar/bits.h"

KF_HD size_t kf_packed_bytes(unsigned bits, size_t n)
{
    return (n * bits + 7) / 8;
}

/* Puts code i into a row whose bytes were zero. */
KF_HD void kf_put_code(uint8_t *row, unsigned bits, size_t i, uint32_t code)
{
    size_t byte = i * bits / 8;
    if (bits >= 8) {
        for (unsigned k = 0; k < bits / 8; k++) row[byte + k] = (uint8_t)(code >> 8 * k);
        return;
    }
    uint32_t shifted = code << i * bits % 8;
    row[byte] = (uint8_t)(row[byte] | shifted);
    if (shifted >> 8) row[byte + 1] = (uint8_t)(row[byte + 1] | shifted >> 8);
}

KF_HD uint32_t kf_get_code(const uint8_t *row, unsigned bits, size_t i)
{
    size_t byte = i * bits / 8;
    uint32_t code = row[byte];
    if (bits >= 8) {
        for (unsigned k = 1; k < bits / 8; k++) code |= (uint32_t)row[byte + k] << 8 * k;
        return code;
    }
    unsigned shift = (unsigned)(i * bits % 8);
    if (shift + bits > 8) code |= (uint32_t)row[byte + 1] << 8;
    return code >> shift & ((1u << bits) - 1);
}

#endif
