/* amx.h - whether this process may use the tiles of AMX. */
#ifndef KERF_AMX_H
#define KERF_AMX_H

/* 1: the processor multiplies tiles of bfloat16, has AVX-512 with VBMI and VNNI beside them, and
 * the system saves all of that. Linux is asked, once, for the room of a thread's tiles; it is
 * granted to the whole process, and stays so. */
int kf_amx_may_run(void);

#endif
