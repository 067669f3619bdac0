"""Splits a graph of aot_autograd into the part that is compiled and the part that stays in Python.

An output that is an input, a view of an input or of another output, or a number made of sizes costs a copy in a compiled model,
which never returns views. Here it costs a view: the epilogue makes such outputs of the inputs and of what the model returned.
"""

import collections
import dataclasses
import operator
from typing import Any

import torch
from torch._export.serde.serialize import _SYM_OPS

_aten = torch.ops.aten
SIZES = {
    _aten.sym_size.int,
    _aten.sym_size.default,
    _aten.sym_stride.int,
    _aten.sym_stride.default,
    _aten.sym_numel.default,
    _aten.sym_storage_offset.default,
}


class Refused(Exception):
    """A graph that cannot be written as an exported program."""


@dataclasses.dataclass
class Split:
    module: torch.fx.GraphModule | None  # what is compiled, None if there is nothing to compute; it returns the list of results
    inputs: list[int]  # the positions of its inputs among those of the whole graph
    epilogue: torch.fx.GraphModule | None  # (inputs of the whole graph that it uses, results) -> outputs; None: the results
    epilogue_inputs: list[int]


def returned(value: Any) -> Any:
    """What a value is as an output: an epilogue's copy_ returns the input that it writes."""
    while isinstance(value, torch.fx.Node) and value.target is _aten.copy_.default:
        value = value.args[0]
    return value


class _Splitter:
    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.graph = module.graph
        self.placeholders = self.graph.find_nodes(op="placeholder")
        self.outputs = [returned(value) for value in self.graph.output_node().args[0]]
        self.results: dict[torch.fx.Node, int] = {}
        self.known: dict[torch.fx.Node, bool] = {}
        wanted = {value for value in self.outputs if isinstance(value, torch.fx.Node)}
        shown = collections.Counter(map(self._base, wanted))
        for node in self.graph.nodes:  # in order, so that a base comes before its views
            if (node in wanted or shown[node] > 1) and not self.is_hosted(node):
                self.results[node] = len(self.results)
                self.known[node] = True

    def is_hosted(self, node: torch.fx.Node) -> bool:
        """Whether the epilogue can make `node` of inputs and results without computing anything."""
        if node not in self.known:
            self.known[node] = node.op == "placeholder" or (self._only_looks(node) and all(map(self.is_hosted, node.all_input_nodes)))
        return self.known[node]

    @classmethod
    def _base(cls, node: torch.fx.Node) -> torch.fx.Node:
        """The tensor that computes what `node` shows. Outputs that show the same one share memory, as in eager mode."""
        while node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node):
            if not cls._is_view(node) and not (node.target is operator.getitem and cls._is_view(node.args[0])):
                break
            node = node.args[0]
        return node

    @staticmethod
    def _is_view(node: torch.fx.Node) -> bool:
        return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view and not node.target._schema.is_mutable

    @classmethod
    def _only_looks(cls, node: torch.fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if isinstance(node.target, torch._ops.OpOverload) and node.target not in SIZES:
            return cls._is_view(node)
        return node.target is operator.getitem or node.target in SIZES or node.target in _SYM_OPS

    def make_epilogue(self) -> tuple[torch.fx.GraphModule | None, list[int]]:
        """(module, positions of its inputs), or (None, []) if the results are the outputs."""
        if self.outputs == list(self.results):
            return None, []
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, torch.fx.Node] = {}
        used: list[int] = []
        nodes = [value for value in self.outputs if isinstance(value, torch.fx.Node)]
        needed: set[torch.fx.Node] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                if node not in self.results:
                    stack.extend(node.all_input_nodes)
        for position, node in enumerate(self.placeholders):
            if node in needed:
                used.append(position)
                made[node] = graph.placeholder(f"input_{position}")
        for node, position in self.results.items():
            made[node] = graph.placeholder(f"result_{position}")
        for node in self.graph.nodes:
            if node in needed and node not in made:
                made[node] = graph.node_copy(node, made.__getitem__)
                made[node].meta = {}
        graph.output([made[value] if isinstance(value, torch.fx.Node) else value for value in self.outputs])
        return torch.fx.GraphModule(torch.nn.Module(), graph), used

    def make_program(self, module: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule | None, list[int]]:
        """(module to compile, positions of its inputs); (None, []) if it computes nothing."""
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, Any] = {}
        for node in self.placeholders:
            value = node.meta["val"]
            if isinstance(value, (int, float, bool, str, type(None))):
                made[node] = value  # a constant that dynamo guards
            else:
                made[node] = graph.node_copy(node, made.__getitem__)
        for node in self.graph.nodes:
            if node.op not in ("placeholder", "output"):
                made[node] = graph.node_copy(node, lambda argument: made[argument])
                made[node].meta = {key: node.meta[key] for key in ("val", "stack_trace") if key in node.meta}
        graph.output([made[node] for node in self.results])
        graph.eliminate_dead_code()
        if not any(node.op == "call_function" for node in graph.nodes):
            return None, []
        inputs = []
        for position, node in enumerate(self.placeholders):
            copy = made[node]
            if not isinstance(copy, torch.fx.Node):
                continue
            copy.meta = {"val": node.meta["val"]}
            if copy.users or isinstance(node.meta["val"], torch.SymInt):
                inputs.append(position)
            else:
                graph.erase_node(copy)
        return torch.fx.GraphModule(module, graph), inputs


def split(module: torch.fx.GraphModule) -> Split:
    """Splits a graph module of aot_autograd, which stays as it is."""
    splitter = _Splitter(module)
    program, inputs = splitter.make_program(module)
    if program is None and splitter.results:
        raise Refused("a constant is all that the graph returns")
    epilogue, epilogue_inputs = splitter.make_epilogue()
    return Split(program, inputs, epilogue, epilogue_inputs)
