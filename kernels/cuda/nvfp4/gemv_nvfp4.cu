/* gemv_nvfp4.cu - plans and launches of y = A b with both sides NVFP4, on a GPU. */
#include "cuda/nvfp4/gemv_nvfp4_kernel.cuh"

#include <algorithm>

namespace
{

/* --- host ------------------------------------------------------------------------------------- */

typedef void (*kernel)(job);

#define INSTANCES(P)                                             \
    {                                                            \
        {multiply<P, false, false>, multiply<P, false, true>},   \
            {multiply<P, true, false>, multiply<P, true, true>}, \
    }
enum { MOST_PIECES = 8, MOST_SHARED_QUADS = 64 /* of a block whose warps share rows */ };
const kernel kernels[MOST_PIECES][2][2] = {INSTANCES(1), INSTANCES(2), INSTANCES(3), INSTANCES(4),
                                           INSTANCES(5), INSTANCES(6), INSTANCES(7), INSTANCES(8)};

#define RING(P)                        \
    {                                  \
        ring<P>::BYTES, 4 / ring<P>::G \
    }
const struct {
    unsigned bytes, steps; /* steps: of a warp for a quad */
} rings[MOST_PIECES] = {RING(1), RING(2), RING(3), RING(4), RING(5), RING(6), RING(7), RING(8)};

struct machine {
    int processors, most_shared, all_shared, reserved; /* bytes of a block, a multiprocessor */
};

static kf_nvfp4_run divide(uint64_t quads, unsigned blocks)
{
    return kf_nvfp4_run{blocks, (unsigned)(quads / blocks), (unsigned)(quads % blocks)};
}

static unsigned most_of(const kf_nvfp4_run &r)
{
    return r.each + (r.rest > 0);
}

/* In a chain the first block of the next call comes to a multiprocessor when the first of this one
 * leaves it, and asks for its ring while the second still works, if the two do not end together. So
 * the second half of the blocks take whole turns of their warps, as many as somebody has anyhow,
 * and the first half what is left. */
static void stagger(kf_nvfp4_launch *l, uint64_t quads, uint64_t teams)
{
    unsigned later = l->blocks / 2, first = l->blocks - later;
    uint64_t turns = (quads + l->blocks * teams - 1) / (l->blocks * teams), own = turns * teams;
    if (teams == 1 || later == 0 || later * own >= quads) return;
    uint64_t left = quads - later * own;
    if (3 * left < 2 * first * own) return; /* too little for half of the multiprocessor */
    l->run[0] = divide(left, first);
    l->run[1] = divide(later * own, later);
}

/* A launch with 2^part_bits warps to a row and so many blocks on a multiprocessor, and about how
 * many instructions its busiest warp has; 0: not possible. */
static uint64_t lay_out(kf_nvfp4_launch *l, const kerf_gemv_nvfp4_shape *s, unsigned part_bits,
                        unsigned resident, bool even, const machine *m)
{
    enum { MOST_BLOCKS = 65535 }; /* along y of a grid */
    uint64_t parts = 1u << part_bits, teams = WARPS / parts, batch = s->batch ? s->batch : 1;
    uint64_t quads =
        s->a_scales == KERF_SCALES_TILES ? (s->rows + 127) / 128 * 32 : (s->rows + 3) / 4;
    *l = kf_nvfp4_launch{};
    l->pieces = (unsigned)((s->cols + parts * PIECE - 1) / (parts * PIECE));
    if (l->pieces > MOST_PIECES) return 0;
    uint64_t blocks = (uint64_t)m->processors * resident / batch;
    uint64_t least = parts > 1 ? (quads + MOST_SHARED_QUADS - 1) / MOST_SHARED_QUADS : 1;
    if (blocks > quads) blocks = quads;
    if (blocks < least) blocks = least;
    if (blocks == 0) blocks = 1;
    if (blocks > MOST_BLOCKS) return 0;
    l->part_bits = part_bits;
    l->blocks = (unsigned)blocks;
    l->run[0] = divide(quads, l->blocks);
    if (!even && resident == 2 && (s->flags & KERF_GEMV_CONSTANT_WEIGHTS)) stagger(l, quads, teams);
    uint64_t most = std::max(most_of(l->run[0]), most_of(l->run[1]));
    l->elements = (unsigned)parts * l->pieces * PIECE;
    l->shared = WARPS * rings[l->pieces - 1].bytes + l->elements / 8 * 9 +
                (parts > 1 ? (unsigned)(most * 4 * parts * 4) : 0);
    if (l->shared > (unsigned)m->most_shared) return 0;
    return (most + teams - 1) / teams * (216 * l->pieces + 50 * rings[l->pieces - 1].steps + 60) +
           1;
}

/* A third block on a multiprocessor would be one of another call, and leave it with more to do than
 * the others. */
static unsigned room_of_two(unsigned shared, const machine *m)
{
    int third = m->all_shared / 3 - m->reserved + 128;
    return third > (int)shared && third <= m->most_shared ? (unsigned)third : shared;
}

static kerf_status plan_launch(kerf_gemv_nvfp4 *p, kf_nvfp4_tuning t, kerf_error *err)
{
    machine m = {};
    const struct {
        int *value;
        cudaDeviceAttr what;
    } asked[] = {{&m.processors, cudaDevAttrMultiProcessorCount},
                 {&m.most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin},
                 {&m.all_shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor},
                 {&m.reserved, cudaDevAttrReservedSharedMemoryPerBlock}};
    for (auto &a : asked)
        KF_CUDA(cudaDeviceGetAttribute(a.value, a.what, p->ordinal),
                "asking a GPU for its properties");
    uint64_t best = 0;
    unsigned bits = 0;
    for (unsigned i = 0; i <= 3; i++) {
        uint64_t cost = lay_out(&p->launch, &p->shape, i, 2, true, &m);
        if (cost && (t.parts == 0 || t.parts == 1u << i) && (!best || cost < best))
            best = cost, bits = i;
    }
    p->fast = best != 0;
    if (!p->fast) return KERF_OK;
    /* Two blocks leave a multiprocessor one after the other, and those of the next call come in one
     * after the other. Where there is no next call yet, one has less to begin with. */
    bool one = !(p->shape.flags & KERF_GEMV_CONSTANT_WEIGHTS) && p->shape.batch &&
               m.processors % p->shape.batch == 0;
    unsigned resident = t.resident ? t.resident : one ? 1 : 2;
    if (!lay_out(&p->launch, &p->shape, bits, resident, t.even, &m))
        lay_out(&p->launch, &p->shape, bits, 2, true, &m); /* as it was counted above */
    p->launch.shared = room_of_two(p->launch.shared, &m);
    bool tiled = p->shape.a_scales == KERF_SCALES_TILES;
    for (int edges = 0; edges < 2; edges++) {
        const void *k = (const void *)kernels[p->launch.pieces - 1][tiled][edges];
        /* The most that there is: what this plan takes would be the limit of other plans of the
         * same kernel, too, of which some take more. */
        KF_CUDA(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, m.most_shared),
                "asking for shared memory");
        /* Launches that divide a multiprocessor's memory otherwise cannot overlap. Scales in tiles
         * want the first level of the cache besides. */
        if (tiled) continue;
        KF_CUDA(cudaFuncSetAttribute(k, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared),
                "asking for shared memory");
    }
    return KERF_OK;
}

static bool aligned(const void *p, unsigned to)
{
    return (uintptr_t)p % to == 0;
}

static bool is_fast(const job &j, bool a_tiled)
{
    return aligned(j.a, 16) && aligned(j.b, 16) && aligned(j.sa, a_tiled ? 16 : 2) &&
           aligned(j.sb, 2);
}

static cudaError_t launch(kernel k, const job &j, dim3 blocks, unsigned threads, unsigned shared,
                          cudaStream_t s)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = blocks;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = shared;
    c.stream = s;
    c.attrs = &early;
    c.numAttrs = j.early;
    return cudaLaunchKernelEx(&c, k, j);
}

} // namespace

extern "C" kerf_status kf_nvfp4_cuda_plan(kerf_gemv_nvfp4 *p, kerf_device *device,
                                          const kf_nvfp4_tuning *tuning, kerf_error *err)
{
    uint64_t steps = p->shape.cols / 512 + 64;
    p->on_gpu = 1;
    p->ordinal = kf_gpu_of(device)->ordinal;
    p->fast = p->shape.cols % OWN == 0 && p->shape.cols <= 32768 && p->shape.cols > 0 &&
              p->shape.batch <= 65535;
    p->bound = (double)steps * 0x1p-24;
    if (p->shape.rows > UINT32_MAX - 4096 || p->shape.batch * ((p->shape.rows + 7) / 8) > INT32_MAX)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%llu x %llu rows are too many for one launch",
                       (unsigned long long)p->shape.batch, (unsigned long long)p->shape.rows);
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    return p->fast ? plan_launch(p, tuning ? *tuning : kf_nvfp4_tuning{0, 0, 0}, err) : KERF_OK;
}

extern "C" kerf_status kf_nvfp4_cuda_run(const kerf_gemv_nvfp4 *p, const kerf_gemv_nvfp4_args *x,
                                         void *stream, kerf_error *err)
{
    const kerf_gemv_nvfp4_shape *s = &p->shape;
    const kf_nvfp4_launch *l = &p->launch;
    bool tiled = s->a_scales == KERF_SCALES_TILES;
    job j = {};
    j.a = (const uint8_t *)x->a[KERF_PLANE_CODES].p;
    j.sa = (const uint8_t *)x->a[KERF_PLANE_SCALES].p;
    j.b = (const uint8_t *)x->b[KERF_PLANE_CODES].p;
    j.sb = (const uint8_t *)x->b[KERF_PLANE_SCALES].p;
    j.second_a = (const float *)x->a[KERF_PLANE_SECOND].p;
    j.second_b = (const float *)x->b[KERF_PLANE_SECOND].p;
    j.y = x->y.p;
    j.sa_each = p->a_scales_each;
    j.sb_each = p->b_scales_each;
    j.rows = (unsigned)s->rows;
    j.cols = (unsigned)s->cols;
    j.across = (j.cols / 16 + KF_TILE_COLS - 1) / KF_TILE_COLS;
    j.run[0] = l->run[0];
    j.run[1] = l->run[1];
    j.part_bits = l->part_bits;
    j.alpha = x->alpha == 0 ? 1 : x->alpha;
    j.type = s->y;
    j.b_tiled = s->b_scales == KERF_SCALES_TILES;
    j.early = s->flags & KERF_GEMV_CONSTANT_WEIGHTS;
    j.near = !j.early || l->part_bits == 0;
    j.eager = j.early && l->part_bits == 3 && s->batch == 1 ? l->blocks / 2 : UINT32_MAX;
    bool fast = p->fast && is_fast(j, tiled);
    kernel k = tiled ? multiply_any<true> : multiply_any<false>;
    j.blocks = (j.rows + 7) / 8;
    dim3 blocks(j.blocks * (unsigned)s->batch);
    if (fast) {
        bool edges = j.cols != l->elements || !aligned(j.sa, 16);
        k = kernels[l->pieces - 1][tiled][edges];
        blocks = dim3((unsigned)s->batch, l->blocks);
    }
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_CUDA(launch(k, j, blocks, 256, fast ? l->shared : 0, (cudaStream_t)stream),
            "starting a kernel");
    return KERF_OK;
}
