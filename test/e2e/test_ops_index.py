"""Gathers and scatters: indices are data."""

import pytest
import torch
import torch.nn.functional as F

import kiln
from test_ops_pointwise import some


def indices(high, *shape, seed=0):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def test_embedding(check_calls):
    table = torch.nn.Embedding(50, 12)
    check_calls(
        table,
        indices(50, 7),
        indices(50, 2, 3),
        indices(50),
        indices(50, 0),
        indices(50, 3, 1).to(torch.int32),
        modules=[table],
        rtol=0,
        atol=0,
    )
    check_calls(lambda i: F.embedding(i, table.weight, padding_idx=0) * 3 + 1, indices(50, 4, 5), modules=[table])


def test_index_select(check_calls):
    check_calls(
        lambda x, i: (x.index_select(0, i), x.index_select(2, i), x.index_select(-2, i)), (some(5, 6, 7), indices(5, 4)), rtol=0, atol=0
    )


def test_gather(check_calls):
    check_calls(lambda x, i: (x.gather(1, i), x.gather(0, i % 4)), (some(4, 9), indices(9, 4, 3)), rtol=0, atol=0)


def test_index(check_calls):
    """Negative indices count from the end."""

    def function(x, i, j):
        return x[i], x[:, j], x[i, j], x[..., i], x[i[:, None], j], x[:, i, :, j], x[-i - 1]

    check_calls(function, (some(5, 6, 7, 8), indices(5, 4), indices(5, 4, seed=1)), rtol=0, atol=0)


def test_take(check_calls):
    check_calls(lambda x, i: (x.flatten()[i], torch.take_along_dim(x, i[None, :3], 1)), (some(4, 9), indices(9, 5)), rtol=0, atol=0)
    # Along a dim they count modulo its size.
    far = torch.tensor([[7, -9, 2**62 + 1, -(2**63), 2**63 - 1, 4, -5, -6, 5]])
    check_calls(
        lambda x, i: (torch.take_along_dim(x, i, 0), torch.take_along_dim(x, i.mT[:5] - 2**61, 1)), (some(5, 9), far), rtol=0, atol=0
    )


@pytest.mark.parametrize("bad", [5, -6, 1 << 40, -(1 << 63), (1 << 63) - 1])
def test_out_of_range(compile_model, bad):
    """An error, whatever the fused kernel looks like; nothing outside of the tensor is read."""

    class Pick(torch.nn.Module):
        def forward(self, x, i):
            return x[i] * 2, x.index_select(0, i).sum()

    compiled = compile_model(Pick(), (some(5, 3), indices(5, 4)))
    with pytest.raises(kiln.KilnError):
        compiled.model(some(5, 3), torch.tensor([0, 1, bad, 2]))
    compiled.check((some(5, 3), indices(5, 4)), 1e-5, 1e-5)


def test_one_hot_and_comparison(check_calls):
    check_calls(lambda i: ((i[..., None] == torch.arange(6)).long(), (i > 2).float().mean(-1)), indices(6, 3, 4))


def test_masked_indices_of_dynamic_sizes(compile_and_compare):
    class Masked(torch.nn.Module):
        def forward(self, x, mask, index, values):
            return (
                torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask, [index], values),
                torch.ops.aten._unsafe_masked_index(x, mask, [index], 2.0),
            )

    size, count = torch.export.Dim("size", max=99), torch.export.Dim("count", max=99)

    def inputs(size, count):
        return (torch.rand(size), torch.arange(count) % 3 != 1, torch.tensor([2, 99, -1, 5, -70])[:count], torch.rand(count))

    compile_and_compare(
        Masked(),
        inputs(6, 5),
        dynamic_shapes=({0: size}, {0: count}, {0: count}, {0: count}),
        more_inputs=[inputs(9, 4), inputs(0, 3), inputs(6, 0)],
    )
