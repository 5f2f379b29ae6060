/* amx.h - whether this process may use the tiles of AMX. */
#ifndef KERF_AMX_H
#define KERF_AMX_H

/* 1: the processor multiplies tiles of bfloat16 and of bytes and has VBMI of AVX-512, and the
 * system saves tiles; the rest of AVX-512 is asked for elsewhere (gemv_backends.c). Linux is asked,
 * once, for the room of a thread's tiles; it is granted to the whole process, and stays so. */
int kf_amx_may_run(void);

#endif
