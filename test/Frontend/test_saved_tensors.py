"""Archives as PyTorch 2.8 writes them, with the weights in a table that torch.save has made: read without calling what it names."""

import io
import os
import pickle
import random
import zipfile

import pytest
import torch

import programs
from conftest import import_all, import_module

WEIGHTS = "data/weights/model.pt"


class Dtypes(torch.nn.Module):
    """A buffer of each dtype and layout."""

    def __init__(self):
        super().__init__()
        names = "uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128 bool bfloat16 float8_e4m3fn float8_e5m2 uint16 uint32 uint64"
        for name in names.split():
            self.register_buffer(f"of_{name}", torch.tensor([[0, 1, 2], [3, 4, 1]]).to(getattr(torch, name)))
        self.register_buffer("turned", torch.arange(6.0).reshape(3, 2).t())
        self.register_buffer("part", torch.arange(400.0)[5:317:52])
        self.register_buffer("empty", torch.empty(0, 300, 70000))
        self.register_buffer("number", torch.tensor(2.5))

    def forward(self, x):
        return x, [buffer.clone() for buffer in self.buffers()]


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


class Saved:
    """An archive whose weights and constants are tables of torch.save."""

    def __init__(self, archive, program):
        self.archive = archive
        weights, constants = dict(program.state_dict), dict(program.constants)
        self.changes = {name: None for name in archive.members if name.startswith(("data/weights/", "data/constants/"))}
        self.changes |= {WEIGHTS: saved(weights), "data/constants/model.pt": saved(constants)}

    def write(self, path, weights=None):
        return self.archive.write(path, {**self.changes, **({WEIGHTS: weights} if weights is not None else {})})

    def members(self):
        with zipfile.ZipFile(io.BytesIO(self.changes[WEIGHTS])) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def answer(self, path, changes):
        """What is said when members of the table's archive are changed, or left out."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in {**self.members(), **{"archive/" + name: data for name, data in changes.items()}}.items():
                if data is not None:
                    archive.writestr(name, data)
        (answer,) = import_all([self.write(path, file.getvalue())])
        return answer


@pytest.fixture(params=["layers", "dtypes"])
def table(request, export):
    module, inputs = programs.layers()[:2] if request.param == "layers" else (Dtypes(), (torch.ones(2),))
    return Saved(export(module, inputs), torch.export.export(module, inputs))


@pytest.fixture
def layers(export):
    module, inputs = programs.layers()[:2]
    return Saved(export(module, inputs), torch.export.export(module, inputs))


def test_same_as_raw(table, tmp_path):
    assert import_module(table.write(tmp_path / "old.pt2")) == import_module(table.archive.write(tmp_path / "new.pt2"))


class Runs:
    """What a hostile pickle does when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Sub(torch.Tensor):
    pass


def test_nothing_is_called(layers, tmp_path):
    target = str(tmp_path / "made")
    for value in ({"first.weight": Runs(target)}, Runs(target)):
        for protocol in range(2, 6):
            data = pickle.dumps(value, protocol)
            answer = layers.answer(tmp_path / "a.pt2", {"data.pkl": data})
            assert "the table of tensors" in answer, answer
            assert not os.path.exists(target)
    data = pickle.dumps({"first.weight": Runs(target)}, 2)
    assert "holds more than plain tensors, 'posix mkdir'" in layers.answer(tmp_path / "a.pt2", {"data.pkl": data})
    pickle.loads(data)
    assert os.path.exists(target)


@pytest.mark.parametrize(
    "value, reason",
    [
        ({"w": torch.ones(2).as_subclass(Sub)}, "plain tensors, 'torch._tensor _rebuild_from_type_v2'"),
        ({"w": torch.ones(2, dtype=torch.complex64).conj()}, "something else than tensors"),
        ({"w": torch.ones(2).to_sparse()}, "plain tensors"),
        ({"w": [torch.ones(2)]}, "instruction 0x5D"),
        ({"w": 5}, "something else than tensors"),
        ({5: torch.ones(2)}, "something else than tensors"),
        ({"w": {"v": torch.ones(2)}}, "something else than tensors"),
        (torch.ones(2), "is no table of tensors"),
    ],
)
def test_other_tables(layers, tmp_path, value, reason):
    (answer,) = import_all([layers.write(tmp_path / "a.pt2", saved(value))])
    assert reason in answer, answer


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"data.pkl": None}, "holds no tensors"),
        ({"data.pkl": b""}, "ends early"),
        ({"data.pkl": b"."}, "is no table"),
        ({"data.pkl": b"\x80\x02}q\x00(X\xff\xff\xff\xffw"}, "is damaged"),
        ({"data.pkl": b"\x80\x02" + b")" + b"\x85" * 100000 + b"."}, "is damaged"),
        ({"data.pkl": b"\x80\x02" + b"\x85" * 10 + b"."}, "is damaged"),
        ({"data.pkl": b"\x80\x04}."}, "unknown version"),
        ({"data.pkl": b"\x80\x02}q\x00(X\x01\x00\x00\x00wh\x00u."}, "something else than tensors"),
        ({"byteorder": b"big"}, "byteorder is 'big'"),
        ({"data/0": None}, "data/weights/model.pt: no member 'data/0'"),
        ({"data/0": b"\0" * 7}, "needs"),
    ],
)
def test_damaged_tables(layers, tmp_path, changes, reason):
    answer = layers.answer(tmp_path / "a.pt2", changes)
    assert reason in answer, answer


def test_random_damage(table, tmp_path):
    rng, paths = random.Random(0), []
    data = table.changes[WEIGHTS]
    start = data.index(b"data.pkl") + 8
    end = data.index(b"PK", start)
    for i in range(600):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(start, end) if i % 3 else rng.randrange(len(data))] = rng.choice(
                [0, 1, 0x28, 0x7F, 0x80, 0xFF, rng.randrange(256)]
            )
        paths.append(table.write(tmp_path / f"{i}.pt2", bytes(damaged)))
    for length in range(0, len(data), max(len(data) // 100, 1)):
        paths.append(table.write(tmp_path / f"cut-{length}.pt2", data[:length]))
    answers = import_all(paths)
    assert "ok" not in answers[600:]
    assert any(answer != "ok" for answer in answers[:600])
