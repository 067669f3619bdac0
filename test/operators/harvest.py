"""Arguments for every operator: what PyTorch's own operator tests (OpInfo) call it with, directly or on the way, gradients included."""

import signal
import warnings

import torch
from torch.testing._internal import common_methods_invocations as definitions
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

SAMPLES = 6  # of each entry and dtype
CALLS = 8  # kept of each operator
LARGEST = 50000  # elements of a tensor that is kept


class Skip(Exception):
    pass


def copy(value):
    """The call's own copy: same strides, no gradient."""

    def one(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.layout != torch.strided or leaf.device.type != "cpu" or leaf.numel() > LARGEST or leaf.is_quantized or leaf.is_nested:
            raise Skip
        return leaf.detach().clone()

    return pytree.tree_map(one, value)


class Recorder:
    """Keeps arguments of the operators that are wanted."""

    def __init__(self, wanted):
        self.wanted, self.calls, self.kinds = wanted, {}, {}

    def record(self, function, args, kwargs):
        name = str(function).removeprefix("aten.").removesuffix(".default")
        for wanted in self.wanted.get(name, ()):
            calls = self.calls.setdefault(wanted, [])
            if len(calls) >= CALLS:
                continue
            leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            # Not the same shapes again and again.
            kind = wanted, tuple((leaf.dtype, tuple(leaf.shape)) for leaf in leaves)
            if self.kinds.get(kind, 0) >= 2:
                continue
            try:
                calls.append((name, *copy((args, dict(kwargs)))))
            except Skip:
                continue
            self.kinds[kind] = self.kinds.get(kind, 0) + 1


class Watch(TorchDispatchMode):
    """Sees operators as kernels do: below autograd, composed ones taken apart."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.recorder.record(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


def direct(recorder, entry, sample, overloads):
    """The operators of the entry's own name: a mode that sees what is below autograd does not see what is composed of others."""
    arguments = (sample.input, *sample.args)
    for function in overloads.get(entry.aten_name, ()):
        try:
            function(*copy(arguments), **copy(sample.kwargs))
        except Exception:
            continue  # another overload's arguments
        recorder.record(function, arguments, sample.kwargs)


def entries():
    found = {id(entry): entry for entry in definitions.op_db}
    for name in sorted(dir(definitions)):
        if name.startswith("foreach_") and name.endswith("op_db"):
            found.update((id(entry), entry) for entry in getattr(definitions, name))
    return list(found.values())


def run(entry, sample, grad):
    result = entry.op(sample.input, *sample.args, **sample.kwargs)
    if grad:
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])


def harvest(wanted, seconds_each=20):
    """`wanted` maps names of forms to the names of the operators whose arguments they show. -> {operator: [(form, args, kwargs)]}"""
    recorder = Recorder(wanted)
    overloads = {}
    for name in sorted({name for names in wanted.values() for name in names}):
        base, _, overload = name.partition(".")
        overloads.setdefault(base, []).append(getattr(getattr(torch.ops.aten, base), overload or "default"))

    def give_up(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, give_up)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in entries():
            for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
                # One dtype is enough to see what is called; integers show what only they reach.
                if dtype not in entry.dtypes or (dtype in (torch.bool, torch.complex64) and torch.float32 in entry.dtypes):
                    continue
                signal.setitimer(signal.ITIMER_PROF, seconds_each)  # processor time: machines may be busy
                try:
                    grad = dtype == torch.float32 and entry.supports_autograd
                    for i, sample in enumerate(entry.sample_inputs("cpu", dtype, requires_grad=grad)):
                        if i >= SAMPLES:
                            break
                        torch.manual_seed(0)
                        try:
                            with Watch(recorder):
                                run(entry, sample, grad)
                            direct(recorder, entry, sample, overloads)
                        except TimeoutError:
                            raise
                        except Exception:
                            pass  # samples that are errors, and operators that no mode may see
                except (TimeoutError, RuntimeError, ValueError, TypeError, AssertionError, NotImplementedError):
                    pass
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)
    return recorder.calls
