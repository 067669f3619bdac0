"""Caches are written in place: the values are eager's, and neither memory nor kernels hold a copy of the cache."""

import re

import pytest
import torch

import kiln
from conftest import TARGET, run_tool
from test_ops_pointwise import some

EXACT = dict(rtol=0, atol=0)
ROWS, WIDTH = 48, 12


class Steps(torch.nn.Module):
    """Applies each function to a cache of its own, a buffer."""

    def __init__(self, functions, *shape):
        super().__init__()
        self.functions = functions
        for i in range(len(functions)):
            self.register_buffer(f"cache{i}", some(*shape, seed=i))

    def forward(self, new, at):
        return [function(getattr(self, f"cache{i}"), new, at) for i, function in enumerate(self.functions)]


class Given(torch.nn.Module):
    """The same with caches that are inputs."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, new, at, *caches):
        return [function(cache, new, at) for function, cache in zip(self.functions, caches)]


def copy_then_sum(cache, new, at):
    cache.index_copy_(1, at, new)
    return cache.sum(1)


def put(cache, new, at):
    cache[:, at] = new
    return cache.amax(1)


def put_from_end(cache, new, at):
    cache[:, at - ROWS] = new  # negative indices
    return cache.amax(1)


def accumulate(cache, new, at):
    cache.index_put_((torch.arange(2)[:, None], at[None]), new, accumulate=True)
    return cache.amin(1)


def scatter_add(cache, new, at):
    cache.scatter_add_(1, at[None, :, None].expand(2, -1, WIDTH), new)
    return cache.amin(1)


def several(cache, new, at):
    cache.index_copy_(1, at, new)
    middle = cache.sum(1)
    cache.index_add_(1, (at + 7) % ROWS, new)
    cache.mul_(0.5)
    cache.index_fill_(1, at[:1], 3.0)
    return middle, cache.sum(1)


def reads_old(cache, new, at):
    old = cache * 1
    largest = cache.amax(1)
    cache.index_copy_(1, at, new)
    return old, largest, cache.sum(1)


def mixes_old(cache, new, at):
    old = cache.clone()
    cache.index_copy_(1, at, new)
    return old + cache


def from_itself(cache, new, at):
    cache.index_copy_(1, at, cache[:, : at.shape[0]] * 2)
    return cache.sum(1)


def returns_it(cache, new, at):
    return cache.index_copy_(1, at, new), cache


def returns_view(cache, new, at):
    cache.index_copy_(1, at, new)
    return cache[:, :3], cache.mT


def through_view(cache, new, at):
    cache.view(2, ROWS, 3, 4).index_copy_(1, at, new.view(2, -1, 3, 4))
    return cache.sum(1)


def slices(cache, new, at):
    cache[:, 4:7] = new[:, :1]
    cache[1, -2:] = 0.5
    cache[:, ::5] = new[0, 0]
    cache[0].T[3:5] = 2
    cache.select(1, -1).copy_(new[:, 0])
    return cache.sum(1)


def part_of_part(cache, new, at):
    layer = cache[1]
    layer.index_copy_(0, at, new[0])
    layer[5:][: at.shape[0]] += new[1]
    first = layer.amax(0)
    cache[0].t().index_copy_(1, at, new[0].t())
    return first, layer.sum(0), cache.mT[0].sum(1)


def shifts(cache, new, at):
    cache[:, 1:] = cache[:, :-1].clone()
    cache.copy_(cache.roll(3, 1))
    return cache.sum(1)


def masked(cache, new, at):
    cache[cache > 0.5] = 0.25
    cache.masked_fill_(cache < -0.5, -0.25)
    return cache.sum(1)


def counts(cache, new, at):
    """Rows that count from a number on: no two of them are one."""
    start = at[:1] % 20
    cache.index_copy_(1, start + torch.arange(new.shape[1]), new)
    cache.index_copy_(1, 2 * torch.arange(new.shape[1]) + start, new * 2)
    return cache.sum(1)


def stands_still(cache, new, at):
    """Every place is the same row: the last one wins."""
    cache.index_copy_(1, at[:1] % ROWS + 0 * torch.arange(new.shape[1]), new)
    return cache.sum(1)


def part_of_cat(cache, new, at):
    part = cache.cumsum(1)
    updated = part.index_copy(1, at, new)
    return updated.cumsum(1), torch.cat([part, part])


def cat_of_parts(cache, new, at):
    first, second = cache.cumsum(1), cache.cumsum(2)
    both = torch.cat([first, second])
    updated = both.index_copy(1, at, torch.cat([new, new]))
    return updated.cumsum(1), first.cumsum(2)


FUNCTIONS = [
    copy_then_sum,
    put,
    put_from_end,
    accumulate,
    scatter_add,
    several,
    reads_old,
    mixes_old,
    from_itself,
    returns_it,
    returns_view,
    through_view,
    slices,
    part_of_part,
    shifts,
    masked,
    counts,
    stands_still,
    part_of_cat,
    cat_of_parts,
]
CALLS = [[5, 6, 7], [47, 0, 20], [3, 3, 40]]


def news():
    for i, at in enumerate(CALLS):
        yield some(2, len(at), WIDTH, seed=10 + i), torch.tensor(at)


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_inputs(compile_model, is_dynamic):
    rows = torch.export.Dim("rows", max=ROWS - 5)
    caches = tuple(some(2, ROWS, WIDTH, seed=i) for i in range(len(FUNCTIONS)))
    new, at = next(news())
    shapes = ({1: rows}, {0: rows}, tuple({} for _ in caches)) if is_dynamic else None
    model = compile_model(Given(FUNCTIONS), (new, at, *caches), shapes)
    for new, at in news():
        # CPU PyTorch writes repeated indices in order, as here.
        model.check((new, at, *caches), rtol=1e-5, atol=1e-5)
    if is_dynamic:
        for count in (2, 9):
            model.check((some(2, count, WIDTH), torch.randperm(ROWS)[:count], *caches), rtol=1e-5, atol=1e-5)


def test_buffers(compile_model):
    """What a buffer holds lasts from run to run."""
    model = compile_model(Steps(FUNCTIONS, 2, ROWS, WIDTH), next(news()))
    for _ in range(2):
        for inputs in news():
            model.check(inputs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bad", [ROWS, -ROWS - 1, 1 << 40, -(1 << 63)])
def test_out_of_range(compile_model, bad):
    """A status; the rows that are named by other indices may have been written, no other memory is."""
    cache = some(2, ROWS, WIDTH)
    model = compile_model(Given([put]), (some(2, 3, WIDTH), torch.tensor([0, 1, 2]), cache))
    given = cache.clone()
    with pytest.raises(kiln.KilnError, match="index"):
        model.model.run([some(2, 3, WIDTH), torch.tensor([4, bad, 9]), given])
    changed = (given != cache).any(-1).any(0).nonzero().flatten().tolist()
    assert set(changed) <= {4, 9}
    model.check((some(2, 3, WIDTH), torch.tensor([0, 1, 2]), cache), **EXACT)


class Decoder(torch.nn.Module):
    """A layer of a decoder with a static cache, as exported language models have it."""

    def __init__(self, heads=2, rows=256, width=32):
        super().__init__()
        self.heads, self.width = heads, width
        self.qkv = torch.nn.Linear(heads * width, 3 * heads * width)
        self.register_buffer("keys", torch.zeros(1, heads, rows, width))
        self.register_buffer("values", torch.zeros(1, heads, rows, width))

    def forward(self, x, at):
        q, k, v = (part.view(1, -1, self.heads, self.width).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        mask = torch.arange(self.keys.shape[2]) <= at[:, None]
        y = torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        return y.transpose(1, 2).flatten(2)


class Stacked(torch.nn.Module):
    """The caches of all layers in one tensor, an input; written where a number of the caller's says."""

    def forward(self, caches, x, start):
        start = start.item()
        torch._check(start >= 0)
        torch._check(start + x.shape[2] <= caches.shape[4])
        y = x
        for layer in range(caches.shape[0]):
            caches[layer, 0, :, :, start : start + x.shape[2]] = y
            caches[layer, 1, :, :, start : start + x.shape[2]] = y * 2
            y = torch.nn.functional.scaled_dot_product_attention(y, caches[layer, 0], caches[layer, 1])
        return y


def test_stacked(compile_model):
    """A layer's update leaves the other layers alone."""
    caches = some(3, 2, 1, 2, 96, 32)
    model = compile_model(Stacked(), (caches, some(1, 2, 2, 32), torch.tensor(5)))
    for start in (5, 0, 94):
        model.check((caches, some(1, 2, 2, 32, seed=start), torch.tensor(start)), rtol=1e-4, atol=1e-5)
    assert_no_copies(model, "96, 32")
    given = caches.clone()
    with pytest.raises(kiln.KilnError, match="start|ASSERTION|assertion"):
        model.model.run([given, some(1, 2, 2, 32), torch.tensor(95)])
    torch.testing.assert_close(given, caches, **EXACT)


def assert_no_copies(model, shape):
    process = run_tool("aot-compile", model.archive, "-o", "-", "--emit=wrapper", *TARGET)
    assert process.returncode == 0, process.stderr
    copies = [line for line in process.stdout.splitlines() if re.search(r"wrapper\.(copy|alloc)", line) and shape in line]
    assert not copies
    scatters = re.findall(r"kernel.func (?:private )?@scatter.*", process.stdout)
    assert scatters and all("updates = 0" in line for line in scatters)


def test_decoder(compile_model):
    """The arena is smaller than a row of the cache is long, and no step copies."""
    module = Decoder()
    model = compile_model(module, (some(1, 1, 64), torch.tensor([0])))
    for step in range(4):
        model.check((some(1, 1, 64, seed=step), torch.tensor([step])), rtol=1e-4, atol=1e-5)
    cache = module.keys.numel() * 4
    assert int(model.model.info["arena_bytes"]) < cache // 8
    assert_no_copies(model, "256, 32")


class InPlaceNetwork(torch.nn.Module):
    """Nobody sees that values in between are written: batches of one and none are taken."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(inplace=True), torch.nn.Flatten(), torch.nn.Linear(64, 5), torch.nn.ReLU6(inplace=True)
        )

    def forward(self, x):
        return self.layers(x).T.contiguous().mul_(2)


class WritesTransposed(torch.nn.Module):
    """A copy is written, but for a single row: there it is the input."""

    def forward(self, x):
        return x.T.contiguous().mul_(2), x


class WritesFlattened(torch.nn.Module):
    """The columns in a row are a copy, but for a single row."""

    def forward(self, x):
        flat = x.t().flatten()
        flat.add_(1)
        return x.sum(), flat


class WritesSeen(torch.nn.Module):
    """A view if there is one row, of what is written later."""

    def forward(self, x):
        x = x * 1
        seen = x.permute(1, 0)[None].reshape(-1)
        x.sub_(3)
        return seen


class WritesOtherOrder(torch.nn.Module):
    """A copy for any batch: the strides of the channels alone say so."""

    def forward(self, x):
        return x.to(memory_format=torch.channels_last).add_(1), x


class WritesMerged(torch.nn.Module):
    """A view, whose strides are checked unless there are no elements."""

    def forward(self, x):
        x.permute(2, 0, 1).reshape(x.shape[2], -1).mul_(2)
        return x.sum()


def test_strides_of_no_elements(compile_and_compare):
    auto = torch.export.Dim.AUTO
    compiled = compile_and_compare(
        WritesMerged(), (some(3, 4, 5),), ({0: auto, 1: auto, 2: auto},), more_inputs=[(some(16, 0, 11),), (some(2, 0, 3).transpose(0, 2),)]
    )
    with pytest.raises(kiln.KilnError, match="expected strides"):
        compiled.model(some(3, 4, 5).transpose(0, 2))


def test_sizes_of_one(compile_and_compare):
    auto = torch.export.Dim.AUTO
    for module in (WritesFlattened(), WritesSeen()):
        compiled = compile_and_compare(module, (some(4, 3),), ({0: auto},), more_inputs=[(some(2, 3),)])
        with pytest.raises(kiln.KilnError, match=r"in \[2, inf\], got 1"):
            compiled.model(some(1, 3))
    images = [(some(n, 3, 4, 5),) for n in (2, 7, 1)]
    compile_and_compare(WritesOtherOrder(), images[0], ({0: auto},), more_inputs=images[1:])
    batches = [(some(n, 3, 6, 6),) for n in (3, 1, 0)]
    compile_and_compare(InPlaceNetwork().eval(), batches[0], ({0: auto},), more_inputs=batches[1:])
    compiled = compile_and_compare(WritesTransposed(), (some(4, 3),), ({0: auto},), more_inputs=[(some(2, 3),)])
    with pytest.raises(kiln.KilnError, match=r"in \[2, inf\], got 1"):
        compiled.model(some(1, 3))
