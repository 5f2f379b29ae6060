/* fuzzer.c - a target under libFuzzer, whose main this is linked with. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t room, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    fuzz_input(p, n);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t room, unsigned seed)
{
    return fuzz_change(p, n, room, seed);
}
