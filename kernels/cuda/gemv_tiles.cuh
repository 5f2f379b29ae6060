/* gemv_tiles.cuh - y = W x with W decoded on its way into tensor cores.
 *
 * The unit of work is a tile of 16 rows times a stage of 128 bytes of codes (192 for 6 bits). A
 * block of 16 warps owns a run of whole tiles; its warps divide tiles x stages evenly among them,
 * each a run of its own, so that no warp waits for another until all weights are read. Each warp
 * keeps `depth` stages on their way into shared memory, scales one stage ahead in registers, and
 * sums over its run in registers. At the end of a tile or of its run a warp leaves its sums in a
 * slot; slots are added in the order of warps, by fixed rules: the same bits in every run.
 *
 *   weights of the first stages are asked for    nothing here depends on x: a kernel may do all
 *   row factors, tables                          this while the one before it still works
 *   -- griddepcontrol.wait --
 *   x into shared memory, as halves, in the order that codes are decoded in
 *   stages: shared memory -> codes -> halves -> mma.m16n8k16 with sums in fp32
 *   slots -> [sums of the cluster's blocks] -> y
 *
 * Columns of x are the n of the tensor core: 8 cost what 1 costs, 16 a second product. With many
 * columns x is too large to be read by every block: blocks form clusters that share rows, each has
 * a part of the columns of W and so of x, and their sums meet through distributed shared memory.
 *
 * Scales. E4M3 scales of blocks of 16 are multiplied into the codes: both have so few bits that
 * the half is exact. All others multiply the fp32 sum of their group. Those of rows and matrices
 * are left to the end.
 *
 * x. fp16 is taken as it is. bf16 and fp32 are multiplied by a power of two that brings the largest
 * of a column to 2^14 .. 2^15, and rounded to fp16: exact for bf16, save for what is 2^-28 of the
 * largest and less. */
#include "cuda/gemv_decode.cuh"

#include <type_traits>

namespace
{

constexpr int WARPS = KF_GEMV_WARPS, THREADS = 32 * WARPS, TILE = KF_GEMV_TILE;
constexpr int ROW_STAGE = BITS == 6 ? 192 : 128;
constexpr int STAGE_CODES = BITS ? ROW_STAGE * 8 / BITS : 1;
constexpr int PITCH = BITS == 6 ? 208 : 128; /* 6 bits: rows apart so that banks differ */
constexpr int STAGE_BYTES = TILE * PITCH;
constexpr int BLOCKS = STAGE_CODES / 32;
constexpr int PIECES = ROW_STAGE / 16;

/* --- scales ----------------------------------------------------------------------------------- */

enum scaling { SCALING_ROW, SCALING_CODES, SCALING_GROUP };

constexpr bool HAS_GROUPS = KF_ROW.geometry == KERF_GROUP_BLOCK ||
                            KF_ROW.geometry == KERF_GROUP_FLAT ||
                            KF_ROW.geometry == KERF_GROUP_TILE;
constexpr scaling SCALING = !HAS_GROUPS          ? SCALING_ROW
                            : KF_ROW.group == 16 ? SCALING_CODES
                                                 : SCALING_GROUP;
constexpr bool HAS_ZEROS = KF_ROW.zero == KERF_ZERO_CODE;
constexpr bool HAS_TABLE = WAY == WAY_CODEBOOK;
constexpr bool NESTED = KF_ROW.second == KERF_SECOND_NESTED;

constexpr int size_of_scale(kerf_scale_kind k)
{
    return k == KERF_SCALE_F32                           ? 4
           : k == KERF_SCALE_F16 || k == KERF_SCALE_BF16 ? 2
           : k == KERF_SCALE_NONE                        ? 0
                                                         : 1;
}
constexpr int SCALE_SIZE = size_of_scale(KF_ROW.scale);
constexpr int GROUPS = HAS_GROUPS ? STAGE_CODES / (int)KF_ROW.group : 0; /* of a stage */
constexpr int SCALE_BYTES = GROUPS * SCALE_SIZE;
constexpr int SCALE_WORDS = HAS_GROUPS ? (SCALE_BYTES + 3) / 4 : 1;
constexpr int ZERO_BYTES = HAS_ZEROS ? (GROUPS * BITS + 7) / 8 : 0;
constexpr int GROUP_BLOCKS = HAS_GROUPS && KF_ROW.group >= 32 ? (int)KF_ROW.group / 32 : 1;

constexpr bool TILED =
    WAY != WAY_NONE && BITS >= 4 &&
    (!HAS_GROUPS || (SCALING == SCALING_CODES ? KF_ROW.scale == KERF_SCALE_E4M3
                                              : GROUPS >= 1 && KF_ROW.group % 32 == 0));

/* Of rows g and g + 8 of a tile and one stage. */
struct scales {
    uint32_t w[2][SCALE_WORDS];
    uint32_t zero[2];
    float second[2];
};

__device__ __forceinline__ uint32_t bytes_at(const uint8_t *p, int have)
{
    uint32_t w = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < have) w |= (uint32_t)__ldg(p + i) << 8 * i;
    return w;
}

/* SCALE_BYTES bytes; those past `have` are zero. */
__device__ __forceinline__ void load_scales(uint32_t w[SCALE_WORDS], const uint8_t *p, int have,
                                            int wide)
{
    if (wide && have > 0) {
        if constexpr (SCALE_BYTES == 16) {
            uint4 v = __ldg((const uint4 *)p);
            w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
        } else if constexpr (SCALE_BYTES == 8) {
            uint2 v = __ldg((const uint2 *)p);
            w[0] = v.x, w[1] = v.y;
        } else if constexpr (SCALE_BYTES == 4) {
            w[0] = __ldg((const uint32_t *)p);
        } else {
            w[0] = __ldg((const uint16_t *)p);
        }
        return;
    }
    for (int i = 0; i < SCALE_WORDS; i++)
        w[i] = bytes_at(p + 4 * i, min(have, SCALE_BYTES) - 4 * i);
}

/* Scale i of a stage. PLAIN: no E8M0 byte is 0 or 255. */
template <bool PLAIN>
__device__ __forceinline__ float scale_at(const scales &s, int row, int i, float offset)
{
    const uint32_t *w = s.w[row];
    if constexpr (KF_ROW.scale == KERF_SCALE_F32) {
        return __uint_as_float(w[i]);
    } else if constexpr (KF_ROW.scale == KERF_SCALE_F16) {
        return __half2float(__ushort_as_half((unsigned short)(w[i / 2] >> 16 * (i % 2))));
    } else if constexpr (KF_ROW.scale == KERF_SCALE_BF16) {
        return __uint_as_float(i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16);
    } else {
        uint32_t word = w[i / 4], at = 8 * (i % 4);
        if constexpr (KF_ROW.scale == KERF_SCALE_MAP8) {
            kf_scale stored = {word >> at & 0xff, 0};
            return kf_dequant_init(KF_ROW, stored, s.second[row], offset).scale;
        } else if constexpr (PLAIN) {
            return __uint_as_float((at <= 16 ? word << (23 - at) : word >> (at - 23)) &
                                   0x7f800000u);
        } else {
            return kf_e8m0_decode(word >> at & 0xff);
        }
    }
}

__device__ __forceinline__ bool has_zero_byte(uint32_t w)
{
    return (w - 0x01010101u) & ~w & 0x80808080u;
}

/* Bytes that an exponent field does not express: 2^-127, and NaN. Those past the end of a row
 * count too, which costs a little and changes nothing. */
__device__ __forceinline__ bool is_odd(const scales &s)
{
    bool odd = false;
    if constexpr (KF_ROW.scale == KERF_SCALE_E8M0)
        for (int i = 0; i < SCALE_WORDS; i++)
            for (int row = 0; row < 2; row++)
                odd = odd || has_zero_byte(s.w[row][i]) || has_zero_byte(~s.w[row][i]);
    return odd;
}

/* --- places ----------------------------------------------------------------------------------- */

/* A tile of some part. */
struct place {
    uint32_t part, row; /* the first of its 16 */
};

__device__ __forceinline__ place place_of(const kf_gemv_job &j, uint32_t tile)
{
    if (j.swiglu) return {tile % 2, tile / 2 * TILE};
    uint32_t part = 0, before = 0;
    while (part + 1 < j.parts && tile >= j.part[part].tiles) before = j.part[part++].tiles;
    return {part, (tile - before) * TILE};
}

/* Runs of tiles and stages, cut evenly. */
__device__ __forceinline__ uint32_t cut(uint32_t n, uint32_t i, uint32_t of)
{
    return (uint32_t)((uint64_t)n * i / of);
}

struct span {
    uint32_t tile, tiles;   /* the block's, counted over all parts */
    uint32_t stage, stages; /* its part of a row                   */
};

__device__ __forceinline__ span span_of(const kf_gemv_job &j)
{
    uint32_t team = blockIdx.x / j.cluster, rank = blockIdx.x % j.cluster;
    uint32_t teams = gridDim.x / j.cluster, unit = j.swiglu ? 2 : 1;
    uint32_t t0 = cut(j.tiles / unit, team, teams) * unit;
    uint32_t t1 = cut(j.tiles / unit, team + 1, teams) * unit;
    uint32_t s0 = cut(j.stages, rank, j.cluster), s1 = cut(j.stages, rank + 1, j.cluster);
    return {t0, t1 - t0, s0, s1 - s0};
}

/* Where a warp is in its run. */
struct cursor {
    uint32_t tile, stage, left; /* within the span; units left */

    __device__ __forceinline__ bool next(uint32_t stages) /* true: a new tile */
    {
        left--;
        if (++stage < stages) return false;
        stage = 0;
        tile++;
        return true;
    }
};

/* --- weights into shared memory -----------------------------------------------------------------
 */

/* 16 bytes, or as many zeros. */
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool valid, bool active)
{
    if (active)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(valid ? 16 : 0)
                     : "memory");
}
__device__ __forceinline__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most depth - 1 of the groups are on their way. */
__device__ __forceinline__ void wait_copies(uint32_t depth)
{
    if (depth == 2)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else if (depth == 3)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (depth == 4)
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
}

constexpr int ROWS_AT_ONCE = 32 / PIECES, COPIES = TILE / ROWS_AT_ONCE;

/* The codes of a warp's run on their way into its ring: a lane copies one piece of each
 * ROWS_AT_ONCE-th row. */
struct codes {
    cursor at;
    const uint8_t *from; /* the lane's piece of its first row */
    uint32_t rows, have; /* of the tile from the lane's first row on; bytes from its piece on */
    uint32_t to[2];      /* its place in a stage, of even and of odd copies */

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const span &s, uint32_t lane)
    {
        uint32_t row = lane / PIECES, piece = lane % PIECES;
        place p = place_of(j, s.tile + at.tile);
        const kf_gemv_matrix &m = j.part[p.part];
        uint64_t byte = (uint64_t)(s.stage + at.stage) * ROW_STAGE + piece * 16;
        from = m.plane[KERF_PLANE_CODES] + (uint64_t)(p.row + row) * j.row_bytes + byte;
        rows = p.row + row < m.rows && row < ROWS_AT_ONCE ? min(m.rows - p.row - row, TILE) : 0;
        have = byte < j.row_bytes ? (uint32_t)min(j.row_bytes - byte, (uint64_t)0xffffffffu) : 0;
    }

    __device__ __forceinline__ void begin(const kf_gemv_job &j, const span &s, cursor c,
                                          uint32_t lane)
    {
        uint32_t row = lane / PIECES, piece = lane % PIECES;
        at = c;
        for (uint32_t odd = 0; odd < 2; odd++) {
            uint32_t twist = BITS == 6 ? 0 : (row + odd * ROWS_AT_ONCE) & 7;
            to[odd] = row * PITCH + (piece ^ twist) * 16;
        }
        if (at.left) aim(j, s, lane);
    }

    __device__ __forceinline__ void fetch(const kf_gemv_job &j, const span &s, uint32_t ring,
                                          uint32_t lane)
    {
        const uint8_t *p = from;
        uint64_t step = ROWS_AT_ONCE * j.row_bytes;
#pragma unroll
        for (int i = 0; i < COPIES; i++, p += step)
            copy_async(ring + to[i % 2] + i * (ROWS_AT_ONCE * PITCH), p,
                       i * ROWS_AT_ONCE < rows && have >= 16, PIECES == 8 || lane < 24);
        if (at.next(s.stages)) {
            if (at.left) aim(j, s, lane);
        } else {
            from += ROW_STAGE;
            have = have > ROW_STAGE ? have - ROW_STAGE : 0;
        }
    }
};

/* The scales that a warp's run needs next. */
struct scale_feed {
    const uint8_t *from[2];
    const uint8_t *zeros[2];
    uint64_t group[2];
    uint32_t groups[2]; /* left in the row; 0: no such row */
    const float *second;

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const span &s, const cursor &c,
                                        uint32_t lane)
    {
        if constexpr (!HAS_GROUPS) return;
        place p = place_of(j, s.tile + c.tile);
        const kf_gemv_matrix &m = j.part[p.part];
        uint64_t done = (uint64_t)(s.stage + c.stage) * GROUPS;
        second = (const float *)m.plane[KERF_PLANE_SECOND];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t row = p.row + lane / 4 + 8 * half;
            bool valid = row < m.rows;
            if (KF_ROW.geometry == KERF_GROUP_TILE) row = p.row / KF_ROW.group, valid = true;
            group[half] = valid ? row * j.row_groups + done : 0;
            groups[half] = valid ? (uint32_t)(j.row_groups - done) : 0;
            from[half] = m.plane[KERF_PLANE_SCALES] + group[half] * SCALE_SIZE;
            if constexpr (HAS_ZEROS)
                zeros[half] =
                    m.plane[KERF_PLANE_ZEROS] + (valid ? row * j.zero_bytes : 0) + done * BITS / 8;
        }
    }

    __device__ __forceinline__ void fetch(scales &out, const kf_gemv_job &j)
    {
        if constexpr (!HAS_GROUPS) return;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int n = min(GROUPS, (int)groups[half]);
            load_scales(out.w[half], from[half], n * SCALE_SIZE, j.wide);
            from[half] += SCALE_BYTES;
            if constexpr (HAS_ZEROS) {
                out.zero[half] = bytes_at(zeros[half], (n * BITS + 7) / 8);
                zeros[half] += ZERO_BYTES;
            }
            if constexpr (NESTED) {
                out.second[half] = __ldg(second + group[half] / KF_NEST_BLOCKS);
                group[half] += GROUPS;
            }
            groups[half] -= n;
        }
    }
};

/* --- x ------------------------------------------------------------------------------------------
 */

__device__ __forceinline__ float x_at(const kf_gemv_job &j, uint64_t i)
{
    if (j.x_type == KERF_F32) return ((const float *)j.x)[i];
    uint32_t u = ((const uint16_t *)j.x)[i];
    return j.x_type == KERF_BF16 ? __uint_as_float(u << 16)
                                 : __half2float(__ushort_as_half((unsigned short)u));
}

/* The power of two that brings a column whose largest finite magnitude has these bits to 2^14 and
 * more, as an exponent. */
__device__ __forceinline__ int x_shift(uint32_t largest)
{
    int e = (int)(largest >> 23) - 127;
    return largest == 0 ? 0 : min(max(14 - e, -126), 126);
}

/* Bits of the largest finite magnitude of each column of the block's part of x. */
__device__ void measure_x(const kf_gemv_job &j, uint32_t k0, uint32_t n, uint32_t *largest)
{
    for (uint32_t c = 0; c < j.columns; c++) {
        uint32_t most = 0;
        for (uint32_t k = threadIdx.x; k < n; k += THREADS) {
            uint32_t u = __float_as_uint(x_at(j, c * j.x_stride + k0 + k)) & 0x7fffffffu;
            if (u < 0x7f800000u) most = max(most, u);
        }
        most = __reduce_max_sync(0xffffffffu, most);
        if (threadIdx.x % 32 == 0 && most) atomicMax(largest + c, most);
    }
}

/* Eight elements of x, k0 .. and every `gap` of them; those past the end are zero. */
__device__ __forceinline__ void store_eight(uint4 *to, const uint16_t v[8])
{
    uint4 r = {v[0] | (uint32_t)v[1] << 16, v[2] | (uint32_t)v[3] << 16,
               v[4] | (uint32_t)v[5] << 16, v[6] | (uint32_t)v[7] << 16};
    *to = r;
}

/* Puts the block's part of x down: [column][32 elements][lane of the quad][8 halves]. */
__device__ void stage_x(const kf_gemv_job &j, const span &s, uint8_t *shared,
                        const uint32_t *largest)
{
    uint32_t k0 = s.stage * STAGE_CODES, quads = s.stages * STAGE_CODES / 8;
    for (uint32_t c = 0; c < j.columns; c++) {
        float factor = 1;
        if (j.x_type != KERF_F16) factor = kf_exp2(x_shift(largest[c]));
        for (uint32_t i = threadIdx.x; i < quads; i += THREADS) {
            uint32_t block = i / 4, t = i % 4, k = k0 + block * 32;
            uint64_t at = c * j.x_stride + k;
            uint16_t v[8];
            if (j.x_type == KERF_F16 && j.x_wide && BITS != 16 && k + 32 <= j.cols) {
                uint16_t in[8];
                const uint16_t *x = (const uint16_t *)j.x + at;
                if (BITS == 8) {
                    *(uint2 *)in = *(const uint2 *)(x + 4 * t);
                    *(uint2 *)(in + 4) = *(const uint2 *)(x + 16 + 4 * t);
                } else {
                    *(uint4 *)in = *(const uint4 *)(x + 8 * t);
                }
#pragma unroll
                for (int e = 0; e < 8; e++) /* order() of lane 0 is the order within a piece */
                    v[e] = in[BITS == 8 ? e : order(0, e)];
            } else {
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    uint32_t o = order((int)t, e);
                    float x = k + o < j.cols ? x_at(j, at + o) : 0.0f;
                    v[e] = __half_as_ushort(__float2half_rn(x * factor));
                }
            }
            store_eight((uint4 *)(shared + (size_t)c * j.x_pitch) + i, v);
        }
    }
}

/* --- a stage ------------------------------------------------------------------------------------
 */

__device__ __forceinline__ void multiply(float c[4], const uint32_t a0, uint32_t a1, uint32_t a2,
                                         uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void load_matrices(uint32_t w[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(at));
}

/* What a warp knows while it works. */
struct worker {
    uint32_t lane, table;
    uint32_t place;   /* of the lane's row of a matrix in a stage, pieces twisted by its row */
    uint32_t x;       /* shared address of the lane's place in x                        */
    uint32_t x_pitch; /* from column n to column n + 8, in bytes                        */
    bool x_lane[2];   /* whether the lane's column n, n + 8 is one of x's               */
    uint32_t zero[2]; /* minus_1024() of rows g, g + 8, where zeros are per row         */
    float offset;
};

/* The codes of block b of a stage: rows g in a, g + 8 in b. */
__device__ __forceinline__ void load_codes(uint32_t ring, uint32_t lane, uint32_t place, int block,
                                           uint32_t a[4], uint32_t b[4], uint32_t kept[4])
{
    if constexpr (BITS == 6) {
        /* Eight codes are six bytes: in two words, from the lower or the upper half of the first.
         */
        uint32_t t = lane % 4, at = ring + lane / 4 * PITCH + block * 24 + (6 * t & ~3u);
        uint32_t shift = t % 2 * 16;
        uint32_t low = shared_word(at), high = shared_word(at + 4);
        a[0] = __funnelshift_r(low, high, shift), a[1] = high >> shift;
        low = shared_word(at + 8 * PITCH), high = shared_word(at + 8 * PITCH + 4);
        b[0] = __funnelshift_r(low, high, shift), b[1] = high >> shift;
    } else {
        constexpr int per_load = BITS == 4 ? 2 : 1, loads = BITS == 16 ? 2 : 1;
        if (BITS != 4 || block % 2 == 0) {
#pragma unroll
            for (int l = 0; l < loads; l++) {
                uint32_t w[4], pair = block * loads / per_load + l;
                load_matrices(w, ring + (place ^ pair * 32));
                if constexpr (BITS == 4) {
                    a[0] = w[0], b[0] = w[1], kept[0] = w[2], kept[1] = w[3];
                } else {
                    a[2 * l] = w[0], b[2 * l] = w[1], a[2 * l + 1] = w[2], b[2 * l + 1] = w[3];
                }
            }
        } else {
            a[0] = kept[0], b[0] = kept[1];
        }
    }
}

template <int NB, bool ONE, bool PLAIN>
__device__ __forceinline__ void consume_blocks(const worker &me, uint32_t ring, uint32_t x,
                                               const scales &s, float sum[NB][4])
{
    uint32_t kept[4], scale_pairs[2][4];
    if constexpr (SCALING == SCALING_CODES) {
        uint32_t pick =
            me.lane % 4 / 2 ? 0x7531 : 0x6420; /* a lane's eight are half a pair of 16s */
#pragma unroll
        for (int row = 0; row < 2; row++)
            for (int i = 0; i < 2; i++) {
                uint32_t four = __byte_perm(s.w[row][2 * i], s.w[row][2 * i + 1], pick);
                scale_pairs[row][2 * i] = halves_of_e4m3(four);
                scale_pairs[row][2 * i + 1] = upper_halves_of_e4m3(four);
            }
    }
    float group[NB][4];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        uint32_t a[4], b[4], p[4], q[4];
        load_codes(ring, me.lane, me.place, block, a, b, kept);
        uint32_t zero[2] = {me.zero[0], me.zero[1]};
        if constexpr (HAS_ZEROS && HAS_GROUPS) {
            constexpr uint32_t flip = KF_ROW.element == KERF_ELEM_S8 ? 0x80 : 0;
            int i = block / GROUP_BLOCKS;
            for (int row = 0; row < 2; row++)
                zero[row] = minus_1024((s.zero[row] >> i * BITS & ((1u << BITS) - 1)) ^ flip);
        }
        decode(a, zero[0], me.table, p);
        decode(b, zero[1], me.table, q);
        if constexpr (SCALING == SCALING_CODES) {
            uint32_t which = block % 2 ? 0x3232 : 0x1010;
            uint32_t f = __byte_perm(scale_pairs[0][block / 2], 0, which);
            uint32_t g = __byte_perm(scale_pairs[1][block / 2], 0, which);
#pragma unroll
            for (int i = 0; i < 4; i++) p[i] = mul_halves(p[i], f), q[i] = mul_halves(q[i], g);
        }
        if (SCALING == SCALING_GROUP && block % GROUP_BLOCKS == 0)
            for (int n = 0; n < NB; n++)
                for (int i = 0; i < 4; i++) group[n][i] = 0;
#pragma unroll
        for (int n = 0; n < NB; n++) {
            uint4 v = {0, 0, 0, 0};
            if (me.x_lane[n])
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                             : "r"(x + n * me.x_pitch + block * 64));
            float *c = SCALING == SCALING_GROUP ? group[n] : sum[n];
            multiply(c, p[0], q[0], p[1], q[1], v.x, v.y);
            multiply(c, p[2], q[2], p[3], q[3], v.z, v.w);
        }
        if (SCALING == SCALING_GROUP && (block + 1) % GROUP_BLOCKS == 0) {
            int i = block / GROUP_BLOCKS;
            float f = scale_at<PLAIN>(s, 0, i, me.offset), g = scale_at<PLAIN>(s, 1, i, me.offset);
#pragma unroll
            for (int n = 0; n < NB; n++) {
                sum[n][0] = __fmaf_rn(group[n][0], f, sum[n][0]);
                sum[n][2] = __fmaf_rn(group[n][2], g, sum[n][2]);
                if constexpr (!ONE) {
                    sum[n][1] = __fmaf_rn(group[n][1], f, sum[n][1]);
                    sum[n][3] = __fmaf_rn(group[n][3], g, sum[n][3]);
                }
            }
        }
    }
}

template <int NB, bool ONE>
__device__ __forceinline__ void consume(const worker &me, uint32_t ring, uint32_t x,
                                        const scales &s, float sum[NB][4])
{
    if constexpr (KF_ROW.scale == KERF_SCALE_E8M0) {
        if (__any_sync(0xffffffffu, is_odd(s)))
            consume_blocks<NB, ONE, false>(me, ring, x, s, sum);
        else
            consume_blocks<NB, ONE, true>(me, ring, x, s, sum);
    } else {
        consume_blocks<NB, ONE, true>(me, ring, x, s, sum);
    }
}

/* --- sums ---------------------------------------------------------------------------------------
 */

/* A slot: [column][16 rows]. */
template <int NB, bool ONE>
__device__ __forceinline__ void leave(float *slot, uint32_t lane, float sum[NB][4])
{
    uint32_t g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < NB; n++) {
        float *column = slot + (8 * n + 2 * t) * TILE;
        if (!ONE || t == 0) column[g] = sum[n][0], column[g + 8] = sum[n][2];
        if (!ONE) column[TILE + g] = sum[n][1], column[TILE + g + 8] = sum[n][3];
#pragma unroll
        for (int i = 0; i < 4; i++) sum[n][i] = 0;
    }
}

template <int NB, bool ONE> constexpr uint32_t SLOT = TILE *(ONE ? 1 : 8 * NB); /* floats */

__device__ __forceinline__ float load_y(const kf_gemv_job &j, const uint8_t *p, uint64_t i)
{
    if (j.y_type == KERF_F32) return ((const float *)p)[i];
    uint32_t u = ((const uint16_t *)p)[i];
    return j.y_type == KERF_BF16 ? __uint_as_float(u << 16)
                                 : __half2float(__ushort_as_half((unsigned short)u));
}

__device__ __forceinline__ void store_y(const kf_gemv_job &j, uint8_t *p, uint64_t i, float v)
{
    if (j.y_type == KERF_F32)
        ((float *)p)[i] = v;
    else if (j.y_type == KERF_F16)
        ((__half *)p)[i] = __float2half_rn(v);
    else
        ((uint16_t *)p)[i] = kf_bf16_encode(v);
}

__device__ __forceinline__ float silu(float z)
{
    return z / (1.0f + expf(-z));
}

/* What y is from the sum of a row: W x in `sum`, and of the second part in `up`. */
__device__ __forceinline__ void finish(const kf_gemv_job &j, const kf_gemv_matrix &m, uint32_t row,
                                       uint32_t column, float sum, float up)
{
    uint64_t at = column * m.y_stride + row;
    float v = sum;
    if (j.alpha != 1) v *= j.alpha, up *= j.alpha;
    if (j.swiglu) v = silu(v) * up;
    if (m.bias) v += load_y(j, m.bias, row);
    if (m.residual) v += load_y(j, m.residual, at);
    store_y(j, m.y, at, v);
}

__device__ __forceinline__ float load_remote(const float *p, uint32_t rank)
{
#if __CUDA_ARCH__ >= 900
    uint32_t here = (uint32_t)__cvta_generic_to_shared(p), there;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
    return v;
#else
    (void)rank;
    return *p;
#endif
}

__device__ __forceinline__ void sync_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void begin_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void wait_previous()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* --- what rows share ----------------------------------------------------------------------------
 */

/* What a row's sum is multiplied by in the end, and its zero point, for each row of the block. */
__device__ void prepare_rows(const kf_gemv_job &j, const span &s, float *factors, uint32_t *zeros)
{
    for (uint32_t i = threadIdx.x; i < s.tiles * TILE; i += THREADS) {
        place p = place_of(j, s.tile + i / TILE);
        const kf_gemv_matrix &m = j.part[p.part];
        uint32_t row = p.row + i % TILE;
        float f = UNIT;
        uint32_t zero = KF_ROW.element == KERF_ELEM_S4   ? 8
                        : KF_ROW.element == KERF_ELEM_U4 ? 0
                                                         : 128;
        if (row < m.rows) {
            uint64_t at = KF_ROW.geometry == KERF_GROUP_TENSOR ? 0 : row;
            const uint8_t *scale = m.plane[KERF_PLANE_SCALES];
            if constexpr (SCALING == SCALING_ROW && SCALE_SIZE == 4)
                f *= __ldg((const float *)scale + at);
            if constexpr (SCALING == SCALING_ROW && SCALE_SIZE == 2)
                f *= kf_scale_value(KF_ROW.scale, __ldg((const uint16_t *)scale + at));
            if constexpr (KF_ROW.second == KERF_SECOND_TENSOR)
                f *= __ldg((const float *)m.plane[KERF_PLANE_SECOND]);
            if constexpr (HAS_ZEROS && !HAS_GROUPS) {
                const uint8_t *p0 = m.plane[KERF_PLANE_ZEROS] + at * j.zero_bytes;
                zero = __ldg(p0) & ((1u << BITS) - 1);
                if (KF_ROW.element == KERF_ELEM_S8) zero ^= 0x80;
            }
        }
        factors[i] = f;
        zeros[i] = minus_1024(zero);
    }
}

/* All 256 pairs of codes as halves, a copy for each bank. */
__device__ void prepare_table(uint32_t *table)
{
    if constexpr (HAS_TABLE) {
        kf_dequant unit = {1, 0};
        for (uint32_t pair = threadIdx.x / 32; pair < 256; pair += WARPS) {
            uint8_t byte = (uint8_t)pair;
            uint32_t first = kf_get_code(&byte, 4, kf_code_place(KF_ROW, 0));
            uint32_t second = kf_get_code(&byte, 4, kf_code_place(KF_ROW, 1));
            uint32_t low = __half_as_ushort(__float2half_rn(kf_value(KF_ROW, unit, first)));
            uint32_t high = __half_as_ushort(__float2half_rn(kf_value(KF_ROW, unit, second)));
            table[pair * 32 + threadIdx.x % 32] = low | high << 16;
        }
    }
}

/* --- the kernel ---------------------------------------------------------------------------------
 */

/* The sum of a tile's row over the block's warps that had a part of it, in their order. */
__device__ __forceinline__ float sum_slots(const float *slots, uint32_t slot, uint32_t at,
                                           uint32_t tile, const span &s)
{
    uint32_t units = s.tiles * s.stages, from = tile * s.stages, to = from + s.stages;
    float sum = 0;
#pragma unroll 4
    for (uint32_t w = 0; w < WARPS; w++) {
        uint32_t begin = cut(units, w, WARPS), end = cut(units, w + 1, WARPS);
        if (begin < to && end > from && begin < end) sum += slots[(tile + w) * slot + at];
    }
    return sum;
}

template <int NB, bool ONE>
__global__ void __launch_bounds__(THREADS, ONE ? 2 : 1)
    gemv_tiles(const __grid_constant__ kf_gemv_job j)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint32_t largest[KERF_GEMV_COLUMNS];
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    span s = span_of(j);
    float *slots = (float *)(shared + j.slots_at);
    float *factors = (float *)(shared + j.rows_at);
    uint32_t *zeros = (uint32_t *)(factors + (size_t)j.most * TILE);
    uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    uint32_t ring = base + warp * j.depth * STAGE_BYTES;

    begin_next();
    if (!j.constant_weights) wait_previous();
    uint32_t units = s.tiles * s.stages, first = cut(units, warp, WARPS);
    uint32_t mine = cut(units, warp + 1, WARPS) - first;
    cursor at = {s.stages ? first / s.stages : 0, s.stages ? first % s.stages : 0, mine};
    codes feed;
    feed.begin(j, s, at, lane);
    for (uint32_t i = 0; i < j.depth; i++) {
        if (feed.at.left) feed.fetch(j, s, ring + i * STAGE_BYTES, lane);
        commit_copies();
    }
    scales now = {}, then = {};
    scale_feed scaled = {};
    if (mine) {
        scaled.aim(j, s, at, lane);
        scaled.fetch(now, j);
    }
    if (threadIdx.x < KERF_GEMV_COLUMNS) largest[threadIdx.x] = 0;
    prepare_rows(j, s, factors, zeros);
    prepare_table((uint32_t *)(shared + j.table_at));
    if (j.constant_weights) wait_previous();

    uint32_t k0 = s.stage * STAGE_CODES;
    if (j.x_type != KERF_F16) {
        __syncthreads();
        measure_x(j, k0, s.stages ? min(s.stages * STAGE_CODES, j.cols - k0) : 0, largest);
        __syncthreads();
    }
    stage_x(j, s, shared + j.x_at, largest);
    __syncthreads();

    worker me = {lane, base + j.table_at + lane * 4};
    uint32_t row = lane % 8 + lane / 8 % 2 * 8;
    me.place = row * PITCH + ((lane / 16 ^ row) & 7) * 16;
    me.x = base + j.x_at + lane / 4 * j.x_pitch + lane % 4 * 16;
    me.x_pitch = 8 * j.x_pitch;
    me.x_lane[0] = lane / 4 < j.columns;
    me.x_lane[1] = lane / 4 + 8 < j.columns;
    me.offset = 0;
    float sum[NB][4] = {};
    uint32_t slot = 0;
    bool fresh = true;
    for (; at.left; slot = slot + 1 == j.depth ? 0 : slot + 1) {
        if (fresh) {
            const kf_gemv_matrix &m = j.part[place_of(j, s.tile + at.tile).part];
            me.zero[0] = zeros[at.tile * TILE + lane / 4];
            me.zero[1] = zeros[at.tile * TILE + lane / 4 + 8];
            if constexpr (KF_ROW.zero == KERF_ZERO_F32)
                me.offset = __ldg((const float *)m.plane[KERF_PLANE_ZEROS]);
        }
        cursor here = at;
        fresh = at.next(s.stages);
        if (at.left) {
            if (fresh) scaled.aim(j, s, at, lane);
            scaled.fetch(then, j);
        }
        wait_copies(j.depth);
        __syncwarp();
        uint32_t from = ring + slot * STAGE_BYTES;
        consume<NB, ONE>(me, from, me.x + here.stage * (BLOCKS * 64), now, sum);
        if (fresh || !at.left)
            leave<NB, ONE>(slots + (here.tile + warp) * SLOT<NB, ONE>, lane, sum);
        __syncwarp();
        if (feed.at.left) feed.fetch(j, s, from, lane);
        commit_copies();
        now = then;
    }
    __syncthreads();

    uint32_t outputs = s.tiles * TILE * j.columns;
    if (j.cluster == 1) {
        for (uint32_t i = threadIdx.x; i < outputs; i += THREADS) {
            uint32_t r = i % TILE, tile = i / TILE % s.tiles, column = i / TILE / s.tiles;
            if (j.swiglu && tile % 2) continue;
            place p = place_of(j, s.tile + tile);
            const kf_gemv_matrix &m = j.part[p.part];
            if (p.row + r >= m.rows) continue;
            float back = j.x_type == KERF_F16 ? 1.0f : kf_exp2(-x_shift(largest[column]));
            uint32_t in = column * TILE + r;
            float v =
                sum_slots(slots, SLOT<NB, ONE>, in, tile, s) * back * factors[tile * TILE + r];
            float up = 0;
            if (j.swiglu)
                up = sum_slots(slots, SLOT<NB, ONE>, in, tile + 1, s) * back *
                     factors[(tile + 1) * TILE + r];
            finish(j, m, p.row + r, column, v, up);
        }
        return;
    }

    /* Blocks of a cluster add up their parts of each row, and each finishes some of the rows. The
     * sums of the block go where its own first slot of that place was, read by nobody else. */
    float *parts = (float *)shared; /* the ring is done with */
    for (uint32_t i = threadIdx.x; i < outputs; i += THREADS) {
        uint32_t r = i % TILE, tile = i / TILE % s.tiles, column = i / TILE / s.tiles;
        float back = j.x_type == KERF_F16 ? 1.0f : kf_exp2(-x_shift(largest[column]));
        parts[i] = sum_slots(slots, SLOT<NB, ONE>, column * TILE + r, tile, s) * back;
    }
    sync_cluster();
    uint32_t rank = blockIdx.x % j.cluster;
    for (uint32_t i = threadIdx.x + rank * THREADS; i < outputs; i += THREADS * j.cluster) {
        uint32_t r = i % TILE, tile = i / TILE % s.tiles, column = i / TILE / s.tiles;
        if (j.swiglu && tile % 2) continue;
        place p = place_of(j, s.tile + tile);
        const kf_gemv_matrix &m = j.part[p.part];
        if (p.row + r >= m.rows) continue;
        float v = 0, up = 0;
        for (uint32_t k = 0; k < j.cluster; k++) v += load_remote(parts + i, k);
        v *= factors[tile * TILE + r];
        if (j.swiglu) {
            for (uint32_t k = 0; k < j.cluster; k++) up += load_remote(parts + i + TILE, k);
            up *= factors[(tile + 1) * TILE + r];
        }
        finish(j, m, p.row + r, column, v, up);
    }
    sync_cluster(); /* nobody leaves while others read */
}

} // namespace
