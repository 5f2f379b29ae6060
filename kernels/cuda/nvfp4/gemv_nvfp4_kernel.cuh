/* gemv_nvfp4_kernel.cuh - y = A b with both sides NVFP4, on a GPU: the kernels.
 *
 * b stays in registers, A passes by. A warp keeps all of b, or a half, 4th or 8th of it: a lane
 * has, for every 1024 elements, 32 integers 2v and two scales. Row after row of A is multiplied, a
 * piece of 512 bytes at a time, which is 16 bytes of codes and two scales for a lane. A block has a
 * run of rows, which are contiguous in memory, and its warps take turns at them, four rows (a quad)
 * each.
 *
 *   copies into half of the ring of each warp        nothing here depends on b: a kernel may do
 *   b is fetched into the second level of the cache  this while the one before it still works
 *   -- griddepcontrol.wait --
 *   b through shared memory into registers, the other half of the ring
 *   rows: codes -> bytes -> DP4A -> fp32; four rows' sums meet by shuffles -> y
 *
 * Only half of the ring, because these copies delay what the kernel before reads at the same time:
 * its b, for which everything there waits. Where all warps share a row, the second half of the
 * blocks copy half a stage more, if scales are in rows. Two blocks fit a multiprocessor. The limit
 * is the pipe of PRMT, SHF and LOP3, with 28 of them for 32 elements.
 *
 * Codes become integers without a table in memory: PRMT picks bytes of a table by nibble, and where
 * the nibble has its top bit set it repeats the top bit of the byte; so two tables give two bytes
 * whose sum is 2v (see `tables`), and both go into one chain of DP4A: a block's dot product,
 * exactly. The chain starts from an integer that read as fp32 is 3 * 2^22, units of whose last
 * place it counts: the way to fp32 is one subtraction. The product of two E4M3 scales is exact in
 * fp16 when a quarter of it is taken, and a quarter is due, since both bytes are 2v.
 *
 * Sums of a row meet by shuffles within a warp, and in shared memory where warps share a row: no
 * atomics, one order.
 *
 * Scales in tiles: rows r, r + 32, r + 64, r + 96 of a tile have theirs side by side, so these are
 * a quad there. Quads side by side have theirs in the same line, so these pass through the first
 * level of the cache, where the next warps find them; but not in a chain where all warps work at
 * the same quad. */
#ifndef KERF_GEMV_NVFP4_KERNEL_CUH
#define KERF_GEMV_NVFP4_KERNEL_CUH

#include "cuda/nvfp4/gemv_nvfp4_feed.cuh"

namespace
{

/* --- rows ------------------------------------------------------------------------------------- */

/* The lane's part of a row. */
template <int P, bool TILED>
__device__ __forceinline__ float multiply_row(const slice<P> &b, tables t, uint32_t codes,
                                              uint32_t scales)
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < P; i++) {
        const uint32_t *v = b.v[i];
        uint4 w = load_16(codes + i * 512);
        __half2 f =
            __hmul2_rn(two_scales(load_2(scales + i * quad_scales<P, TILED>::NEXT)), b.scales[i]);
        int c = dot_word(t, w.y, v[2], v[3], dot_word(t, w.x, v[0], v[1], START));
        int d = dot_word(t, w.w, v[6], v[7], dot_word(t, w.z, v[4], v[5], START));
        sum =
            i ? __fmaf_rn(counted(c), __low2float(f), sum) : __fmul_rn(counted(c), __low2float(f));
        sum = __fmaf_rn(counted(d), __high2float(f), sum);
    }
    return sum;
}

/* p[0] becomes the warp's sum of p[lane / 8]. */
__device__ __forceinline__ void sum_over_warp(float p[4], unsigned lane)
{
    bool upper = lane & 16;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float keep = upper ? p[2 + i] : p[i], give = upper ? p[i] : p[2 + i];
        p[i] = keep + __shfl_xor_sync(~0u, give, 16);
    }
    upper = lane & 8;
    float keep = upper ? p[1] : p[0], give = upper ? p[0] : p[1];
    p[0] = keep + __shfl_xor_sync(~0u, give, 8);
#pragma unroll
    for (int half = 4; half >= 1; half /= 2) p[0] += __shfl_xor_sync(~0u, p[0], half);
}

/* Sums over the warps of a row, in their order. */
template <bool TILED>
__device__ __forceinline__ void finish_rows(const job &j, unsigned matrix, const float *partial,
                                            unsigned quad0, unsigned quads, unsigned parts,
                                            float second_a, float second_b)
{
    for (unsigned i = threadIdx.x; i < quads * 4; i += THREADS) {
        unsigned row = row_of<TILED>(quad0 + i / 4, i % 4);
        float sum = 0;
        for (unsigned w = 0; w < parts; w++) sum += partial[i * parts + w];
        if (row < j.rows) store(j, matrix, row, sum, second_a, second_b);
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* Where a block begins; of the one past the last, the number of quads. */
__device__ __forceinline__ unsigned first_quad(const kf_nvfp4_run run[2], unsigned block)
{
    unsigned n = min(block, run[0].blocks), m = block - n;
    unsigned before = n * run[0].each + min(n, run[0].rest);
    return before + m * run[1].each + min(m, run[1].rest);
}

template <int P, bool TILED, bool EDGES>
__global__ void __launch_bounds__(THREADS, 2) multiply(const __grid_constant__ job j)
{
    typedef ring<P> r;
    extern __shared__ __align__(128) uint8_t shared[];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned matrix = blockIdx.x, block = blockIdx.y;
    launch_dependents();
    const unsigned parts = 1u << j.part_bits, part = warp & (parts - 1);
    const unsigned team = warp >> j.part_bits, teams = WARPS >> j.part_bits;
    const unsigned quad0 = first_quad(j.run, block), quads = first_quad(j.run, block + 1) - quad0;
    uint8_t *bytes = shared + WARPS * r::BYTES;
    __half2 *b_scales = (__half2 *)(bytes + parts * (P * PIECE));
    float *partial = (float *)(b_scales + parts * (P * PIECE / OWN)); /* [row][part] */
    const uint32_t rows = shared_address(shared) + warp * r::BYTES + lane * 16;

    row_feed<P, TILED, EDGES> feed;
    feed.quad = quad0 + team;
    feed.scales = shared_address(shared) + warp * r::BYTES + r::ROWS * r::ROW;
    feed.aim(j, matrix, part);
    unsigned left = quads > team ? (quads - team + teams - 1) / teams * 4 : 0, ask = left;
    const unsigned elements = parts * (P * PIECE);
    b_feed some;
    if (!j.early) { /* b first: later it would stand behind all that the ring asks for */
        wait_for_inputs();
        some.load(j, matrix, 0);
    }
    uint32_t to = rows;
    auto ask_for = [&](int stages) {
#pragma unroll 1
        for (int i = 0; i < stages; i++, to += r::STAGE) {
            if (ask) feed.fetch(j, to, teams), ask -= r::G;
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
    };
    constexpr int HALF = r::G / 2;
    ask_for(r::EARLY);
    const bool eager = !TILED && HALF > 1 && ask && block >= j.eager;
    if (eager) feed.template fetch_rows<0, HALF>(j, to, teams);
    if (j.early) {
        prefetch_b(j, matrix);
        wait_for_inputs();
        some.load(j, matrix, 0);
    }
    if (eager) {
        feed.template fetch_rows<HALF, r::G>(j, to, teams);
        ask -= r::G;
        asm volatile("cp.async.commit_group;" ::: "memory");
        to += r::STAGE;
    }
    ask_for(r::STAGES - r::EARLY - eager);
    some.put(0, elements, bytes, b_scales);
    for (unsigned from = b_feed::BATCH; from < elements / 8; from += b_feed::BATCH) {
        some.load(j, matrix, from);
        some.put(from, elements, bytes, b_scales);
    }
    float second_a = 1, second_b = 1;
    if (j.second_b) second_b = __ldcg(j.second_b + matrix);
    if (j.second_a) second_a = __ldcg(j.second_a + matrix);
    __syncthreads();

    const tables t = {kept(PLUS_LOW), kept(MINUS_LOW)};
    slice<P> b;
    load_slice(&b, bytes, b_scales, part * (P * PIECE) + lane * OWN);
    const uint32_t my_scales = feed.scales + quad_scales<P, TILED>::first(lane);
    uint32_t at = rows, quad_at = my_scales;
    unsigned quad = quad0 + team;
    float p[4] = {};
#pragma unroll 1
    for (unsigned row = 0; left; left -= r::G) {
        asm volatile("cp.async.wait_group %0;" ::"n"(r::STAGES - 1) : "memory");
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4 - r::G; i++) p[i] = p[i + r::G];
#pragma unroll
        for (int g = 0; g < r::G; g++)
            p[4 - r::G + g] = multiply_row<P, TILED>(
                b, t, at + g * r::ROW, quad_at + (row + g) * quad_scales<P, TILED>::ROW);
        __syncwarp();
        if (ask) feed.fetch(j, at, teams), ask -= r::G;
        asm volatile("cp.async.commit_group;" ::: "memory");
        at = at == rows + (r::STAGES - 1) * r::STAGE ? rows : at + r::STAGE;
        if (r::G < 4 && (row += r::G) < 4) continue;
        sum_over_warp(p, lane);
        unsigned mine = row_of<TILED>(quad, lane / 8);
        if (lane % 8 == 0) {
            if (parts > 1)
                partial[((quad - quad0) * 4 + lane / 8) * parts + part] = p[0];
            else if (mine < j.rows)
                store(j, matrix, mine, p[0], second_a, second_b);
        }
        row = 0;
        quad += teams;
        quad_at = quad_at == my_scales + (r::QUADS - 1) * r::QUAD ? my_scales : quad_at + r::QUAD;
    }
    if (parts == 1) return;
    __syncthreads();
    finish_rows<TILED>(j, matrix, partial, quad0, quads, parts, second_a, second_b);
}

__device__ __forceinline__ uint2 load_block(const uint8_t *p)
{
    uint2 v = {0, 0};
    for (int i = 0; i < 4; i++) {
        v.x |= (uint32_t)p[i] << 8 * i;
        v.y |= (uint32_t)p[i + 4] << 8 * i;
    }
    return v;
}

/* Four times the dot product of four codes of a at the low end of w with those of b. */
__device__ __forceinline__ int dot_four(uint32_t a, uint32_t b, int sum)
{
    return __dp4a((int)signed_bytes(a), (int)signed_bytes(b), sum);
}

/* Any alignment, any number of blocks: a warp for a row, a lane for a block. */
template <bool TILED>
__global__ void __launch_bounds__(256) multiply_any(const __grid_constant__ job j)
{
    wait_for_inputs();
    const unsigned lane = threadIdx.x % 32, blocks = j.cols / 16;
    const unsigned matrix = blockIdx.x / j.blocks;
    const unsigned row = blockIdx.x % j.blocks * 8 + threadIdx.x / 32;
    if (row >= j.rows) return;
    const uint8_t *a = j.a + ((uint64_t)matrix * j.rows + row) * (j.cols / 2);
    const uint8_t *b = j.b + (uint64_t)matrix * (j.cols / 2);
    float sum = 0;
    for (unsigned i = lane; i < blocks; i += 32) {
        uint64_t pa = TILED ? kf_tiled_place(row, i, j.across) : (uint64_t)row * blocks + i;
        uint64_t pb = j.b_tiled ? kf_tiled_place(0, i, j.across) : i;
        uint2 x = load_block(a + 8 * i), y = load_block(b + 8 * i);
        int dot = dot_four(x.x, y.x, dot_four(x.x >> 16, y.x >> 16, 0));
        dot = dot_four(x.y, y.y, dot_four(x.y >> 16, y.y >> 16, dot));
        uint32_t both = j.sa[matrix * j.sa_each + pa] | j.sb[matrix * j.sb_each + pb] << 8;
        float2 s = __half22float2(two_scales(both));
        sum = __fmaf_rn((float)dot, __fmul_rn(s.x, __fmul_rn(0.25f, s.y)), sum);
    }
#pragma unroll
    for (int half = 16; half >= 1; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
    if (lane == 0)
        store(j, matrix, row, sum, j.second_a ? j.second_a[matrix] : 1.0f,
              j.second_b ? j.second_b[matrix] : 1.0f);
}

} // namespace

#endif
