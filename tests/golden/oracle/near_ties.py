"""Blocks on which a plausible wrong order of operations gives other bytes.

Those in hex were found by trying millions of random blocks against such variants; the others are
built so that two candidates of a search have the same exact error, or a quotient hits a threshold.
"""
from . import ieee
from .groups import Case, around, stack
from .ieee import div, f32, mul, round_to
from .nf4 import MAP_MIDDLES, NESTED, nearest
from .tables import NF4_THRESHOLDS

# element -> blocks of 16 (bf16): the squared errors of two candidates differ in the last bits, so
# that summing in reverse, in two lanes, in double, or with a fused multiply-add chooses another.
SEARCH = {
    "E2M1": """
        85be4dbf0abf573edfbe143eea3c643f3c3e3e3ff53dd0be3bbed1be9bba173e
        e73cb23e063d23bdb93c96bdcd3dee3bb13d9f3c69baafbc493cd9baeabeb53d
        """,
    "E4M3": """
        04bbd2baaabc6e37913e9c3dccbc473b1ebd28bd44be81bd42bd0e3cfebd713e
        0bbe043fedbde7baacbc9bbea137d33d45ba0e3ead3d07be6eb981be213e4ebc
        1c3e58bdecbe763e113fda3d0d3f0339e8bdcb3d5a3e01bec9bda63d3c373f3e
        503e0a3dd73d8c3e14389abe48be91be90bc8fbd7a3d203f163c62ba1e3f0cbe
        6bbe3dbeee3e273e2e3d4bbe0ebf8ebd963e3c3e05bd6a38933c4b3e2cb82a3d
        8bb748bcbf3ac2bca4bd5bbc163e483dcabca7be5d3c05bdb93e08bea53da3be
        """,
    "MXI8": """
        1bbe0a3d403e623cfe3e0fbeb5bee6bd263802bd0a3dc4bc6abc833e153e01bf
        ae3e00008bb60000ef3d00000f3c0000dcbd00008d3d0000ad3e0000003f0000
        c4bdec3db03deebc94bc223ec53939be01bf96bd13bdffbd1c3e5dbe78bef939
        """,
    "S2": """
        24be8fbe8e3d01bdf8bb263a163e82bd033dc1bd503d6a3e9ebe523d2dbbcd3e
        513c653ba8bddd3c86bb03be233ebf3afc3da93b65bc143e8fbd31b9cabc0ebf
        88bdbe3d3b3e5b3d263c87bc3bbd9c3e0b3f25be773c43be5c3d75bc5bbb293e
        """,
    "S4": """
        00bf733beb3d05bd5dbec1bd18be6a3b893de13e343aaabee4bd273ec7bdb13c
        0c3e000089bc0000a4ba0000d0be0000fabc0000e3380000e3be00003b3d0000
        adbdbd3dcfbc123b1cbec3b9043b0f3e453ec9b8ff3d4abe7b3e1b3d9fbd363e
        e9bd3b3c253ea7b80abf75bdb33da63d07bd04be1b3d1bbe1cbcba3e8bbd8bba
        """,
    "S8": """
        033e000044be0000c83e0000e13d0000873e0000fbbe00004abe0000e73e0000
        1fbdecbe00000000000000000000000087be0000000060be0000000000000000
        """,
    "U2": """
        8f3c1bbdb33d893e043e13beca3e983e093aa5be33bedfbc60be78bdfdbc483e
        c63c53bc8ebe383f99bd70be283fe9bd473b35bee03e18bbe33ec53df73b3bbf
        d43e000087be0000bcbd00000c3a0000c0be0000ea3d00006e3f0000f5bc0000
        """,
}

# Four Over Six, tensor amax and block (bf16): the scale of the amax rule in place of a / 6, or an
# error against the scale as it is stored, chooses the other one.
FOUR_OVER_SIX = """
    803f 0000000000000000000000000000000000009a3c4e3d00000000000000000000
    823f a23e00000000000000000000c33e00002b3f433f000000000000000000000000
    873f 0000000000000000000000000000bf3d0000000000000000bf3e000000000000
    8c3f 00000000000000000000383f0000253d0000193e753f000000005abe0000d63d
    8c3f 00000000923dc33e00000000123f0000000000000000623ce1be000000007fbd
    8c3f 283f5c3e0000693f233f000000008c3f000000000000000000000000000027bf
    8f3f 000000000f3f00000000233f37be000000000000000000000000000000000000
    9a3f 000000000a3e000000000000000000000000000000004f3f0000000000000000
    a03f 00000000293f000000007e3f000000000000113f000000000000913f00000000
    a83f 00000000483f0000000000000000fb3e000000000000000000000000273f3a3e
    ac3f 0000c43e0000ac3e00000000653e000000000000000000000000000000000000
    b43f 0000000000000000973d9fbd000000000000703eb43d0000f03c0000603a0000
    ce3f b43f1b3f00000000000000001a3f00000000000008bf000000000000ce3ff63d
    d03f 543f0000000000000000000088be000099be0000b63f00000000000000000000
    d03f f23d2a3e00000000503e0000413e00000000000000000000000051be9c3f0000
    d63f 0000000000000000a2bef43e000000000000000000000000000000000000d63e
    e03f 053f0000000000000000153f483e0000c73f000000000000bbbe00008f3f0000
    e33f 000000000000c53e000000000000000000000000000000000000c53d453e0000
    e53f 000000000000000000000000033e0000833e00000000833f0000653f00000000
    ec3f 943fc53d9fbede3e1a3d773ff73ede3e6cbe00be5abf453e453e4e3e143f3e3f
    ee3f 55bfa5bf743f513f1d3f2e3f8b3e4bbed13faf3d5dbdbabd513fb73fb8bd833f
    """

# The same in fp32: e * (S * A) in place of (e * S) * A, or a product with 1 / (6 * M). Zeros that
# fill the blocks are left out.
FOUR_OVER_SIX_F32 = """
    050ffb3f 7f18103ebe24d83eb898adbebe24583f
    11df9a3f 9a4ee83ec17e4e3ea3e32bbf11df9a3f
    1256803f 0ddfbb3d0ddf3b3e
    139bad3f a5b93b3f4fc92e3c6ca044bfdc4c7a3f
    19f2933f 19f2933f19f2133ecc42453e
    2ee49f3f 659fecbd430fdd3e
    34c1a43f d0d9fa3e7db7233e
    5186fa3f fb8d723d7cea353ff4bd953e
    5912da3f 7137e4bdfe4c61bc7f12043f7f12843e
    8f14853f 4dc7d93d88c7403e
    933e953f c196823f933e953f48c390be561e2e3f
    edfce83f 1335343ff8151b3e71ae1d3f
    """


def from_hex(text, dtype="BF16"):
    data, n = bytes.fromhex(text), ieee.SIZE[dtype]
    return [ieee.from_bits(dtype, int.from_bytes(data[i:i + n], "little"))
            for i in range(0, len(data), n)]


def hunted_search(fmt):
    groups = [from_hex(h) for h in SEARCH[fmt.element].split()]
    return stack(fmt, "hunted", "BF16", groups)


# --- NVFP4 ----------------------------------------------------------------------------------------

def hunted_nvfp4(fmt, dtype, text):
    words, groups = text.split(), []
    for amax, block in zip(words[::2], words[1::2]):
        group = from_hex(amax, dtype) + [0.0] * 15 + from_hex(block, dtype)
        groups.append(group + [0.0] * (32 - len(group)))
    return stack(fmt, "hunted", dtype, groups, apart=True)


def permuted_errors(fmt, rng):
    """Scales 1 and 1.5 give the same errors to elements in another order, as x in 2 .. 2.375 and
    x - 1.25 swap theirs: the order of the sum decides."""
    groups = []
    for top in [1536.0] * 12 + [2688.0] * 12:
        pairs = [2 + rng.randrange(1, 3 << 17) / (1 << 20) for _ in range(7)]
        block = [v * rng.choice((1, -1)) for x in pairs for v in (x, x - 1.25)] + [6.0, 0.0]
        rng.shuffle(block)
        groups.append([top] + [0.0] * 15 + block)
    return stack(fmt, "permuted", "F32", groups, apart=True)


# --- NF4 ------------------------------------------------------------------------------------------

def near_thresholds(fmt, rng, length):
    """Elements at thresholds times absmax: x * (1 / absmax) and x / absmax fall on both sides."""
    out = []
    while len(out) < 12:
        amax = round_to("F16", rng.uniform(1, 2))
        values = [v for t in NF4_THRESHOLDS for v in around(f32(abs(t) * amax))[::2]]
        rng.shuffle(values)
        out.append([amax] + [v * (1 if rng.random() < 0.5 else -1) for v in values][:length - 1])
    return out


def sparse(fmt, label, amaxes):
    """A tensor of blocks that hold nothing but their absmax."""
    values = [v for a in amaxes for v in (a, *[0.0] * (fmt.group - 1))]
    return Case(label, "F32", [len(amaxes), fmt.group], values)


CENTER = 1 << 23  # mean of the absmax values below: integers, so that the offset is exact


def map_ties(fmt):
    """Four blocks; a' / absmax2 of the second is a threshold of the dynamic map."""
    out = []
    for middle in [m for m in MAP_MIDDLES if abs(m) > 0.02][3::22]:
        top = CENTER - 1
        while div(float(round(middle * top)), float(top)) != middle:
            top -= 1
        second = round(middle * top)
        third = -(top + second) // 2
        parts = [top, second, third, -top - second - third]
        out.append(sparse(fmt, "map-tie", [float(CENTER + p) for p in parts]))
    return out


def map_runs(fmt):
    """Block scales close to thresholds of the dynamic map: a whole run of 256, in which a' is
    multiplied by a reciprocal, and a short one, in which it is divided."""
    def side_changes(top):
        inverse = div(1.0, float(top))
        return [a for a in (round(m * top) for m in MAP_MIDDLES)
                if nearest(MAP_MIDDLES, mul(float(a), inverse))
                != nearest(MAP_MIDDLES, div(float(a), float(top)))]

    top = max(range(CENTER - 200, CENTER), key=lambda t: len(side_changes(t)))
    changes = [top] + side_changes(top)
    fill = [round(m * top) for m in MAP_MIDDLES[::2]]
    runs = [(changes + fill[:200 - len(changes)], NESTED + 1), (changes, 2 * len(changes) + 2)]
    return [sparse(fmt, "map-run", [float(CENTER + a) for a in balanced(r, n)]) for r, n in runs]


def balanced(values, n):
    """Followed by equal ones, so that all n have the sum 0."""
    rest = n - len(values)
    values = values + [-sum(values) // rest] * (rest - 1)
    return values + [-sum(values)]


def exact_sum(fmt):
    """A mean that ties in fp32 unless the small absmax values are summed exactly."""
    return sparse(fmt, "exact-sum", [2.0 ** 60, 2.0 ** 36, 100.0, 100.0])


# --- all ------------------------------------------------------------------------------------------

def near_tie_cases(fmt, rng):
    if fmt.family == "NVFP4":
        return [hunted_nvfp4(fmt, "BF16", FOUR_OVER_SIX),
                hunted_nvfp4(fmt, "F32", FOUR_OVER_SIX_F32), permuted_errors(fmt, rng)]
    if fmt.family == "NF4":
        out = [stack(fmt, "near", "F32", near_thresholds(fmt, rng, fmt.group))]
        out += [Case("near-tail", "F32", [len(g)], g) for g in near_thresholds(fmt, rng, 45)[:6]]
        nested = fmt.second == "NESTED"
        return out + [*map_ties(fmt), *map_runs(fmt), exact_sum(fmt)] if nested else out
    if "search" in fmt.encoders and fmt.element in SEARCH:
        return [hunted_search(fmt)]
    return []
