"""Replaces higher-order operators that Kiln has no lowering for, and that compute what other operators do, by those. So it does
with sums of sizes, which no exported program has."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.base_hop import BaseHOP
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

_KEY = torch._C.DispatchKey.CompositeExplicitAutograd
Table = dict[Any, Callable[..., Any]]
_COMPOSED = {"flex_attention", "flex_attention_backward", "invoke_quant", "invoke_quant_packed"}


def _trace(module: GraphModule, node: Node, inputs: list[Node], table: Table) -> Graph:
    """What eager mode does for a node, as a graph of `inputs`; its output is the node's result, nested as that is."""

    def call(*values: Any) -> Any:
        known = dict(zip(inputs, values))

        def find(used: Node) -> Any:
            if used in known:
                return known[used]
            return getattr(module, used.target) if used.op == "get_attr" else used.target(*used.args, **used.kwargs)

        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), find)
        if isinstance(node.target, BaseHOP):  # a call of its first argument
            return args[0](*args[1:])
        return node.target.py_kernels[_KEY](*args, **kwargs)

    values = [used.meta["val"] for used in inputs]
    mode = torch._guards.detect_fake_mode(values)
    with mode, torch.no_grad():
        return make_fx(torch.func.functionalize(call), decomposition_table=table)(*values).graph


def _insert(module: GraphModule, node: Node, traced: Graph, inputs: list[Node]) -> Any:
    """Copies a graph's nodes to before `node`; returns the copies of its output."""
    made = dict(zip(traced.find_nodes(op="placeholder"), inputs))
    for old in traced.nodes:
        if old.op in ("placeholder", "output"):
            continue
        held = getattr(traced.owning_module, old.target) if old.op == "get_attr" else None
        if isinstance(held, torch.Tensor) and held.dim() == 0:  # an exported program may not hold tensors
            with unset_fake_temporarily():
                number = held.item()
            made[old] = module.graph.call_function(torch.ops.aten.full.default, ([], number), {"dtype": held.dtype})
        elif old.op == "get_attr":
            name = f"{node.name}_{old.target}"
            setattr(module, name, held)
            made[old] = module.graph.create_node("get_attr", name)
        else:
            made[old] = module.graph.node_copy(old, made.__getitem__)
        # Partitioners look for what the node knows: whether it is of the backward part, and where it comes from.
        made[old].meta = {**node.meta, **{key: old.meta[key] for key in ("val", "tensor_meta") if key in old.meta}}
    return torch.fx.map_arg(traced.output_node().args[0], made.__getitem__)


def _replace(node: Node, value: Any) -> None:
    """Gives the users of `node`, which take single results, those of `value`."""
    if value is None or isinstance(value, torch.fx.Node):
        node.replace_all_uses_with(value)
        return
    for user in list(node.users):
        _replace(user, value[user.args[1]])
        node.graph.erase_node(user)


def _takes_single(node: Node, value: Any) -> bool:
    """Whether `value`, instead of the result of `node`, gives its users what they take."""
    if isinstance(value, torch.fx.Node):
        return True
    if not isinstance(value, (tuple, list)):
        return not node.users
    return all(user.target is operator.getitem and _takes_single(user, value[user.args[1]]) for user in node.users)


def _expand(module: GraphModule, node: Node, table: Table) -> None:
    inputs = [used for used in node.all_input_nodes if "val" in used.meta]
    others = [used for used in node.all_input_nodes if "val" not in used.meta]  # graphs, and objects that are options
    try:
        traced = _trace(module, node, inputs, table)
    except Exception:  # the compiler names what it cannot compile
        return
    with module.graph.inserting_before(node):
        value = _insert(module, node, traced, inputs)
    if not _takes_single(node, value):
        return
    _replace(node, value)
    module.graph.erase_node(node)
    for other in others:
        if not other.users:
            module.graph.erase_node(other)


def _value(term: Any) -> Any:
    return term.meta["val"] if isinstance(term, Node) else term


def _add_up(module: GraphModule, node: Node) -> None:
    """A sum of sizes as additions of two."""
    terms: Any = node.args[0] if isinstance(node.args[0], (list, tuple)) else node.args
    first, *rest = terms
    with module.graph.inserting_before(node):
        for term in rest:
            value = _value(first) + _value(term)
            first = module.graph.call_function(operator.add, (first, term))
            first.meta = {**node.meta, "val": value}
    node.replace_all_uses_with(first)
    module.graph.erase_node(node)


def is_composed(node: Node) -> bool:
    return isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() in _COMPOSED


def expand(module: GraphModule, table: Table) -> None:
    """Replaces the operators in a graph module whose writes are results, with `table` of decompositions."""
    nodes = list(filter(is_composed, module.graph.nodes))
    for node in nodes:
        _expand(module, node, table)
    sums = [node for node in module.graph.nodes if node.target is torch.sym_sum]
    for node in sums:
        _add_up(module, node)
    if nodes or sums:
        module.graph.lint()
        module.recompile()


def expand_program(program: Any) -> Any:
    """The same of an exported program, which PyTorch does not save with such an operator."""
    if any(map(is_composed, program.graph.nodes)):
        program = program.run_decompositions({})
        with program.graph_module._set_replace_hook(program.graph_signature.get_replace_hook()):  # its outputs have names
            expand(program.graph_module, {})
    return program
