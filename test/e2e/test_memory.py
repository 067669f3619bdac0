"""Views and copies as eager PyTorch makes them: writes through both, and inputs in other strides than export recorded."""

import pytest
import torch

import kiln
from test_ops_pointwise import some

EXACT = dict(rtol=0, atol=0)


class Each(torch.nn.Module):
    """Applies each function to an input of its own, and returns that beside the result."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *inputs):
        return [(function(x), x * 1) for function, x in zip(self.functions, inputs)]


def last(x):
    return x.to(memory_format=torch.channels_last)


# What a tensor [4, 6, 5], or one of another rank, is seen as or copied to.
SEEN = {
    "contiguous": lambda x: x.contiguous(),
    "contiguous_of_transposed": lambda x: x.mT.contiguous(),
    "clone": lambda x: x.mT.clone(),
    "contiguous_of_part": lambda x: x[:, 1:].contiguous(),
    "contiguous_of_leading_part": lambda x: x[1:].contiguous(),
    "reshape": lambda x: x.reshape(24, 5),
    "reshape_of_transposed": lambda x: x.mT.reshape(4, 30),
    "reshape_splits": lambda x: x.mT.reshape(4, 5, 2, 3),
    "reshape_of_part": lambda x: x[:, 1:4].reshape(-1),
    "reshape_of_leading_part": lambda x: x[1:3].reshape(-1),
    "reshape_of_column": lambda x: x[:, 2].reshape(-1),
    "flatten": lambda x: x.flatten(1),
    "flatten_of_transposed": lambda x: x.transpose(0, 1).flatten(),
    "ravel": lambda x: x.ravel(),
    "ravel_of_steps": lambda x: x[0, 0, ::2].ravel(),
    "reshape_of_steps": lambda x: x[0, 0, ::2].reshape(-1),
    "to_same": lambda x: x.to(torch.float32),
    "to_double": lambda x: x.double(),
    "float": lambda x: x.mT.float(),
    "type_as": lambda x: x.type_as(x),
    "contiguous_format": lambda x: x.mT.to(memory_format=torch.contiguous_format),
    "channels_last": lambda x: last(x[None]),
    "channels_last_again": lambda x: last(last(x[None]) + 0),
    "contiguous_last": lambda x: x[None].contiguous(memory_format=torch.channels_last),
    "expand": lambda x: x.expand(1, 4, 6, 5),
    "broadcast_to": lambda x: x.broadcast_to(1, 4, 6, 5),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "movedim": lambda x: x.movedim(0, -1),
    "linalg_diagonal": lambda x: torch.linalg.diagonal(x, offset=-1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "split": lambda x: x.split(4, 1)[1],
    "split_sizes": lambda x: x.split([1, 3, 2], 1)[1],
    "chunk": lambda x: x.chunk(2, -1)[1],
    "unbind": lambda x: x.unbind(1)[3],
    "tensor_split": lambda x: x.tensor_split(4, 1)[2],
    "tensor_split_backwards": lambda x: x.tensor_split([4, 2, -1], 1)[2],
    "hsplit": lambda x: x.hsplit(3)[1],
    "vsplit": lambda x: x.vsplit([1, 3])[1],
    "dsplit": lambda x: x.dsplit([2])[1],
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mH,
    "T": lambda x: x[0].T,
    "narrow": lambda x: x.narrow(1, 2, 3),
    "narrow_from_end": lambda x: x.narrow(1, -3, 2),
    "slice": lambda x: x[1:, -4:-1, ::2],
    "unfold": lambda x: x.unfold(1, 2, 3),
    "atleast_3d": lambda x: torch.atleast_3d(x[0, 0]),
    "conj": lambda x: x.conj(),
    "real": lambda x: x.real,
    "bits": lambda x: x.view(torch.int32),
    "view_as_complex": lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 15, 2))),
    "select": lambda x: x[:, -2],
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "as_strided": lambda x: x.as_strided((3, 4), (7, 1), 2),
    "permuted_back": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "copy_of_a_view_of_a_copy": lambda x: x.mT.contiguous()[1:].mT.reshape(-1),
}
WRITES = [
    lambda y: y.mul_(2),
    lambda y: y.zero_(),
    lambda y: y.fill_(3),
    lambda y: y.copy_(torch.ones_like(y)),
    lambda y: y.index_put_((torch.tensor([0, -1]),), torch.tensor(7, dtype=y.dtype)),
    lambda y: y.masked_fill_(y > 0, 2),
]


def write(y, number):
    WRITES[number](y)
    if number == 1:
        y += 1
    if number == 2:
        y[y > 5] = 4
    return y * 1


@pytest.mark.parametrize("made", [False, True], ids=["input", "intermediate"])
def test_writes(compile_and_compare, made):
    """What is written through a view is written, and what is written to a copy is not; also in a tensor that the program makes."""

    def function(see, number):
        def apply(x):
            base = x + 1 if made else x
            other = base.mT
            return write(see(base), number), other * 1

        return apply

    functions = [function(see, i % len(WRITES)) for i, see in enumerate(SEEN.values())]
    compile_and_compare(Each(functions), tuple(some(4, 6, 5) for _ in functions), **EXACT)


DYNAMIC = [
    name
    for name in SEEN
    if name
    not in (
        "as_strided",
        "chunk",
        "view_as_complex",
        "vsplit",
        "hsplit",
        "diagonal",
        "linalg_diagonal",
        "channels_last",
        "channels_last_again",
        "contiguous_last",
        "expand",
        "broadcast_to",
        "reshape",
        "reshape_of_transposed",
        "reshape_splits",
    )
]
RESHAPED = {
    "reshape": lambda x: x.reshape(x.shape[0] * 6, x.shape[2]),
    "reshape_splits": lambda x: x.mT.reshape(x.shape[0], x.shape[2], 2, 3),
    "reshape_of_transposed": lambda x: x.mT.reshape(x.shape[0], -1),
    "narrow": lambda x: x.narrow(2, x.shape[2] - 3, 2),
    "select": lambda x: x[x.shape[0] - 2],
    "select_wraps": lambda x: x.select(2, 2 - x.shape[2]),
    "slice": lambda x: x[x.shape[0] - 3 :, :, : x.shape[2] - 2],
}


@pytest.mark.parametrize("made", [False, True], ids=["input", "intermediate"])
def test_writes_at_dynamic_sizes(compile_and_compare, made):
    def function(see, number):
        def apply(x):
            base = x + 1 if made else x
            other = base.mT
            return write(see(base), number), other * 1

        return apply

    seen = [SEEN[name] for name in DYNAMIC] + list(RESHAPED.values())
    functions = [function(see, i % len(WRITES)) for i, see in enumerate(seen)]
    rows, columns = torch.export.Dim("rows", min=3, max=50), torch.export.Dim("columns", min=4, max=50)
    compile_and_compare(
        Each(functions),
        tuple(some(4, 6, 5) for _ in functions),
        dynamic_shapes=(tuple({0: rows, 2: columns} for _ in functions),),
        more_inputs=[tuple(some(7, 6, 9) for _ in functions)],
        **EXACT,
    )


def test_writes_of_complex_numbers(check_calls):
    z = torch.complex(some(3, 4), some(3, 4))

    def function(x):
        y = x * 1
        torch.view_as_real(y)[..., 0].mul_(2)
        y.imag.add_(1)
        y.mT.conj().mul_(2j)
        return y

    check_calls(function, z)


def compiled(function, *inputs, dynamic_shapes=None):
    class Module(torch.nn.Module):
        def forward(self, *inputs):
            return function(*inputs)

    program = torch.export.export(Module(), inputs, dynamic_shapes=(dynamic_shapes,) if dynamic_shapes else None)
    return program, kiln.compile(program)


def same_values(x, strides):
    return torch.empty_strided(x.shape, strides, dtype=x.dtype).copy_(x)


def write_columns(x):
    x.as_strided((4,), (4,), 1).mul_(2)
    return x * 1


# Results that depend on how the input, [4, 4], lies in memory.
STRIDED = {
    "as_strided": lambda x: x.as_strided((2, 3), (1, 2), 1) * 1,
    "of_a_view": lambda x: x[1:, 1:].as_strided((2, 2), (1, 4)) * 1,
    "of_a_transposed_view": lambda x: x.t().as_strided((2, 2), (1, 2)) * 1,
    "of_what_is_made_of_it": lambda x: x.relu().as_strided((3, 3), (1, 2)) * 1,
    "copy": lambda x: torch.as_strided_copy(x, (3,), (2,)),
    "scatter": lambda x: torch.as_strided_scatter(x, x[0, :2] * 2, (2,), (3,)),
    "resize": lambda x: (x + 1).resize_(3, 5) * 1,
    "write": write_columns,
    "write_to_a_copy": lambda x: (x.t().contiguous().mul_(2), x * 1),
    "write_to_a_view": lambda x: (x.reshape(-1).mul_(2), x * 1),
    "write_to_a_view_of_what_is_made": lambda x: (lambda y: (y.flatten().mul_(2), y.sum(0)))(x.relu()),
    "write_beside_a_copy": lambda x: (lambda y: (x.mul_(2), y * 1))(x.t().reshape(-1)),
}


@pytest.mark.parametrize("name", STRIDED)
def test_input_in_other_strides(name):
    x = torch.arange(16.0).reshape(4, 4) - 5
    program, model = compiled(STRIDED[name], x.clone())
    for strides in ((4, 1), (1, 4), (8, 1)):
        mine, theirs = same_values(x, strides), same_values(x, strides)
        if strides != (4, 1):
            with pytest.raises(
                kiln.KilnError, match=rf'input 0 "\w+": expected strides \[4, 1\], got \[{strides[0]}, {strides[1]}\]'
            ) as error:
                model(mine)
            assert error.value.status == 2
            continue
        torch.testing.assert_close(model(mine), program.module()(theirs))
        torch.testing.assert_close(mine, theirs)


def test_windows_of_channels_last():
    """Overlapping windows of rows, then of their columns: the second ones see the memory of the image."""

    def windows(x):
        rows = x.as_strided((1, 4, 2, 4, 6), (144, 1, 48, 24, 4))
        return rows.as_strided((1, 4, 2, 2, 4, 4), (144, 1, 48, 8, 24, 4)).contiguous()

    x = torch.arange(144.0).reshape(1, 4, 6, 6).to(memory_format=torch.channels_last)
    program, model = compiled(windows, x)
    torch.testing.assert_close(model(x), program.module()(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t().contiguous() + x.reshape(-1).sum(),
        lambda x: (x + 1).reshape(-1).mul_(2),
        lambda x: x.clone(memory_format=torch.contiguous_format).as_strided((2, 3), (1, 2), 1) * 1,
        lambda x: (x @ x).as_strided((2, 3), (1, 2), 1) * 1,
        lambda x: x.view(2, 8).t(),
        lambda x: x.t().mul_(2),
    ],
)
def test_input_in_any_strides(function):
    """Nothing that the program returns or writes depends on them."""
    x = torch.arange(16.0).reshape(4, 4) - 5
    program, model = compiled(function, x.clone())
    for strides in ((4, 1), (1, 4), (8, 2)):
        mine, theirs = same_values(x, strides), x.clone()
        torch.testing.assert_close(model(mine), program.module()(theirs))
        torch.testing.assert_close(mine, theirs)


def test_order_of_another_input():
    """resize_as takes the order of dims from the other tensor, which has to be as it was recorded."""
    x, y = torch.arange(12.0), torch.rand(1, 3, 2, 2)
    program, model = compiled(lambda x, y: torch.ops.aten.resize_as(x, y, memory_format=torch.preserve_format) * 1, x, y)
    torch.testing.assert_close(model(x, y), program.module()(x, y))
    with pytest.raises(kiln.KilnError, match=r'input 1 "\w+": expected strides \[12, 4, 2, 1\], got \[12, 1, 6, 3\]'):
        model(x, y.to(memory_format=torch.channels_last))


def test_strides_of_dynamic_sizes():
    rows, columns = torch.export.Dim("rows", min=2, max=9), torch.export.Dim("columns", min=2, max=9)
    x = torch.arange(20.0).reshape(5, 4).t()
    program, model = compiled(lambda x: x.as_strided((2, 3), (2, 1), 1) * 1, x, dynamic_shapes=({0: rows, 1: columns},))
    for shape in ((4, 5), (3, 7)):
        y = torch.rand(shape[::-1]).t()
        torch.testing.assert_close(model(y), program.module()(y))
        with pytest.raises(kiln.KilnError, match="expected strides") as error:
            model(y.contiguous())
        assert error.value.status == 2


def test_writes_at_places_that_data_gives(compile_and_compare):
    """Indices and bounds count from either end, as the run finds them to."""

    class Places(torch.nn.Module):
        def forward(self, x, at, begin, length):
            at, begin, length = at.item(), begin.item(), length.item()
            torch._check(length >= 0)
            torch._check(length <= 3)
            y, z, w = x.clone(), x.clone(), x.mT.clone()
            y.select(0, at).mul_(2)
            z[begin : begin + length] = 3
            w.narrow(1, 1, length).add_(1)
            return y, z, w, y.select(0, at) + 1

    def inputs(*numbers):
        return (some(5, 4), *(torch.tensor(number) for number in numbers))

    compiled = compile_and_compare(
        Places(),
        inputs(2, 1, 2),
        more_inputs=[inputs(-1, 3, 1), inputs(-5, 4, 3), inputs(0, 0, 0), inputs(4, -4, 2), inputs(1, -9, 3)],
        **EXACT,
    )
    for wrong in (5, -6):
        with pytest.raises(kiln.KilnError):
            kiln.load(compiled.path)(*inputs(wrong, 0, 1))
