"""Exports what one process of several computes.

    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    parallelize_module(module, mesh, plan, src_data_rank=None)    # torch.distributed.tensor.parallel
    program = kiln.distributed.export(module, inputs)             # the program of this process (rank)
    torch.export.save(program, f"model.{rank}.pt2")               # aot-compile model.0.pt2 -o model.0.so --ranks=2

`torch.export` cannot save modules whose parameters are DTensors. This traces them down to the tensors that the process has, between
which stand collectives (`_c10d_functional`), and exports that. A process group of the backend "fake" will do: with
`src_data_rank=None` nothing is sent.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree


class _Local(nn.Module):  # type: ignore[misc]
    """A traced graph over the tensors of this process, under the names that the module has for them."""

    def __init__(self, module: nn.Module, tensors: dict[str, torch.Tensor], graph: torch.fx.GraphModule):
        super().__init__()
        object.__setattr__(self, "graph", graph)  # no submodule: it has no parameters
        self.names = list(tensors)
        parameters = {name for name, _ in module.named_parameters()}
        for name, tensor in tensors.items():
            *path, leaf = name.split(".")
            owner: nn.Module = self
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, nn.Module())
                owner = owner.get_submodule(part)
            if name in parameters:
                owner.register_parameter(leaf, nn.Parameter(tensor, requires_grad=False))
            else:
                owner.register_buffer(leaf, tensor)

    def forward(self, *args: Any) -> Any:
        known = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return self.graph([known[name] for name in self.names], *args)


def _to_local(value: Any) -> Any:
    return value.to_local() if isinstance(value, DTensor) else value


def export(module: nn.Module, args: tuple[Any, ...], dynamic_shapes: Sequence[Any] | None = None) -> torch.export.ExportedProgram:
    """The program of this process. `dynamic_shapes` has for each of `args` what `torch.export.export` takes for a tensor: None, or
    a dictionary of dims. Outputs that are DTensors are this process's parts of them."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    tensors = {name: _to_local(tensor.detach()) for name, tensor in named.items()}
    shapes = list(dynamic_shapes) if dynamic_shapes is not None else [None] * len(args)
    if len(shapes) != len(args):
        raise ValueError(f"dynamic_shapes has {len(shapes)} entries for {len(args)} arguments")

    def run(values: list[torch.Tensor], *inputs: Any) -> Any:
        made = {
            name: DTensor(value, tensor._spec, requires_grad=False) if isinstance(tensor, DTensor) else value
            for value, (name, tensor) in zip(values, named.items(), strict=True)
        }
        return pytree.tree_map(_to_local, torch.func.functional_call(module, made, inputs))

    mode = FakeTensorMode(shape_env=ShapeEnv())

    def fake(value: Any, dims: dict[int, Any] | None) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        kinds = [DimDynamic.DYNAMIC if (dims or {}).get(i) is not None else DimDynamic.STATIC for i in range(value.dim())]
        return mode.from_tensor(value, symbolic_context=StatelessSymbolicContext(kinds))

    values = [fake(tensor, None) for tensor in tensors.values()]
    inputs = [pytree.tree_map(lambda leaf, dims=dims: fake(leaf, dims), value) for value, dims in zip(args, shapes, strict=True)]
    with torch.no_grad():
        graph = make_fx(run, tracing_mode="fake")(values, *inputs)
        local = _Local(module, tensors, graph)
        return torch.export.export(local, args, dynamic_shapes=(tuple(shapes),) if dynamic_shapes is not None else None)
