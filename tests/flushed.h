/* flushed.h - a thread that takes subnormal numbers for zero, as libraries built with -ffast-math
 * make every thread of a process. */
#ifndef KERF_TESTS_FLUSHED_H
#define KERF_TESTS_FLUSHED_H

#include <stdint.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#define FLUSH_BITS 0x8040u /* of MXCSR: FTZ, DAZ */
#else
#define FLUSH_BITS ((uint64_t)1 << 24) /* of FPCR: FZ */
#endif

static inline uint64_t thread_mode(void)
{
#ifdef __x86_64__
    return _mm_getcsr();
#else
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
#endif
}

static inline void set_thread_mode(uint64_t mode)
{
#ifdef __x86_64__
    _mm_setcsr((unsigned)mode);
#else
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#endif
}

#endif
