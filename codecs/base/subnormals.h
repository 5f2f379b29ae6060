/* subnormals.h - arithmetic with subnormal numbers, in a thread of a program that takes them for
 * zero. Libraries built with -ffast-math make a whole process do so when they are loaded, programs
 * may ask for it (torch.set_flush_denormal), and new threads inherit it. kerf's bytes shall be the
 * same there. */
#ifndef KERF_SUBNORMALS_H
#define KERF_SUBNORMALS_H

#include <stdint.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/* What the thread did with them: for kf_subnormals_end. */
typedef uint64_t kf_subnormals;

/* From here on this thread has them. */
static inline kf_subnormals kf_subnormals_begin(void)
{
    kf_subnormals mode = 0;
#if defined(__x86_64__)
    mode = _mm_getcsr();
    _mm_setcsr((unsigned)mode & ~0x8040u); /* FTZ, DAZ */
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode & ~((uint64_t)1 << 24))); /* FZ */
#endif
    return mode;
}

static inline void kf_subnormals_end(kf_subnormals mode)
{
#if defined(__x86_64__)
    _mm_setcsr((unsigned)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
    (void)mode;
#endif
}

#endif
