/* vector_copies.h - a loop of independent chains, compiled once more for processors with wider
 * vectors. There is no contraction and no change of order: every copy gives the same bits. */
#ifndef KERF_VECTOR_COPIES_H
#define KERF_VECTOR_COPIES_H

/* KF_WIDE(name, (parameters), (arguments), { body }) defines a static function without a result. */
#if defined(__x86_64__) && defined(__GNUC__)
#define KF_WIDE(name, parameters, arguments, ...)                                                 \
    static __attribute__((target("avx512f"))) void name##_512 parameters __VA_ARGS__ static       \
        __attribute__((target("avx2"))) void name##_256 parameters                                \
            __VA_ARGS__ static void name##_any parameters __VA_ARGS__ static void name parameters \
    {                                                                                             \
        if (__builtin_cpu_supports("avx512f"))                                                    \
            name##_512 arguments;                                                                 \
        else if (__builtin_cpu_supports("avx2"))                                                  \
            name##_256 arguments;                                                                 \
        else                                                                                      \
            name##_any arguments;                                                                 \
    }
#else
#define KF_WIDE(name, parameters, arguments, ...) static void name parameters __VA_ARGS__
#endif

#endif
