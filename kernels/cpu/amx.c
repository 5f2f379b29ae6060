/* amx.c - asks the processor for AMX, and Linux for leave to use it: tiles are 8 KiB in each
 * thread's saved state, which a process has to want. */
#include "cpu/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASK_FOR 0x1023 /* ARCH_REQ_XCOMP_PERM, of asm/prctl.h since Linux 5.16 */
#define TILE_DATA 18   /* its bit of the processor's saved state               */

static int ask(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return 0; /* xgetbv */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    const int tiles = d >> 24 & 1, bf16 = d >> 22 & 1, int8 = d >> 25 & 1, vbmi = c >> 1 & 1;
    if (!tiles || !bf16 || !int8 || !vbmi) return 0;
    __asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low >> 17 & 3) != 3) return 0;
    return syscall(SYS_arch_prctl, ASK_FOR, TILE_DATA) == 0;
}

/* Asked once: a virtual machine takes long to say what its processor is. */
int kf_amx_may_run(void)
{
    static atomic_int known; /* 0: not yet; 1: no; 2: yes */
    int answer = atomic_load(&known);
    if (!answer) {
        answer = 1 + ask();
        atomic_store(&known, answer);
    }
    return answer == 2;
}

#else

int kf_amx_may_run(void)
{
    return 0;
}

#endif
