/* gemv_tiles.cuh - y = W x with W decoded on its way into tensor cores.
 *
 * The unit of work is a tile of 16 rows times a stage of 256 bytes of codes (192 for 6 bits). A
 * block of 8 warps owns a run of whole tiles; its warps divide tiles x
 * stages evenly among them, each a run of its own, so that no warp waits for another until all
 * weights are read. Each warp keeps DEPTH stages on their way into shared memory, scales one step
 * ahead in registers, and sums over its run in registers. At the end of a tile or of its run a warp
 * leaves its sums in a slot; slots are added in the order of warps, by fixed rules: the same bits
 * in every run.
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

constexpr int TILE = KF_GEMV_TILE, WARPS = KF_GEMV_WARPS, THREADS = 32 * WARPS;
constexpr int ROW_STAGE = BITS == 6 ? 192 : 256; /* bytes */
constexpr int STAGE_CODES = BITS ? ROW_STAGE * 8 / BITS : 1;
constexpr int PITCH = BITS == 6 ? 208 : ROW_STAGE; /* 6 bits: rows apart so that banks differ */
constexpr int STAGE_BYTES = TILE * PITCH;
constexpr int DEPTH = BITS == 6 ? 3 : 2; /* stages on their way, 8 KiB of each warp */
constexpr int STEPS = BITS == 4 ? 2 : 1; /* of a stage, each with its scales */
constexpr int STEP_CODES = STAGE_CODES / STEPS;
constexpr int BLOCKS = STEP_CODES / 32; /* of 32 elements, of a step */
constexpr int PIECES = ROW_STAGE / 16;

/* --- scales ----------------------------------------------------------------------------------- */

enum scaling { SCALING_ROW, SCALING_CODES, SCALING_GROUP };

constexpr bool HAS_GROUPS = KF_ROW.geometry == KERF_GROUP_BLOCK ||
                            KF_ROW.geometry == KERF_GROUP_FLAT ||
                            KF_ROW.geometry == KERF_GROUP_TILE;
constexpr scaling SCALING = !HAS_GROUPS          ? SCALING_ROW
                            : KF_ROW.group == 16 ? SCALING_CODES
                                                 : SCALING_GROUP;
constexpr uint32_t TILE_ROWS = KF_ROW.group ? KF_ROW.group : 1; /* that share a row of scales */
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
constexpr int GROUPS = HAS_GROUPS ? STEP_CODES / (int)KF_ROW.group : 0; /* of a step */
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
    if (wide) {
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

/* Where warp w of the block begins in n units. */
__device__ __forceinline__ uint32_t cut(uint32_t n, uint32_t w)
{
    return n * w / WARPS;
}

struct span {
    uint32_t tile, tiles;   /* the block's, counted over all parts */
    uint32_t stage, stages; /* its part of a row                   */
};

__device__ __forceinline__ span span_of(const kf_gemv_job &j)
{
    uint32_t team = blockIdx.x, rank = 0, unit = j.swiglu ? 2 : 1;
    if (j.cluster > 1) team = blockIdx.x / j.cluster, rank = blockIdx.x % j.cluster;
    uint32_t tile = team * j.team_tiles + min(team, j.team_rest);
    uint32_t stage = rank * j.rank_stages + min(rank, j.rank_rest);
    return {tile * unit, (j.team_tiles + (team < j.team_rest)) * unit, stage,
            j.rank_stages + (rank < j.rank_rest)};
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
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until the oldest of DEPTH groups is there. */
__device__ __forceinline__ void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 1) : "memory");
}

/* A piece that is not at a multiple of 16 bytes. */
__device__ __noinline__ void copy_bytes(uint32_t to, const uint8_t *from, bool valid)
{
    uint32_t w[4] = {0, 0, 0, 0};
    if (valid)
        for (int i = 0; i < 16; i++) w[i / 4] |= (uint32_t)__ldg(from + i) << i % 4 * 8;
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]),
                 "r"(w[2]), "r"(w[3])
                 : "memory");
}

constexpr int ROWS_AT_ONCE = 2, COPIES = TILE / ROWS_AT_ONCE; /* by 32 lanes; 6 bits: 24 */

/* The codes of a warp's run on their way into its ring: a lane copies one piece of each
 * ROWS_AT_ONCE-th row. */
struct codes {
    cursor at;
    const uint8_t *from; /* the lane's piece of its first row */
    uint32_t rows, have; /* of the tile from the lane's first row on; bytes from its piece on */
    uint32_t to;         /* its place in a stage */

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const span &s, uint32_t lane)
    {
        uint32_t row = lane / PIECES, piece = lane % PIECES;
        struct place p = place_of(j, s.tile + at.tile);
        const kf_gemv_matrix &m = j.part[p.part];
        uint64_t byte = (uint64_t)(s.stage + at.stage) * ROW_STAGE + piece * 16;
        from = m.plane[KERF_PLANE_CODES] + (uint64_t)(p.row + row) * j.row_bytes + byte;
        rows = p.row + row < m.rows && row < ROWS_AT_ONCE ? min(m.rows - p.row - row, TILE) : 0;
        have = byte < j.row_bytes ? (uint32_t)min(j.row_bytes - byte, (uint64_t)0xffffffffu) : 0;
    }

    __device__ __forceinline__ void begin(const kf_gemv_job &j, const span &s, cursor c,
                                          uint32_t ring, uint32_t lane)
    {
        uint32_t row = lane / PIECES, piece = lane % PIECES;
        at = c;
        to = ring + row * PITCH + (BITS == 6 ? piece : piece ^ row) * 16;
        if (at.left) aim(j, s, lane);
    }

    /* Where the lane's i-th copy goes: pieces of a row are twisted by its number. */
    __device__ __forceinline__ uint32_t place(uint32_t slot, int i) const
    {
        uint32_t twist = BITS == 6 ? 0 : i * ROWS_AT_ONCE % 8 * 16;
        return ((to + slot) ^ twist) + i * (ROWS_AT_ONCE * PITCH);
    }

    /* Into the ring's stage at `slot` bytes. */
    __device__ __forceinline__ void fetch(const kf_gemv_job &j, const span &s, uint32_t slot,
                                          uint32_t lane)
    {
        const uint8_t *p = from;
        uint64_t step = ROWS_AT_ONCE * j.row_bytes;
        bool plain = j.aligned && __all_sync(0xffffffffu, rows >= TILE - 1 && have != 0);
        if (PIECES * ROWS_AT_ONCE == 32 && plain) {
#pragma unroll
            for (int i = 0; i < COPIES; i++, p += step) copy_async(place(slot, i), p, true);
        } else if (lane < PIECES * ROWS_AT_ONCE) {
#pragma unroll 1
            for (int i = 0; i < COPIES; i++, p += step) {
                bool valid = i * ROWS_AT_ONCE < rows && have != 0;
                if (j.aligned)
                    copy_async(place(slot, i), p, valid);
                else
                    copy_bytes(place(slot, i), p, valid);
            }
        }
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
    uint32_t left; /* groups of the row from here on */
    const float *second;

    /* Rows past the last stand for the last: what comes of them is not written. */
    __device__ __forceinline__ void aim(const kf_gemv_job &j, const span &s, const cursor &c,
                                        uint32_t lane)
    {
        if constexpr (HAS_GROUPS) {
            place p = place_of(j, s.tile + c.tile);
            const kf_gemv_matrix &m = j.part[p.part];
            uint64_t done = (uint64_t)(s.stage + c.stage) * (STEPS * GROUPS);
            second = (const float *)m.plane[KERF_PLANE_SECOND];
            left = (uint32_t)(j.row_groups - done);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                uint32_t row = min(p.row + lane / 4 + 8 * half, m.rows - 1);
                if (KF_ROW.geometry == KERF_GROUP_TILE) row = p.row / TILE_ROWS;
                group[half] = row * j.row_groups + done;
                from[half] = m.plane[KERF_PLANE_SCALES] + group[half] * SCALE_SIZE;
                if constexpr (HAS_ZEROS)
                    zeros[half] = m.plane[KERF_PLANE_ZEROS] + row * j.zero_bytes + done * BITS / 8;
            }
        }
    }

    /* To the next step of the row. Where scales are read whole and there is none, it stays: codes
     * and x are zero there, and the scales of the row's own do no harm. */
    __device__ __forceinline__ void advance(int wide)
    {
        if (wide && left <= GROUPS) return;
        left -= min(left, (uint32_t)GROUPS);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            from[half] += SCALE_BYTES;
            if constexpr (HAS_ZEROS) zeros[half] += ZERO_BYTES;
            if constexpr (NESTED) group[half] += GROUPS;
        }
    }

    __device__ __forceinline__ int here() const
    {
        return (int)min(left, (uint32_t)GROUPS);
    }

    /* What goes with scales. */
    __device__ __forceinline__ void fetch_rest(int half, uint32_t &zero, float &above) const
    {
        if constexpr (HAS_ZEROS) zero = bytes_at(zeros[half], (here() * BITS + 7) / 8);
        if constexpr (NESTED) above = __ldg(second + group[half] / KF_NEST_BLOCKS);
    }

    __device__ __forceinline__ void fetch(scales &out, int wide) const
    {
        if constexpr (HAS_GROUPS) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                load_scales(out.w[half], from[half], here() * SCALE_SIZE, wide);
                fetch_rest(half, out.zero[half], out.second[half]);
            }
        }
    }
};

/* --- one column: groups apart
 * ----------------------------------------------------------------------
 *
 * With one column of x the tensor core has seven to spare. Each group of a stage takes one of them:
 * its part of x stands in that column alone, so that sums of groups come out side by side, those of
 * lane t of a quad in its own registers, and every scale is read and applied once, by one lane. A
 * stage with blocks of 16 needs two rounds of eight columns. */
constexpr bool APART = SCALING != SCALING_ROW;
constexpr int ROUNDS = GROUPS > 8 ? GROUPS / 8 : 1;
constexpr int ROUND_GROUPS = GROUPS / ROUNDS, ROUND_BLOCKS = BLOCKS / ROUNDS;
constexpr int LANE_GROUPS = ROUND_GROUPS >= 8 ? 2 : 1, LANE_BYTES = LANE_GROUPS * SCALE_SIZE;

/* The scales of lane t: of its groups in each round, for rows g and g + 8. */
struct own_scales {
    uint32_t w[2][ROUNDS];
    uint32_t zero[2]; /* of all groups: codes are decoded by every lane */
    float second[2];
};

/* Lanes without a group take the last one's scale: x is zero in their columns. */
__device__ __forceinline__ void fetch_own(own_scales &out, const scale_feed &feed, int wide,
                                          uint32_t lane)
{
    if constexpr (HAS_GROUPS) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int round = 0; round < ROUNDS; round++) {
                int first = min((int)lane % 4 * LANE_GROUPS, ROUND_GROUPS - LANE_GROUPS);
                first += round * ROUND_GROUPS;
                const uint8_t *p = feed.from[half] + first * SCALE_SIZE;
                if (!wide)
                    out.w[half][round] =
                        bytes_at(p, min((feed.here() - first) * SCALE_SIZE, LANE_BYTES));
                else if constexpr (LANE_BYTES == 4)
                    out.w[half][round] = __ldg((const uint32_t *)p);
                else if constexpr (LANE_BYTES == 2)
                    out.w[half][round] = __ldg((const unsigned short *)p);
                else
                    out.w[half][round] = __ldg(p);
            }
            feed.fetch_rest(half, out.zero[half], out.second[half]);
        }
    }
}

/* Both scales of a lane in a round; where it has one, the second is not used. */
__device__ __forceinline__ float2 own_scale(const own_scales &s, int row, int round, float offset)
{
    uint32_t w = s.w[row][round];
    if constexpr (KF_ROW.scale == KERF_SCALE_E4M3) {
        return __half22float2(as_half2(halves_of_e4m3(w)));
    } else if constexpr (KF_ROW.scale == KERF_SCALE_E8M0) {
        return {kf_e8m0_decode(w & 0xff), kf_e8m0_decode(w >> 8)};
    } else if constexpr (KF_ROW.scale == KERF_SCALE_F32) {
        return {__uint_as_float(w), 0};
    } else if constexpr (KF_ROW.scale == KERF_SCALE_F16) {
        return __half22float2(as_half2(w));
    } else if constexpr (KF_ROW.scale == KERF_SCALE_BF16) {
        return {__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u)};
    } else {
        kf_scale stored = {w & 0xff, 0};
        return {kf_dequant_init(KF_ROW, stored, s.second[row], offset).scale, 0};
    }
}

/* The block of a round (SCALING_CODES) or the group of a stage in which lane (g, t) has x. */
__device__ __forceinline__ int own_part(uint32_t lane)
{
    int g = (int)lane / 4, t = (int)lane % 4;
    if (SCALING == SCALING_CODES) return g % 2 == t / 2 ? g / 2 : -1;
    if (ROUND_GROUPS >= 8) return g;
    return g % 2 == 0 ? g / 2 : -1;
}

/* --- x ------------------------------------------------------------------------------------------
 *
 * x may be what the kernel before this one wrote while this one already ran: it is read from the
 * second level of the cache, never through the read-only path. */

__device__ __forceinline__ float x_at(const kf_gemv_job &j, uint64_t i)
{
    if (j.x_type == KERF_F32) return __ldcg((const float *)j.x + i);
    uint32_t u = __ldcg((const unsigned short *)j.x + i);
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

/* Places of x: lane `t` of block `block` of column `column`, each thread every THREADS-th. */
struct x_cursor {
    uint32_t i, column;

    __device__ __forceinline__ void settle(uint32_t each)
    {
        while (i >= each) i -= each, column++;
    }
};

/* 16 bits, whole and aligned. */
__device__ __forceinline__ uint4 load_eight(const kf_gemv_job &j, const x_cursor &c, uint32_t k0)
{
    uint32_t t = c.i % 4;
    const uint16_t *x = (const uint16_t *)j.x + c.column * j.x_stride + k0 + c.i / 4 * 32;
    if (BITS == 8) {
        uint2 a = __ldcg((const uint2 *)(x + 4 * t)), b = __ldcg((const uint2 *)(x + 16 + 4 * t));
        return {a.x, a.y, b.x, b.y};
    }
    return __ldcg((const uint4 *)(x + 8 * t));
}

__device__ __forceinline__ uint32_t half_pair(const kf_gemv_job &j, uint32_t pair, float factor)
{
    if (j.x_type == KERF_F16) return pair;
    __half2 h = __floats2half2_rn(__uint_as_float(pair << 16) * factor,
                                  __uint_as_float(pair & 0xffff0000u) * factor);
    return *(uint32_t *)&h;
}

/* In the order of codes. */
__device__ __forceinline__ uint4 in_order(const uint32_t w[4])
{
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int a = BITS == 8 ? 2 * i : order(0, 2 * i), b = BITS == 8 ? a + 1 : order(0, 2 * i + 1);
        v[i] = __byte_perm(w[a / 2], w[b / 2], (a % 2 ? 0x32 : 0x10) | (b % 2 ? 0x7600 : 0x5400));
    }
    return {v[0], v[1], v[2], v[3]};
}

/* Bits of the largest finite magnitude of each column of the block's part of x. */
__device__ void measure_x(const kf_gemv_job &j, uint32_t k0, uint32_t n, uint32_t *largest)
{
    for (uint32_t c = 0; c < j.columns; c++) {
        uint32_t most = 0;
#pragma unroll 8
        for (uint32_t k = threadIdx.x; k < n; k += THREADS) {
            uint32_t u = __float_as_uint(x_at(j, c * j.x_stride + k0 + k)) & 0x7fffffffu;
            most = max(most, u < 0x7f800000u ? u : 0);
        }
        most = __reduce_max_sync(0xffffffffu, most);
        if (threadIdx.x % 32 == 0 && most) atomicMax(largest + c, most);
    }
}

/* 16-bit x into shared memory as it is, save that 8-bit codes have their quarters in other places.
 * A thread copies what it will put in order: nobody else need wait for it. */
__device__ __forceinline__ void copy_x(const kf_gemv_job &j, x_cursor c, uint32_t k0, uint32_t each,
                                       uint8_t *to)
{
    uint32_t base = (uint32_t)__cvta_generic_to_shared(to);
    for (; c.column < j.columns; c.i += THREADS, c.settle(each)) {
        uint32_t t = c.i % 4, there = base + c.column * j.x_pitch + c.i * 16;
        const uint16_t *x = (const uint16_t *)j.x + c.column * j.x_stride + k0 + c.i / 4 * 32;
        if (BITS == 8) {
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(there), "l"(x + 4 * t)
                         : "memory");
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(there + 8),
                         "l"(x + 16 + 4 * t)
                         : "memory");
        } else {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(x + 8 * t)
                         : "memory");
        }
    }
    commit_copies();
}

/* Puts the block's part of x down: [column][32 elements][lane of the quad][8 halves]. */
template <bool MANY>
__device__ void stage_x(const kf_gemv_job &j, const span &s, uint8_t *to, const uint32_t *largest)
{
    uint32_t k0 = s.stage * STAGE_CODES, each = s.stages * STAGE_CODES / 8;
    if (each == 0) return;
    x_cursor c = {threadIdx.x, 0};
    c.settle(each);
    bool whole = BITS != 16 && j.x_type != KERF_F32 && j.x_wide && k0 + each * 8 <= j.cols;
    if (whole && MANY) {
        copy_x(j, c, k0, each, to);
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        if (BITS == 8 && j.x_type == KERF_F16) return;
        for (; c.column < j.columns; c.i += THREADS, c.settle(each)) {
            float f = j.x_type == KERF_F16 ? 1 : kf_exp2(x_shift(largest[c.column]));
            uint4 *at = (uint4 *)(to + c.column * j.x_pitch + c.i * 16), v = *at;
            uint32_t w[4] = {half_pair(j, v.x, f), half_pair(j, v.y, f), half_pair(j, v.z, f),
                             half_pair(j, v.w, f)};
            *at = in_order(w);
        }
        return;
    }
    if (whole) {
        for (; c.column < j.columns; c.i += THREADS, c.settle(each)) {
            uint4 v = load_eight(j, c, k0);
            float f = j.x_type == KERF_F16 ? 1 : kf_exp2(x_shift(largest[c.column]));
            uint32_t w[4] = {half_pair(j, v.x, f), half_pair(j, v.y, f), half_pair(j, v.z, f),
                             half_pair(j, v.w, f)};
            *(uint4 *)(to + c.column * j.x_pitch + c.i * 16) = in_order(w);
        }
        return;
    }
    for (; c.column < j.columns; c.i += THREADS, c.settle(each)) {
        float f = j.x_type == KERF_F16 ? 1 : kf_exp2(x_shift(largest[c.column]));
        uint32_t k = k0 + c.i / 4 * 32;
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; e++) {
            uint32_t o = order((int)(c.i % 4), e);
            v[e] = k + o < j.cols ? x_at(j, c.column * j.x_stride + k + o) : 0.0f;
        }
        __half2 h[4];
#pragma unroll
        for (int e = 0; e < 4; e++) h[e] = __floats2half2_rn(v[2 * e] * f, v[2 * e + 1] * f);
        *(uint4 *)(to + c.column * j.x_pitch + c.i * 16) = *(uint4 *)h;
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

__device__ __forceinline__ uint32_t shared_word(uint32_t at)
{
    uint32_t r;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(at));
    return r;
}

__device__ __forceinline__ void load_matrices(uint32_t w[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(at));
}

/* What a warp knows while it works. */
template <int NB> struct worker {
    uint32_t lane;
    uint32_t place;       /* of the lane's row of a matrix in a stage, pieces twisted by its row */
    const uint8_t *x[NB]; /* the lane's place in x: column n, n + 8, or zeros                    */
    uint32_t x_step[NB];  /* from stage to stage                                                 */
    const uint32_t *table;
    const uint8_t *nothing; /* zeros, for the length of a stage */
    int part;               /* own_part() */
    uint32_t zero[2]; /* minus_1024() of rows g, g + 8, where zeros are per row              */
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

/* minus_1024() of the group that a block of a stage is in. */
__device__ __forceinline__ uint32_t group_zero(uint32_t zeros, int block)
{
    constexpr uint32_t flip = KF_ROW.element == KERF_ELEM_S8 ? 0x80 : 0;
    return minus_1024((zeros >> block / GROUP_BLOCKS * BITS & ((1u << BITS) - 1)) ^ flip);
}

template <int NB, bool ONE, bool PLAIN>
__device__ __forceinline__ void consume_blocks(const worker<NB> &me, uint32_t ring, uint32_t stage,
                                               int step, const scales &s, float sum[NB][4])
{
    uint32_t kept[4];
    __half2 scale_pairs[2][4];
    if constexpr (SCALING == SCALING_CODES) {
        uint32_t pick =
            me.lane % 4 / 2 ? 0x7531 : 0x6420; /* a lane's eight are half a pair of 16s */
#pragma unroll
        for (int row = 0; row < 2; row++)
            for (int i = 0; i < 2; i++) {
                uint32_t four = __byte_perm(s.w[row][2 * i], s.w[row][2 * i + 1], pick);
                scale_pairs[row][2 * i] = as_half2(halves_of_e4m3(four));
                scale_pairs[row][2 * i + 1] = as_half2(upper_halves_of_e4m3(four));
            }
    }
    float group[NB][4];
    const uint8_t *x[NB];
#pragma unroll
    for (int n = 0; n < NB; n++) x[n] = me.x[n] + stage * me.x_step[n];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        uint32_t a[4], b[4], p[4], q[4];
        load_codes(ring, me.lane, me.place, step * BLOCKS + block, a, b, kept);
        uint32_t zero[2] = {me.zero[0], me.zero[1]};
        if constexpr (HAS_ZEROS && HAS_GROUPS) {
            for (int row = 0; row < 2; row++) zero[row] = group_zero(s.zero[row], block);
        }
        decode(a, zero[0], me.table, p);
        decode(b, zero[1], me.table, q);
        if constexpr (SCALING == SCALING_CODES) {
            __half2 f = scale_pairs[0][block / 2], g = scale_pairs[1][block / 2];
            f = block % 2 ? __high2half2(f) : __low2half2(f);
            g = block % 2 ? __high2half2(g) : __low2half2(g);
#pragma unroll
            for (int i = 0; i < 4; i++) p[i] = mul_halves(p[i], f), q[i] = mul_halves(q[i], g);
        }
        if (SCALING == SCALING_GROUP && block % GROUP_BLOCKS == 0)
            for (int n = 0; n < NB; n++)
                for (int i = 0; i < 4; i++) group[n][i] = 0;
#pragma unroll
        for (int n = 0; n < NB; n++) {
            uint4 v = *(const uint4 *)(x[n] + (step * BLOCKS + block) * 64);
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
__device__ __forceinline__ void consume(const worker<NB> &me, uint32_t ring, uint32_t stage,
                                        int step, const scales &s, float sum[NB][4])
{
    if constexpr (KF_ROW.scale == KERF_SCALE_E8M0) {
        if (__any_sync(0xffffffffu, is_odd(s)))
            consume_blocks<NB, ONE, false>(me, ring, stage, step, s, sum);
        else
            consume_blocks<NB, ONE, true>(me, ring, stage, step, s, sum);
    } else {
        consume_blocks<NB, ONE, true>(me, ring, stage, step, s, sum);
    }
}

/* One column, groups apart: sums of the lane's own groups only. */
__device__ __forceinline__ void consume_apart(const worker<1> &me, uint32_t ring, uint32_t stage,
                                              int step, const own_scales &s, float sum[4])
{
    uint32_t kept[4];
    const uint8_t *x = me.x[0] + stage * me.x_step[0];
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        float group[4] = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < ROUND_BLOCKS; i++) {
            int block = round * ROUND_BLOCKS + i;
            uint32_t a[4], b[4], p[4], q[4], zero[2] = {me.zero[0], me.zero[1]};
            load_codes(ring, me.lane, me.place, step * BLOCKS + block, a, b, kept);
            if constexpr (HAS_ZEROS && HAS_GROUPS)
                for (int row = 0; row < 2; row++) zero[row] = group_zero(s.zero[row], block);
            decode(a, zero[0], me.table, p);
            decode(b, zero[1], me.table, q);
            int part = SCALING == SCALING_CODES ? i : block / GROUP_BLOCKS;
            uint4 v =
                *(const uint4 *)((part == me.part ? x : me.nothing) + (step * BLOCKS + block) * 64);
            multiply(group, p[0], q[0], p[1], q[1], v.x, v.y);
            multiply(group, p[2], q[2], p[3], q[3], v.z, v.w);
        }
        float2 f = own_scale(s, 0, round, me.offset), g = own_scale(s, 1, round, me.offset);
        sum[0] = __fmaf_rn(group[0], f.x, sum[0]);
        sum[2] = __fmaf_rn(group[2], g.x, sum[2]);
        if constexpr (LANE_GROUPS == 2) {
            sum[1] = __fmaf_rn(group[1], f.y, sum[1]);
            sum[3] = __fmaf_rn(group[3], g.y, sum[3]);
        }
    }
}

/* --- sums ---------------------------------------------------------------------------------------
 */

/* A slot: [column][16 rows]. */
template <int NB, bool ONE>
__device__ __forceinline__ void leave(float *slot, uint32_t lane, float sum[NB][4])
{
    uint32_t g = lane / 4, t = lane % 4;
    if constexpr (ONE && APART) {
#pragma unroll
        for (int row = 0; row < 4; row += 2) {
            float v = sum[0][row] + sum[0][row + 1];
            v += __shfl_xor_sync(0xffffffffu, v, 1);
            sum[0][row] = v + __shfl_xor_sync(0xffffffffu, v, 2);
        }
    }
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

/* For each tile of the block the first of its warps that has a part of it, and the one after the
 * last. */
__device__ __forceinline__ void prepare_ranges(const span &s, uint32_t *ranges)
{
    uint32_t units = s.tiles * s.stages;
    for (uint32_t tile = threadIdx.x; tile < s.tiles; tile += THREADS) {
        uint32_t from = tile * s.stages, to = from + s.stages, first = 0, end = 0;
        for (uint32_t w = 0; w < WARPS; w++) {
            if (cut(units, w + 1) <= from) first = w + 1;
            if (cut(units, w) < to) end = w + 1;
        }
        ranges[tile] = first | end << 16;
    }
}

/* The sum of a tile's row over the warps that had a part of it, in their order. Warps without any
 * unit stand between others only when there are fewer units than warps; their slots are zero. */
__device__ __forceinline__ float sum_slots(const float *slots, uint32_t slot, uint32_t at,
                                           uint32_t tile, uint32_t range)
{
    float sum = 0;
    for (uint32_t w = range & 0xffff; w < range >> 16; w++) sum += slots[(tile + w) * slot + at];
    return sum;
}

#ifdef KERF_GEMV_TRACE
__device__ __forceinline__ void trace(const kf_gemv_job &j, int i)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    if (threadIdx.x == 0 && j.part[3].residual)
        ((uint64_t *)j.part[3].residual)[blockIdx.x * 8 + i] = t;
}
#define TRACE(i) trace(j, i)
#else
#define TRACE(i)
#endif

template <int NB, bool ONE>
__global__ void __launch_bounds__(THREADS, 2) gemv_tiles(const __grid_constant__ kf_gemv_job j)
{
    constexpr bool BY_LANE = ONE && APART;
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ uint32_t largest[KERF_GEMV_COLUMNS];
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    span s = span_of(j);
    float *slots = (float *)(shared + j.slots_at);
    float *factors = (float *)(shared + j.rows_at);
    uint32_t *zeros = (uint32_t *)(factors + j.most * TILE), *ranges = zeros + j.most * TILE;
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(shared) + warp * (DEPTH * STAGE_BYTES);

    TRACE(0);
    begin_next();
    if (!j.constant_weights) wait_previous();
    uint32_t units = s.tiles * s.stages, first = cut(units, warp);
    cursor at = {s.stages ? first / s.stages : 0, s.stages ? first % s.stages : 0,
                 cut(units, warp + 1) - first};
    codes feed;
    feed.begin(j, s, at, ring, lane);
#pragma unroll 1
    for (uint32_t i = 0; i < DEPTH; i++) {
        if (feed.at.left) feed.fetch(j, s, i * STAGE_BYTES, lane);
        commit_copies();
    }
    std::conditional_t<BY_LANE, own_scales, scales> now = {}, then = {};
    scale_feed scaled = {};
    auto fetch_scales = [&](auto &out) {
        if constexpr (BY_LANE)
            fetch_own(out, scaled, j.wide, lane);
        else
            scaled.fetch(out, j.wide);
    };
    if (at.left) {
        scaled.aim(j, s, at, lane);
        fetch_scales(now);
    }
    if (threadIdx.x < KERF_GEMV_COLUMNS) largest[threadIdx.x] = 0;
    uint8_t *nothing = shared + j.x_at + j.columns * j.x_pitch;
    if (threadIdx.x < STAGE_CODES / 2) ((uint32_t *)nothing)[threadIdx.x] = 0;
    prepare_rows(j, s, factors, zeros);
    prepare_ranges(s, ranges);
    prepare_table((uint32_t *)(shared + j.table_at));
    TRACE(1);
    if (j.constant_weights) wait_previous();
    TRACE(2);

    if (j.x_type != KERF_F16) {
        uint32_t k0 = s.stage * STAGE_CODES;
        __syncthreads();
        measure_x(j, k0, s.stages ? min(s.stages * STAGE_CODES, j.cols - k0) : 0, largest);
        __syncthreads();
    }
    stage_x<!ONE>(j, s, shared + j.x_at, largest);
    __syncthreads();
    TRACE(3);

    worker<NB> me;
    uint32_t row = lane % 8 + lane / 8 % 2 * 8;
    me.lane = lane;
    me.place = row * PITCH + ((lane / 16 ^ row) & 7) * 16;
    for (uint32_t n = 0; n < NB; n++) {
        bool live = lane / 4 + 8 * n < j.columns || BY_LANE;
        uint32_t column = BY_LANE ? 0 : lane / 4 + 8 * n;
        me.x[n] = live ? shared + j.x_at + column * j.x_pitch + lane % 4 * 16 : nothing;
        me.x_step[n] = live ? STAGE_CODES * 2 : 0;
    }
    me.nothing = nothing;
    me.part = own_part(lane);
    me.table = (const uint32_t *)(shared + j.table_at) + lane;
    me.offset = 0;
    float sum[NB][4] = {};
    uint32_t slot = 0;
    bool fresh = true;
#pragma unroll 1
    while (at.left) {
        if (fresh) {
            if (WAY == WAY_NIBBLE || WAY == WAY_BYTE) {
                me.zero[0] = zeros[at.tile * TILE + lane / 4];
                me.zero[1] = zeros[at.tile * TILE + lane / 4 + 8];
            }
            if constexpr (KF_ROW.zero == KERF_ZERO_F32) {
                const kf_gemv_matrix &m = j.part[place_of(j, s.tile + at.tile).part];
                me.offset = __ldg((const float *)m.plane[KERF_PLANE_ZEROS]);
            }
        }
        cursor here = at;
        fresh = at.next(s.stages);
        wait_copies();
        __syncwarp();
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            if (step + 1 < STEPS || (at.left && !fresh))
                scaled.advance(j.wide);
            else if (at.left)
                scaled.aim(j, s, at, lane);
            fetch_scales(then); /* once too often at the end, which is no harm */
            if constexpr (BY_LANE)
                consume_apart(me, ring + slot, here.stage, step, now, sum[0]);
            else
                consume<NB, ONE>(me, ring + slot, here.stage, step, now, sum);
            now = then;
        }
        if (fresh || !at.left)
            leave<NB, ONE>(slots + (here.tile + warp) * SLOT<NB, ONE>, lane, sum);
        __syncwarp();
        if (feed.at.left) feed.fetch(j, s, slot, lane);
        commit_copies();
        slot = slot == (DEPTH - 1) * STAGE_BYTES ? 0 : slot + STAGE_BYTES;
    }
    TRACE(4);
    __syncthreads();
    TRACE(5);

    /* A thread has a row of its tiles and a column of x. */
    constexpr uint32_t ACROSS = ONE ? 1 : 8 * NB, S = SLOT<NB, ONE>;
    uint32_t r = threadIdx.x % TILE, column = threadIdx.x / TILE % ACROSS;
    uint32_t begin = threadIdx.x / TILE / ACROSS, every = THREADS / TILE / ACROSS;
    if (j.swiglu) begin *= 2, every *= 2;
    uint32_t in = column * TILE + r;
    bool live = column < j.columns;
    float back = live && j.x_type != KERF_F16 ? kf_exp2(-x_shift(largest[column])) : 1.0f;

    if (j.cluster == 1) {
        for (uint32_t tile = begin; live && tile < s.tiles; tile += every) {
            place p = place_of(j, s.tile + tile);
            const kf_gemv_matrix &m = j.part[p.part];
            float v = sum_slots(slots, S, in, tile, ranges[tile]) * back * factors[tile * TILE + r];
            float up = 0;
            if (j.swiglu)
                up = sum_slots(slots, S, in, tile + 1, ranges[tile + 1]) * back *
                     factors[(tile + 1) * TILE + r];
            if (p.row + r < m.rows) finish(j, m, p.row + r, column, v, up);
        }
        TRACE(6);
        return;
    }

    /* Blocks of a cluster add up their parts of each row, and each finishes some of the rows. A
     * block's sums go where its ring was: [tile][column][row]. */
    float *parts = (float *)shared;
    uint32_t step = j.swiglu ? 2 : 1;
    for (uint32_t tile = begin / step; live && tile < s.tiles; tile += every / step)
        parts[(tile * j.columns + column) * TILE + r] =
            sum_slots(slots, S, in, tile, ranges[tile]) * back;
    sync_cluster();
    uint32_t rank = blockIdx.x % j.cluster;
    for (uint32_t tile = begin + rank * every; live && tile < s.tiles; tile += every * j.cluster) {
        place p = place_of(j, s.tile + tile);
        const kf_gemv_matrix &m = j.part[p.part];
        const float *part = parts + (tile * j.columns + column) * TILE + r;
        float v = 0, up = 0;
        for (uint32_t k = 0; k < j.cluster; k++) v += load_remote(part, k);
        v *= factors[tile * TILE + r];
        if (j.swiglu) {
            for (uint32_t k = 0; k < j.cluster; k++) up += load_remote(part + j.columns * TILE, k);
            up *= factors[(tile + 1) * TILE + r];
        }
        if (p.row + r < m.rows) finish(j, m, p.row + r, column, v, up);
    }
    sync_cluster(); /* nobody leaves while others read */
}

} // namespace
