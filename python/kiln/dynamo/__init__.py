"""The backend "kiln" of torch.compile.

    import kiln.dynamo                      # not needed where Kiln is installed: the backend is an entry point
    model = torch.compile(model, backend="kiln")

Graphs go through aot_autograd, forward and backward, and each is compiled by aot-compile as an exported program would be, with
parameters as inputs. docs/torch-compile.md says what works and what the options are.
"""

import functools
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import dynamo_timed
from torch._functorch.partitioners import min_cut_rematerialization_partition

from .._compile import make_flags, run_compiler
from .._composed import expand
from .._entry import KilnError
from . import _cache
from ._archive import Archive, is_lazy
from ._decompositions import lowered, make_table
from ._freeze import find_frozen
from ._partition import describe, partition
from ._run import CompiledGraph, PartitionedGraph
from ._split import Split, split

__all__ = ["kiln"]

TIMER = "kiln_compile"  # what the backend takes, in torch._dynamo.utils.compile_times()
_FALLBACKS = ("eager", "none", "torch")
_FIXED = ("o", "emit", "weights")  # what becomes of a compiled graph is not the user's to choose


def _keep_eager(module: torch.fx.GraphModule) -> CompiledGraph:
    """The graph as it is."""
    count = len(module.graph.find_nodes(op="placeholder"))
    return CompiledGraph(None, Split(None, [], module, list(range(count))))


def _find_device(module: torch.fx.GraphModule) -> int | None:
    """The index of the GPU that the graph computes on, None for the CPU."""
    for node in module.graph.nodes:
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.device.type == "cuda":
                index: int | None = value.device.index
                return index or 0
    return None


def _compile_graph(module: torch.fx.GraphModule, flags: list[str], is_frozen: bool) -> CompiledGraph:
    parts = split(module)
    if parts.module is None:
        return CompiledGraph(None, parts)
    device = _find_device(parts.module)
    if device is not None and not any(flag.startswith("--target=") for flag in flags):
        flags = ["--target=cuda", *flags]
    placeholders = parts.module.graph.find_nodes(op="placeholder")
    frozen = find_frozen(placeholders, parts.inputs) if is_frozen else {}
    if frozen:
        flags = ["--weights=later", *flags]
    parts.inputs = [position for position in parts.inputs if position not in frozen.values()]
    values = [node.meta["val"] for node in placeholders if node.name not in frozen]
    scalars = [i for i, value in enumerate(values) if not isinstance(value, torch.Tensor)]
    lazy = [i for i, value in enumerate(values) if is_lazy(value)]
    results = parts.module.graph.output_node().args[0]
    numbers = [j for j, node in enumerate(results) if not isinstance(node.meta["val"], torch.Tensor)]
    archive = Archive(parts.module, frozen)

    def build(path: str) -> None:
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            source = os.path.join(folder, "model.pt2")
            archive.write(source)
            try:
                run_compiler(source, path, flags)
            except KilnError as error:  # the user has never seen that file
                raise KilnError(error.status, str(error).removeprefix("aot-compile: error: ").removeprefix(f"{source}: ")) from None

    key = _cache.make_key(archive.digest, *flags)
    path = _cache.fetch(key, ".so", build)
    try:
        return CompiledGraph(path, parts, scalars, numbers, lazy, device or 0, frozen)
    except KilnError:  # it has been removed in the meantime, or cannot be loaded
        _cache.remove(path)
        return CompiledGraph(_cache.fetch(key, ".so", build), parts, scalars, numbers, lazy, device or 0, frozen)


def _compile_parts(module: torch.fx.GraphModule, compile_graph: Callable[[torch.fx.GraphModule], CompiledGraph]) -> Any:
    """The graph with operators that are not known in eager mode and everything between them compiled; None if there are none."""
    known = lowered()
    partitioned = partition(module, known)
    if partitioned is None:
        return None
    parts, outputs = partitioned
    for text in describe(module, known):
        warnings.warn(f"stays in eager mode: {text}", stacklevel=2)
    values = [*module.graph.find_nodes(op="placeholder"), *(node for part in parts for node in part.results)]
    numbers = {node: number for number, node in enumerate(values)}
    last = {node: i for i, part in enumerate(parts) for node in (*part.results, *part.inputs)}
    kept = {value for value in outputs if isinstance(value, torch.fx.Node)}
    steps = []
    for i, part in enumerate(parts):
        graph = compile_graph(part.module) if part.is_compiled else _keep_eager(part.module)
        dropped = [numbers[node] for node, end in last.items() if end == i and node not in kept]
        steps.append((graph, [numbers[node] for node in part.inputs], [numbers[node] for node in part.results], dropped))
    described = [(True, numbers[value]) if isinstance(value, torch.fx.Node) else (False, value) for value in outputs]
    return PartitionedGraph(steps, described)


def kiln(
    module: torch.fx.GraphModule, example_inputs: list[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The backend function. Options are `fallback` ("eager", "none" or "torch"), `freeze` and those of aot-compile."""
    if mode not in (None, "default"):
        raise ValueError(f'the backend "kiln" has no mode "{mode}"')
    options = dict(options or {})
    fallback = options.pop("fallback", "eager")
    if fallback not in _FALLBACKS:
        raise ValueError(f'the backend "kiln" has no fallback "{fallback}": {", ".join(_FALLBACKS)}')
    freeze = options.pop("freeze", False)
    if not isinstance(freeze, bool):
        raise ValueError(f'the backend "kiln" takes True or False for "freeze", not {freeze!r}')
    for name in options:
        if name in _FIXED:
            raise ValueError(f'the backend "kiln" has no option "{name}"')
    if fallback == "torch":
        options["fallback"] = "torch"
    flags = list(make_flags(options))

    table = make_table()

    def partition(graph: torch.fx.GraphModule, inputs: list[Any], **settings: Any) -> Any:
        expand(graph, table)
        return min_cut_rematerialization_partition(graph, inputs, **settings)

    def attempt(compile_it: Callable[[torch.fx.GraphModule], Any], graph: torch.fx.GraphModule) -> Any:
        try:
            return compile_it(graph)
        except Exception as error:
            if fallback == "none":
                raise
            warnings.warn(f"a graph stays in eager mode: {error or type(error).__name__}", stacklevel=2)
            return _keep_eager(graph)

    def compile_whole(graph: torch.fx.GraphModule, is_frozen: bool = False) -> CompiledGraph:
        return _compile_graph(graph, flags, is_frozen)

    def compile_expanded(graph: torch.fx.GraphModule, is_frozen: bool) -> Any:
        expand(graph, table)
        parts = _compile_parts(graph, functools.partial(attempt, compile_whole)) if fallback == "eager" else None
        return parts or compile_whole(graph, is_frozen)

    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any], is_frozen: bool = False) -> Any:
        with dynamo_timed(TIMER):
            return attempt(functools.partial(compile_expanded, is_frozen=is_frozen), graph)

    def compile_inference(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return compile_graph(graph, inputs, freeze)

    compile_both = aot_autograd(
        fw_compiler=compile_graph,
        inference_compiler=compile_inference,
        partition_fn=partition,
        decompositions=table,
        keep_inference_input_mutations=True,
    )
    compiled: Callable[..., Any] = compile_both(module, example_inputs)
    return compiled


# PyTorch knows the name of an installed Kiln as an entry point, and registers it by itself.
if "kiln" not in registry._BACKENDS:
    registry.register_backend(kiln, name="kiln")
