"""Partitions a graph of aot_autograd around the operators that the compiler does not know, such as those written in Python.

A stage is a part that is compiled, and then one that runs in eager mode; a node is in the first stage where its inputs are there.
Numbers made of sizes cost nothing: every part that needs one makes it."""

import dataclasses
import operator
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch
from torch._export.serde.serialize import _SYM_OPS
from torch.fx import Graph, GraphModule, Node

from ._split import SIZES, returned

_copy = torch.ops.aten.copy_.default


@dataclasses.dataclass
class Part:
    module: GraphModule  # it returns the list of results
    inputs: list[Node]
    results: list[Node]
    is_compiled: bool


def _find_unknown(node: Node, known: Collection[str]) -> Iterator[Any]:
    """The operators that a node calls, in nested graphs and as arguments of higher-order operators too, and that are not known."""
    if node.op == "get_attr":
        value = getattr(node.graph.owning_module, str(node.target), None)
        for inner in value.graph.nodes if isinstance(value, GraphModule) else ():
            yield from _find_unknown(inner, known)
    if node.op != "call_function":
        return
    is_nested = isinstance(node.target, torch._ops.HigherOrderOperator)
    for called in (node.target, *(node.args if is_nested else ())):
        if isinstance(called, torch._ops.OpOverload) and called not in SIZES and str(called) not in known:
            yield called
    for used in node.all_input_nodes if is_nested else ():
        if used.op == "get_attr":
            yield from _find_unknown(used, known)


def _is_number(node: Node) -> bool:
    return node.op == "call_function" and (node.target in SIZES or node.target in _SYM_OPS)


class _Partitioner:
    def __init__(self, module: GraphModule, known: Collection[str]) -> None:
        self.module, self.graph = module, module.graph
        self.positions = {node: position for position, node in enumerate(self.graph.nodes)}
        self.sizes = [n for n in self.graph.find_nodes(op="placeholder") if isinstance(n.meta.get("val"), torch.SymInt)]
        self.outputs = [returned(value) for value in self.graph.output_node().args[0]]
        self.stages: dict[Node, int] = {}
        self.called: dict[Node, list[Any]] = {}  # what eager mode runs: the operators that are not known, none for parts of results
        self._find_stages(known)

    def _find_stages(self, known: Collection[str]) -> None:
        """Operators that are not known keep their order, as they may do more than PyTorch is told. Inputs are written last."""
        there: dict[Node, int] = {}  # the first stage whose compiled part can use a value
        writes, last = [], 0
        for node in self.graph.nodes:
            first = max((there[used] for used in node.all_input_nodes), default=0)
            there[node] = first
            if node.op != "call_function" or _is_number(node):
                continue
            unknown = list(_find_unknown(node, known))
            if node.target is _copy:
                writes.append(node)
            elif node.target is operator.getitem and node.args[0] in self.called:
                self.stages[node], self.called[node] = self.stages[node.args[0]], []
            elif unknown:
                # Eager mode can use in a stage what it has made there.
                last = max([last, *(self.stages[used] if used in self.called else there[used] for used in node.all_input_nodes)])
                self.stages[node], self.called[node] = last, unknown
            else:
                self.stages[node] = first
            if node in self.called:
                there[node] = self.stages[node] + 1
        final = max(self.stages.values(), default=0)
        if any(self.stages[node] == final for node in self.called):
            final += 1
        self.stages.update((node, final) for node in writes)

    def _reach(self, nodes: Collection[Node], wanted: Iterable[Node]) -> tuple[list[Node], list[Node]]:
        """(what a part with `nodes` takes from outside, the nodes it has), in order."""
        outside, inside, stack = set(), set(nodes), [*wanted, *(used for node in nodes for used in node.all_input_nodes)]
        while stack:
            node = stack.pop()
            if node in inside or node in outside:
                continue
            if node.op == "get_attr" or _is_number(node):
                inside.add(node)
                stack.extend(node.all_input_nodes)
            else:
                outside.add(node)
        return sorted(outside, key=self.positions.__getitem__), sorted(inside, key=self.positions.__getitem__)

    def _make_part(self, nodes: Collection[Node], wanted: list[Node], is_compiled: bool) -> Part:
        inputs, inside = self._reach(nodes, wanted)
        if is_compiled:  # sizes of its tensors may be made of those
            inputs = [*(size for size in self.sizes if size not in inputs), *inputs]
        graph, made = Graph(), {}
        for node in inputs:
            made[node] = graph.placeholder(node.name)
            made[node].meta = {"val": node.meta["val"]}
        for node in inside:
            made[node] = graph.node_copy(node, made.__getitem__)
        graph.output([made[node] for node in wanted])
        return Part(GraphModule(self.module, graph), inputs, wanted, is_compiled)

    def make_parts(self) -> Iterator[Part]:
        """The parts in the order in which they run. The last one makes outputs that are numbers."""
        members: dict[tuple[int, bool], list[Node]] = {}
        for node in self.graph.nodes:
            if node in self.stages:
                members.setdefault((self.stages[node], node in self.called), []).append(node)
        shown = {value for value in self.outputs if isinstance(value, Node)}
        numbers = [node for node in shown if _is_number(node) or node.op == "get_attr"]
        needed = self._reach((), numbers)[0]
        for place, nodes in sorted(members.items()):
            # A number that is made elsewhere may need any value that leads to it.
            used = shown.union(needed, *(self._reach(others, ())[0] for key, others in members.items() if key != place))
            wanted = [node for node in nodes if node in used and node.target is not _copy]
            yield self._make_part(nodes, wanted, not place[1])
        if numbers:
            yield self._make_part((), numbers, False)


def describe(module: GraphModule, known: Collection[str]) -> list[str]:
    """The operators in a graph that are not known and that are PyTorch's own, each with its first node and line."""
    found: dict[str, str] = {}
    for node in module.graph.nodes:
        for called in _find_unknown(node, known):
            if called.namespace in ("aten", "prims"):
                lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip().startswith("File ")]
                place = f", {lines[-1].rpartition(',')[0]}" if lines else ""
                found.setdefault(str(called), f"operator {called} (node {node.name}{place})")
    return list(found.values())


def partition(module: GraphModule, known: Collection[str]) -> tuple[list[Part], list[Any]] | None:
    """(parts, outputs: nodes and constants) of a graph module of aot_autograd; None if all of its operators are known, or if it
    writes anything but its inputs."""
    partitioner = _Partitioner(module, known)
    if not partitioner.called:
        return None
    for node in partitioner.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            if node.target is not _copy or node.args[0].op != "placeholder":
                return None
    return list(partitioner.make_parts()), partitioner.outputs
