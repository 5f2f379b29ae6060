/* unit.h - which part of a backend a translation unit holds.
 *
 * The codecs of a backend are one text, ref.c or avx2.c, with functions for every row of
 * formats.def. Compiled as it stands it holds them all, which takes a compiler most of a minute. So
 * CMake compiles it once for each family of formats (cmake/units.cmake), and once more for what all
 * families share. Each of these units is a generated file of three lines:
 *
 *   #define KF_UNIT MX             its name: a family, or COMMON
 *   #define KF_UNIT_MX ~, 1        says that it holds this name
 *   #include "cpu/avx2.c"
 *
 * The text asks KF_IN_UNIT(MX), also in #if, and wraps what belongs to a family in
 * KF_IF_UNIT(MX, ...). One unit calls another by names that the linker resolves. The texts of the
 * matrix-vector product are cut in the same way, by rows of kernels/cpu/gemv_decodes.def. */
#ifndef KERF_UNIT_H
#define KERF_UNIT_H

#ifdef KF_UNIT
#define KF_IN_UNIT(name) KF_UNIT_SECOND(KF_UNIT_##name, 0, 0)
#else
#define KF_IN_UNIT(name) 1
#endif

/* The second argument. Where KF_UNIT_<name> is not defined it is a word, and the 0 comes second;
 * where it is defined as two arguments, the second of these does. */
#define KF_UNIT_SECOND(...) KF_UNIT_SECOND_OF(__VA_ARGS__)
#define KF_UNIT_SECOND_OF(first, second, ...) second

/* Whether this unit holds any format: COMMON does not. */
#if defined(KF_UNIT) && KF_IN_UNIT(COMMON)
#define KF_UNIT_HAS_ROWS 0
#else
#define KF_UNIT_HAS_ROWS 1
#endif

#define KF_IF_UNIT(name, ...) KF_UNIT_CHOOSE(KF_IN_UNIT(name), __VA_ARGS__)
#define KF_UNIT_CHOOSE(in, ...) KF_UNIT_CHOOSE_OF(in, __VA_ARGS__)
#define KF_UNIT_CHOOSE_OF(in, ...) KF_UNIT_IF_##in(__VA_ARGS__)
#define KF_UNIT_IF_0(...)
#define KF_UNIT_IF_1(...) __VA_ARGS__

#endif
