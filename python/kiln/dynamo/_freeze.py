"""Weights that a compiled graph keeps in a form of its own: folded and packed once, and again when they have changed."""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ._archive import is_lazy

if TYPE_CHECKING:
    from ._run import Runner

_aten = torch.ops.aten
_ROWS = {_aten.embedding.default, _aten.index_select.default}  # read a few rows: there is nothing to prepare


def _is_weight(node: torch.fx.Node) -> bool:
    """Whether a parameter or buffer is worth keeping, and stays what it is in a run."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.device.type != "cpu" or is_lazy(value):
        return False
    if not all(isinstance(size, int) for size in value.shape):
        return False
    if any(user.target is _aten.copy_.default and user.args[0] is node for user in node.users):
        return False
    return not all(user.target in _ROWS and user.args[0] is node for user in node.users)


def find_frozen(placeholders: Sequence[torch.fx.Node], positions: Sequence[int]) -> dict[str, int]:
    """{name: position among the inputs of the whole graph} of the module's parameters and buffers. `positions` are those of all
    `placeholders`."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None or metadata.tokens:
        return {}
    static = frozenset(metadata.static_input_indices or ())
    return {node.name: i for node, i in zip(placeholders, positions) if i in static and _is_weight(node)}


def _get_version(tensor: torch.Tensor) -> int | None:
    """A number that grows with each write in place. An inference tensor has none: it is taken for changed in every call."""
    return None if tensor.is_inference() else tensor._version


class _Prepared:
    """A model with the weights of one module."""

    def __init__(self, runner: "Runner", tensors: Sequence[torch.Tensor], forget: Callable[[Any], None]) -> None:
        self.runner = runner
        self.tensors = [weakref.ref(tensor, forget) for tensor in tensors]
        self.states: list[Any] = [None] * len(tensors)

    def is_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        return all(known() is tensor for known, tensor in zip(self.tensors, tensors))

    def is_gone(self) -> bool:
        return any(known() is None for known in self.tensors)

    def update(self, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
        for i, tensor in enumerate(tensors):
            state = (_get_version(tensor), tensor.data_ptr(), tensor.stride())
            if state != self.states[i] or state[0] is None:
                self.states[i] = None
                self.runner.model.set_constant(names[i], tensor)
                self.states[i] = state


class Weights:
    """The models of a graph, which several modules of one class share: one for the weights of each, as long as these live."""

    def __init__(self, names: Sequence[str], make: Callable[[], "Runner"]) -> None:
        self.names, self.make = names, make
        self.spare: Runner | None = make()
        self.prepared: list[_Prepared] = []
        self.lock = threading.Lock()

    def _forget(self, _: Any) -> None:
        """Weights are gone. Without the lock, which this thread may hold: the worst is that a model is made twice."""
        self.prepared = [known for known in self.prepared if not known.is_gone()]

    def find(self, tensors: Sequence[torch.Tensor]) -> "Runner":
        """The model whose weights are `tensors` as they are now."""
        with self.lock:
            for known in self.prepared:
                if known.is_of(tensors):
                    break
            else:
                runner, self.spare = self.spare or self.make(), None
                known = _Prepared(runner, tensors, self._forget)
                self.prepared = [*self.prepared, known]
            known.update(self.names, tensors)
            return known.runner
