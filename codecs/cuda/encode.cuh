/* encode.cuh - one pass over the source: amax, scale, codes, while the elements are in registers.
 *
 * Here groups of 16 to 128 neighbours: 1 to 8 threads find the extremes by shuffles. Rows and tiles
 * are in wide_groups.cuh, GGUF's blocks in structs.cuh. */
#ifndef KERF_ENCODE_CUH
#define KERF_ENCODE_CUH

#include "cuda/grid.cuh"
#include "cuda/group.cuh"

namespace
{

/* What a block of threads keeps in shared memory. */
struct tables {
    nf4_bucket nf4[IS_NF4 ? NF4_BUCKETS * NF4_COPIES : 1];
    scale_row scales[SCALE_ROWS];
};

/* Chunks of a thread, STEP elements apart, loaded before the first is used: as many as there are
 * registers for. Blocks of threads of a multiprocessor. */
constexpr bool HAS_TABLES = IS_NF4 || SCALE_ROWS > 1;
template <int D, int ENC>
constexpr int UNROLL = D != KERF_F32 &&CHUNK == 16 && !HAS_TABLES && ENC != ENC_PEER ? 4 : 2;
template <int D, int ENC> constexpr int RESIDENT = UNROLL<D, ENC> == 4 ? 3 : 4;
template <int D, int ENC> constexpr unsigned TILE = UNROLL<D, ENC> *THREADS *CHUNK;
constexpr unsigned STEP = THREADS * CHUNK;

/* A tile without an edge: every address is one of these plus a constant. */
struct places {
    uint8_t *codes, *scale, *zero;
    const kf_scale *chosen;
};

/* Codes of chunk u of a thread to their plane. WHOLE: a tile of nothing but whole chunks at aligned
 * addresses. */
template <bool WHOLE>
__device__ __forceinline__ void store_codes(const kf_job &j, uint64_t line, uint64_t i, int u,
                                            places at, const uint32_t *w, int n)
{
    if constexpr (WHOLE)
        store_whole_warp(at.codes + u * (STEP / 8 * KF_ROW.bits), w);
    else if (n > 0)
        store_chunk(j.plane[KERF_PLANE_CODES] + line * j.code_bytes + i * KF_ROW.bits / 8, w, n);
}

/* Scale and zero point of a group by the first of its threads; `group`: of the line. All threads of
 * the warp take part. */
template <bool WHOLE>
__device__ __forceinline__ void store_group(const kf_job &j, uint64_t line, uint64_t group, int u,
                                            places at, kf_scale scale, bool has_elements)
{
    if (threadIdx.x % LANES == 0 && has_elements)
        store_scale(WHOLE ? at.scale + u * (STEP / GROUP * STORED_BYTES)
                          : place_scale(j, line * j.groups + group),
                    scale);
    if constexpr (KF_ROW.zero == KERF_ZERO_CODE)
        store_zeros(WHOLE ? at.zero + u * (STEP / GROUP / ZEROS)
                          : j.plane[KERF_PLANE_ZEROS] + line * j.zero_bytes + group / ZEROS,
                    has_elements ? scale.zero : 0,
                    threadIdx.x % (LANES * ZEROS) == 0 && has_elements);
}

/* Chunk u of a thread; else than in a WHOLE tile threads behind the end of the line take part with
 * zeros. */
template <int D, int ENC, bool WHOLE>
__device__ __forceinline__ void encode_chunk(const kf_job &j, const kf_tensor *t,
                                             const tables *shared, uint64_t line, uint64_t i, int u,
                                             places at, raw_chunk<D> r)
{
    int n = WHOLE ? CHUNK : count_at(j, i);
    uint64_t group = i / GROUP;
    int whole = WHOLE || (group + 1) * GROUP <= j.width;
    float x[CHUNK];
    extremes loaded = {0, 0}, e = no_extremes<ENC>();
    settle_chunk<D>(j, line, i, &r, &loaded);
    widen_chunk<D>(r, x);
    add_elements<ENC>(&e, loaded, x, n);
    kf_scale scale = {t->bits, t->zero};
    uint32_t w[CODE_WORDS];
    if constexpr (kf_is_pair(KF_ROW.family, ENC)) {
        scale = encode_four_over_six<D, ENC>(t, shared->scales, x, r.w, e.hi, w);
    } else if constexpr (ENC == ENC_GIVEN && PER_GROUP) {
        if (n > 0)
            scale = WHOLE ? at.chosen[u * (STEP / GROUP)] : j.chosen[line * j.groups + group];
    } else if constexpr (PER_GROUP) {
        share_range<has_both_ends<ENC>>(&e, LANES);
        scale = choose_scale<D, ENC>(j, t, e, x, shared->scales, whole);
    }
    if constexpr (!kf_is_pair(KF_ROW.family, ENC)) {
        kf_quant q = make_quant<ENC>(j, t, scale, e, shared->scales, whole);
        make_codes<D, ENC>(x, r, q, e, shared->nf4, w);
    }
    store_codes<WHOLE>(j, line, i, u, at, w, n);
    if constexpr (PER_GROUP) store_group<WHOLE>(j, line, group, u, at, scale, n > 0);
}

template <int D, int ENC, bool WHOLE>
__device__ __forceinline__ void encode_tile(const kf_job &j, const kf_tensor *t,
                                            const tables *shared, uint64_t line, uint64_t first)
{
    constexpr int N = UNROLL<D, ENC>;
    uint64_t i = first + threadIdx.x * CHUNK;
    const uint8_t *source = j.dense + (line * j.width + i) * source_bytes(D);
    places at;
    at.codes = j.plane[KERF_PLANE_CODES] + line * j.code_bytes + i * KF_ROW.bits / 8;
    at.scale = place_scale(j, line * j.groups + i / GROUP);
    at.zero = j.plane[KERF_PLANE_ZEROS] + line * j.zero_bytes + i / GROUP / ZEROS;
    at.chosen = j.chosen + line * j.groups + i / GROUP;
    raw_chunk<D> raw[N];
#pragma unroll
    for (int u = 0; u < N; u++)
        raw[u] = WHOLE ? load_whole<D>(source + u * STEP * source_bytes(D))
                       : load_raw<D>(j, line, i + u * STEP);
#pragma unroll
    for (int u = 0; u < N; u++) {
        if (!WHOLE && first + u * STEP + threadIdx.x / 32 * 32 * CHUNK >= j.width) break;
        encode_chunk<D, ENC, WHOLE>(j, t, shared, line, i + u * STEP, u, at, raw[u]);
    }
}

template <int D, int ENC>
__global__ void __launch_bounds__(THREADS, RESIDENT<D, ENC>)
    encode_chunks(const __grid_constant__ kf_job j)
{
    __shared__ tables shared;
    if (IS_NF4) fill_nf4_buckets(shared.nf4);
    for (uint64_t line = blockIdx.y; line < j.lines; line += gridDim.y) {
        kf_tensor t = tensor_at(j, line);
        if constexpr (HAS_TABLES) {
            __syncthreads(); /* nobody reads the tables of the line before */
            fill_scales<D, ENC>(shared.scales, &t);
            __syncthreads();
        }
        uintptr_t askew =
            ((uintptr_t)j.dense + line * j.width * source_bytes(D)) % raw_chunk<D>::WIDE |
            ((uintptr_t)j.plane[KERF_PLANE_CODES] + line * j.code_bytes) %
                (CODE_WORDS == 3 ? 16 : CODE_WIDE);
        for (uint64_t first = (uint64_t)blockIdx.x * TILE<D, ENC>; first < j.width;
             first += (uint64_t)gridDim.x * TILE<D, ENC>) {
            if (askew == 0 && first + TILE<D, ENC> <= j.width)
                encode_tile<D, ENC, true>(j, &t, &shared, line, first);
            else
                encode_tile<D, ENC, false>(j, &t, &shared, line, first);
        }
    }
}

} // namespace
#endif
