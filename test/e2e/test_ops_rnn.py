"""Recurrent layers and cells."""

import pytest
import torch

# Export looks at the weights that a layer keeps in a list besides.
pytestmark = pytest.mark.filterwarnings("ignore:.*were assigned during export", "ignore:.*not supported with oneDNN")

LAYERS = [
    torch.nn.LSTM(5, 12),
    torch.nn.LSTM(5, 12, 2, batch_first=True, bidirectional=True),
    torch.nn.LSTM(5, 12, 2, proj_size=7, bias=False),
    torch.nn.GRU(5, 12),
    torch.nn.GRU(5, 9, 2, batch_first=True, bidirectional=True, bias=False),
    torch.nn.RNN(5, 12, 2, bidirectional=True),
    torch.nn.RNN(5, 8, nonlinearity="relu", batch_first=True),
]
CELLS = [
    torch.nn.LSTMCell(5, 12),
    torch.nn.GRUCell(5, 12, bias=False),
    torch.nn.RNNCell(5, 12),
    torch.nn.RNNCell(5, 12, nonlinearity="relu"),
]


class Layers(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        return [layer(x) for layer in self.layers]


def some(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("batch_dim", [0, 1])
def test_layers(compile_and_compare, batch_dim):
    """Of any number of sequences. Export fixes the number of steps."""
    layers = [layer for layer in LAYERS if layer.batch_first == (batch_dim == 0)]
    inputs = [(some(6, batch, 5).movedim(1, batch_dim),) for batch in (4, 2, 33)]
    compile_and_compare(Layers(layers), inputs[0], dynamic_shapes=({batch_dim: torch.export.Dim.DYNAMIC},), more_inputs=inputs[1:])


def test_one_step(compile_and_compare):
    compile_and_compare(Layers(LAYERS), (some(1, 4, 5),))


def test_layers_of_static_sizes(compile_and_compare):
    compile_and_compare(Layers(LAYERS[:2] + LAYERS[3:4]), (some(3, 2, 5),))


def test_given_state(compile_and_compare):
    lstm, gru = torch.nn.LSTM(5, 12, 2), torch.nn.GRU(5, 12)

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.gru = lstm, gru

        def forward(self, x, h, c):
            return self.lstm(x, (h, c)), self.gru(x, h[:1]), self.gru(x[:, 0], h[0, :1])

    compile_and_compare(Both(), (some(6, 4, 5), some(2, 4, 12), some(2, 4, 12)))


def test_double(compile_and_compare):
    compile_and_compare(
        Layers([torch.nn.LSTM(5, 12).double(), torch.nn.GRU(5, 12).double()]), (some(6, 4, 5).double(),), rtol=1e-12, atol=1e-12
    )


def test_cells(compile_and_compare):
    compile_and_compare(
        Layers(CELLS), (some(3, 5),), dynamic_shapes=({0: torch.export.Dim.AUTO},), more_inputs=[(some(2, 5),), (some(17, 5),)]
    )


class Unrolled(torch.nn.Module):
    """Steps that are one kernel, called with spans of tensors: rows, windows and pairs of them, along any dim, of any width."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.table = torch.nn.Parameter(some(steps, 16))
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x, narrow, flags):
        state, sums, seen = torch.zeros(x.shape[0], 16), [], []
        for i in range(self.steps):
            state = torch.tanh(self.linear(x[:, i]) + self.table[i] * state)
            sums.append(torch.cat([narrow[:, i : i + 3].sum(1), narrow[:, i] * narrow[:, i + 2]], 1))
            seen.append(torch.where(flags[i], x[:, i, ::2] + x[:, i + 1, 1::2], state[:, 3:11]))
        return state, torch.stack(sums), torch.stack(seen, 1)


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_unrolled(compile_and_compare, is_dynamic):
    steps = 9
    inputs = [(some(n, steps + 1, 16), some(n, steps + 2, 5), some(steps, n, 8) > 0) for n in ((3, 1, 18) if is_dynamic else (3,))]
    batch = torch.export.Dim("batch", min=1, max=64)
    shapes = ({0: batch}, {0: batch}, {1: batch}) if is_dynamic else None
    compile_and_compare(Unrolled(steps), inputs[0], dynamic_shapes=shapes, more_inputs=inputs[1:])
