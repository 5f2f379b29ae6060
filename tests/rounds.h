/* rounds.h - how much of a long loop runs. In an optimized build all of it. Under a sanitizer or an
 * emulator, which are ten times slower and are there for other faults (memory, instruction sets), a
 * part: every function, format and encoder, but not every size of each. */
#ifndef KERF_TESTS_ROUNDS_H
#define KERF_TESTS_ROUNDS_H

#ifndef KERF_TEST_SLOW /* set by the build */
#define KERF_TEST_SLOW 0
#endif

/* The step of a loop over rounds: 1, or s where tests are slow. */
#define STEP(s) (KERF_TEST_SLOW ? (s) : 1)

#endif
