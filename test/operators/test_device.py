"""Every operator of generator/ops.yaml on the device "kiln", in all its forms, against LibTorch's CPU kernels."""

import os
import pathlib
import sys

import pytest
import torch
from torch.utils import _pytree as pytree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "generator"), str(ROOT / "python"), str(pathlib.Path(__file__).parent)]

BUILD = pathlib.Path(os.environ.get("KILN_BUILD", ROOT / "build"))
os.environ.setdefault("KILN_TORCH_BACKEND_LIBRARY", str(BUILD / "lib/libkiln_torch_backend.so"))

import kiln.device  # noqa: E402
from harvest import harvest  # noqa: E402
from native_functions import native_functions  # noqa: E402
from operators import rows  # noqa: E402
from ops_yaml import read_ops  # noqa: E402

torch.set_num_threads(1)
NATIVES = native_functions()
OPS = read_ops(ROOT / "generator/ops.yaml", NATIVES)
FORMS = {row[0]: row for functions in (OPS.supported, OPS.autograd) for row in rows(functions, NATIVES)}
# What draws random numbers or returns what nothing has written has the right shape and dtype, and other values.
UNDEFINED = (
    "bernoulli",
    "rand",
    "normal",
    "uniform",
    "exponential",
    "cauchy",
    "geometric",
    "log_normal",
    "rrelu",
    "empty",
    "multinomial",
    "dropout",
    "native_dropout",
    "resize",
    "ctc_loss",
)
# ctest runs every tenth operator; KILN_OPERATORS=all runs all of them.
NAMES = sorted(FORMS) if os.environ.get("KILN_OPERATORS") == "all" else sorted(FORMS)[::10]


def by_hand():
    """Arguments of operators that no test of PyTorch's reaches."""
    x, ones, zeros = torch.randn(2, 3, 4), torch.ones(3), torch.zeros(3)
    return {
        "_batch_norm_with_update_functional": (x, ones, zeros, zeros, ones, 0.1, 1e-5),
        "_native_batch_norm_legit_functional": (x, ones, zeros, zeros, ones, True, 0.1, 1e-5),
        "rrelu_with_noise_functional": (x, torch.ones_like(x), 0.125, 0.5, False),
    }


@pytest.fixture(scope="session", autouse=True)
def device():
    kiln.device.register()
    return torch.device("kiln")


@pytest.fixture(scope="session")
def samples():
    """{functional form: [(args, kwargs)]}"""
    wanted = {}
    for name in NAMES:
        for form in FORMS[name]:
            if form:
                wanted.setdefault(form, []).append(name)
    calls = {name: [(args, {})] for name, args in by_hand().items()}
    for name, recorded in harvest(wanted).items():
        functional, in_place, _ = FORMS[name]
        # Other forms' arguments serve where the functional one is never called; those in-place are the same.
        calls.setdefault(
            name,
            [(args, kwargs) for form, args, kwargs in recorded if form == functional]
            or [(args, kwargs) for form, args, kwargs in recorded if form == in_place],
        )
    return calls


def overload(name):
    base, _, rest = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), rest or "default")


def to(device, value):
    """A copy there, and whatever says where results are to be."""

    def one(leaf):
        return leaf.to(device, copy=True) if isinstance(leaf, torch.Tensor) else leaf

    moved = pytree.tree_map(one, value)
    if isinstance(moved, dict) and moved.get("device") is not None:
        moved["device"] = torch.device(device)
    return moved


def outcome(function, args, kwargs):
    """The results, or the error."""
    try:
        return pytree.tree_leaves(function(*args, **kwargs)), None
    except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError) as error:
        return None, error


def compare(name, actual, expected):
    assert len(actual) == len(expected), name
    for got, want in zip(actual, expected):
        if not isinstance(want, torch.Tensor):
            assert got == want or got != got, name
            continue
        assert (got.device.type, got.dtype, got.shape) == ("kiln", want.dtype, want.shape), name
        if not any(word in name for word in UNDEFINED):
            torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5, equal_nan=True)


def check_out(form, args, kwargs, expected):
    """`out` gets what the functional form returns, whatever it was."""
    written = [argument.name for argument in overload(form)._schema.arguments if argument.is_out]
    if len(written) != len(expected) or not all(isinstance(result, torch.Tensor) for result in expected):
        return  # lists of tensors
    places = {name: torch.empty(0, dtype=result.dtype, device="kiln") for name, result in zip(written, expected)}
    known = {argument.name for argument in overload(form)._schema.arguments}
    rest = {key: value for key, value in kwargs.items() if key in known}
    _, error = outcome(overload(form), to("kiln", args), {**to("kiln", rest), **places})
    assert error is None, f"{form}: {error}"
    compare(form, list(places.values()), expected)


def check_in_place(form, args, kwargs, expected):
    """`self` gets it, if it has the shape and can hold it."""
    targets = pytree.tree_leaves(args[0])
    fits = all(target.shape == result.shape and target.dtype == result.dtype for target, result in zip(targets, expected))
    mine = to("kiln", args)
    _, error = outcome(overload(form), mine, to("kiln", kwargs))
    if fits:
        assert error is None, f"{form}: {error}"
        compare(form, pytree.tree_leaves(mine[0])[: len(expected)], expected[: len(targets)])
    elif any(target.shape != result.shape for target, result in zip(targets, expected)):
        assert error is not None, f"{form}: a tensor of another shape was written"


@pytest.mark.parametrize("name", NAMES)
def test_operator(name, samples):
    """All forms give what the functional one gives with LibTorch's kernel for the CPU, or an error as that does."""
    functional, in_place, out = FORMS[name]
    assert samples.get(name), f"no arguments for {name}"
    for args, kwargs in samples[name]:
        if (
            not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves((args, kwargs)))
            or kwargs.get("device") is not None
            or name.startswith(("linspace", "logspace"))
        ):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        expected, expected_error = outcome(overload(functional), to("cpu", args), to("cpu", kwargs))
        actual, error = outcome(overload(functional), to("kiln", args), to("kiln", kwargs))
        if expected_error is not None:
            assert error is not None, f"{functional}: expected {expected_error}"
            continue
        assert error is None, f"{functional}: {error}"
        compare(functional, actual, expected)
        if out:
            check_out(out, args, kwargs, expected)
        if in_place:
            check_in_place(in_place, args, kwargs, expected)


def test_gradients():
    """Through operators with a kernel of their own and through composed ones."""

    def loss(x, weight):
        y = torch.nn.functional.layer_norm(torch.nn.functional.linear(x, weight).relu(), (5,))
        return torch.nn.functional.cross_entropy(y, torch.tensor([1, 3, 0], device=x.device)) + torch.einsum("ij,ij->", y, y)

    torch.manual_seed(0)
    host = [torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)]
    mine = [tensor.detach().to("kiln").requires_grad_() for tensor in host]
    loss(*host).backward()
    loss(*mine).backward()
    for expected, actual in zip(host, mine):
        assert actual.grad.device.type == "kiln"
        torch.testing.assert_close(actual.grad.cpu(), expected.grad)


def test_a_module_on_the_device():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.GELU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 10),
    ).eval()
    x = torch.randn(2, 3, 8, 8)
    expected = module(x)
    actual = module.to("kiln")(x.to("kiln"))
    assert actual.device.type == "kiln" and "kiln" in repr(actual)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-5)
