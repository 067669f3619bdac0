"""The ladder's programs: one for each family of kernels, in the order in which a fault in one would spoil the next.

They are compiled, and their results computed in double precision, where the package is made; the machine with the GPU needs
neither PyTorch nor their source."""

import dataclasses
import itertools

import torch
import torch.nn.functional as F
from seeded import draw

SEEDS = itertools.count(1)


@dataclasses.dataclass
class Drawn:
    """A tensor that the machine with the GPU makes again. numpy has its dtype, too."""

    shape: tuple
    dtype: str
    seed: int = dataclasses.field(default_factory=lambda: next(SEEDS))

    def tensor(self):
        return torch.from_numpy(draw(self.seed, self.shape, self.dtype))


@dataclasses.dataclass
class Rung:
    function: object
    inputs: tuple  # tensors, and Drawn
    kernels: dict = dataclasses.field(default_factory=dict)  # how a name begins -> what is in the PTX of one such kernel
    tolerance: float = 1e-5  # of the largest difference in a row, as a share of the row's root mean square
    environment: dict = dataclasses.field(default_factory=dict)
    calls: str = "again"  # again, moved (other addresses each time), threads (at once), models (two of them)
    written: tuple = ()  # numbers of inputs that the program writes


def normal(*shape):
    return Drawn(shape, "float32")


def half(*shape):
    return Drawn(shape, "float16")


def byte(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def float8(*shape):
    """Bits, of numbers that f32 sums exactly."""
    return torch.randint(-8, 9, shape).to(torch.float8_e4m3fn).view(torch.uint8)


def product(a, b):
    return a @ b.t()


def multiply_bytes(a, b):
    return product(a.int(), b.int())


def multiply_float8(a, b):
    one, a, b = torch.ones(()), a.view(torch.float8_e4m3fn), b.view(torch.float8_e4m3fn)
    return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.float32)


def weights_of_four_bits(n, k, group=32):
    """Constants, with a scale for each group of steps."""
    fours, scales = torch.randint(-8, 8, (n, k // group, group), dtype=torch.int8), 2.0 ** -torch.randint(3, 6, (n, k // group, 1))
    return lambda x: product(x, (fours.to(x.dtype) * scales.to(x.dtype)).view(n, k))


def attend(**options):
    return lambda *inputs: F.scaled_dot_product_attention(*inputs[:3], **({"attn_mask": inputs[3]} if len(inputs) > 3 else {}), **options)


def attend_to_blocks(query, keys, values, table):
    keys, values = (cache[table].flatten(1, 2).transpose(1, 2) for cache in (keys, values))
    return F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)


def update(cache, new, at):
    cache.index_copy_(1, at, new)
    return cache.sum(1)


WGMMA, TMA, MULTICAST = r"wgmma\.mma_async", r"cp\.async\.bulk\.tensor", r"multicast::cluster"
HANDS_ON = r"st\.release\.gpu|red\.release\.gpu"  # sums that another block takes


def rungs(tiny=False):
    """name -> Rung, in order. The emulator gets sizes at which some kernels are not what they are there for."""
    rows, steps, most = (128, 64, 128) if tiny else (1024, 512, 1152)
    found = {
        "pointwise": Rung(lambda x: F.gelu(x) * 2 + 1, (normal(100, 70),), {"map": ""}),
        "reduction": Rung(lambda x: (x.sum(-1), x.softmax(-1), x.sum()), (normal(300, 200),), {"map": r"shfl\.sync"}),
        "transpose": Rung(lambda x: x.t().contiguous(), (normal(260, 130),), {"map": ""}, tolerance=0),
        "scan": Rung(lambda x: (x.cumsum(-1), x.flatten().cumsum(0)), (normal(70, 300),), {"scan": ""}, tolerance=1e-4),
        "sort": Rung(lambda x: tuple(x.sort(-1)), (normal(5, 300),), {"sort": ""}, tolerance=0),
        "scatter": Rung(
            lambda x, i, s: x.index_add(0, i, s), (normal(40, 33), torch.randint(0, 40, (60,)), normal(60, 33)), {"scatter": ""}
        ),
        "in-place": Rung(update, (normal(2, 64, 16), normal(2, 3, 16), torch.tensor([5, 63, 0])), {"scatter": ""}, written=(0,)),
        "mma": Rung(
            product, (half(40, 72), half(70, 72)), {"contract": r"mma\.sync"}, tolerance=2e-2, environment={"KILN_CUDA_VARIANTS": "0"}
        ),
        "mma-bytes": Rung(multiply_bytes, (byte(40, 72), byte(70, 72)), {"contract": r"mma\.sync"}, tolerance=0),
        "mma-fours": Rung(weights_of_four_bits(70, 96), (half(40, 96),), {"contract": r"mul\.\S*f16x2.*mma\.sync"}, tolerance=2e-2),
        "wgmma": Rung(lambda a, b: product(F.relu(a + a), b), (half(64, 64), half(64, 64)), {"contract": WGMMA}, tolerance=2e-2),
        "tma": Rung(product, (half(256, 256), half(256, 256)), {"contract": f"{WGMMA}.*{TMA}|{TMA}.*{WGMMA}"}, tolerance=2e-2),
        "tma-bytes": Rung(multiply_bytes, (byte(256, 256), byte(256, 256)), {"contract": rf"{WGMMA}.*\.s8|{TMA}.*\.s8"}, tolerance=0),
        "tma-float8": Rung(
            multiply_float8, (float8(256, 256), float8(256, 256)), {"contract": rf"{WGMMA}.*\.e4m3|{TMA}.*\.e4m3"}, tolerance=1e-3
        ),
        "cluster": Rung(product, (half(rows, steps), half(rows, steps)), {"contract": MULTICAST}, tolerance=2e-2),
        "stream-k": Rung(product, (half(most, 4 * steps), half(most, 4 * steps)), {"contract": HANDS_ON}, tolerance=3e-2),
        "in-turns": Rung(lambda a, b: F.gelu(product(a, b)), (half(rows, 64), half(rows, 64)), {"contract": WGMMA}, tolerance=2e-2),
        "windows": Rung(
            lambda x, w: F.conv2d(x, w, padding=1), (half(2, 64, 20, 20), half(64, 64, 3, 3)), {"contract": f"{WGMMA}"}, tolerance=2e-2
        ),
        "attention": Rung(attend(), tuple(half(1, 2, 256, 64) for _ in range(3)), {"attention": WGMMA}, tolerance=2e-2),
        "attention-causal": Rung(
            attend(is_causal=True), tuple(half(1, 2, 256, 64) for _ in range(3)), {"attention": WGMMA}, tolerance=3e-2
        ),
        "attention-gqa": Rung(
            attend(enable_gqa=True), (half(1, 4, 130, 64), half(1, 2, 200, 64), half(1, 2, 200, 64)), {"attention": WGMMA}, tolerance=2e-2
        ),
        "attention-paged": Rung(
            attend_to_blocks,
            (half(2, 4, 1, 64), half(19, 16, 2, 64), half(19, 16, 2, 64), torch.arange(18).view(2, 9)),
            {"attention": r"cp\.async\.cg"},
            tolerance=2e-2,
        ),
        "attention-split": Rung(
            attend(enable_gqa=True), (half(1, 8, 1, 64), half(1, 2, 1024, 64), half(1, 2, 1024, 64)), {"attention": ""}, tolerance=2e-2
        ),
        "attention-masked": Rung(
            attend(), (half(1, 2, 130, 64), half(1, 2, 200, 64), half(1, 2, 200, 64), half(130, 200)), {"attention": ""}, tolerance=2e-2
        ),
    }
    several = lambda x: (x.softmax(-1), x.cumsum(-1), x.sort(-1)[0], x.t().contiguous(), (x * 2).sum(0))
    found["graph"] = Rung(several, (normal(40, 50),), tolerance=1e-4, calls="moved")
    found["streams"] = Rung(several, (normal(60, 50),), tolerance=1e-4, calls="threads")
    found["sessions"] = Rung(update, (normal(2, 48, 16), normal(2, 3, 16), torch.tensor([1, 2, 3])), written=(0,), calls="models")
    return found
