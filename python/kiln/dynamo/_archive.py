"""Writes a graph of aot_autograd as an exported program (`.pt2`), without exporting it a second time."""

import dataclasses
import hashlib
import json
from collections.abc import Container
from typing import Any

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import (
    EnumEncoder,
    GraphModuleSerializer,
    _dataclass_to_dict,
    serialize_range_constraints,
    serialize_tensor_meta,
)
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import graph_signature as signature
from torch.export.pt2_archive._package import PT2ArchiveWriter

from .. import _abi
from ._split import Refused


def is_lazy(value: Any) -> bool:
    """Whether a tensor's memory is not what it stands for, until that is resolved."""
    return isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg())


def _check_input(node: torch.fx.Node) -> None:
    """Refuses what the C ABI has no tensor for."""
    name, value = node.name, node.meta["val"]
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise Refused(f'input "{name}" has layout {value.layout}')
        if str(value.dtype).removeprefix("torch.") not in _abi.DTYPES:
            raise Refused(f'input "{name}" has dtype {value.dtype}')
        if value.device.type not in ("cpu", "cuda"):
            raise Refused(f'input "{name}" is on {value.device}')
        if is_lazy(value) and any(user.target is torch.ops.aten.copy_.default and user.args[0] is node for user in node.users):
            raise Refused(f'input "{name}" is written through a view that conjugates or negates')
    elif not isinstance(value, torch.SymInt):
        raise Refused(f'input "{name}" is a {type(value).__name__}')


def _lift_constants(module: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """Makes inputs of the tensors that the graph holds; returns them by name."""
    graph = module.graph
    constants: dict[str, torch.Tensor] = {}
    for node in graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target)
        if not isinstance(value, torch.Tensor):
            continue  # a branch or the body of a loop
        with graph.inserting_before(next(iter(graph.nodes))):
            placeholder = graph.placeholder(f"constant_{len(constants)}")
        placeholder.meta = {"val": value}
        node.replace_all_uses_with(placeholder)
        graph.erase_node(node)
        constants[placeholder.name] = value
    return constants


def _argument(node: torch.fx.Node) -> Any:
    if isinstance(node.meta["val"], torch.Tensor):
        return signature.TensorArgument(name=node.name)
    kinds = {torch.SymInt: signature.SymIntArgument, torch.SymFloat: signature.SymFloatArgument, torch.SymBool: signature.SymBoolArgument}
    kind = kinds.get(type(node.meta["val"]))
    if kind is None:
        raise Refused(f'output "{node.name}" is a {type(node.meta["val"]).__name__}')
    return kind(name=node.name)


def _make_signature(graph: torch.fx.Graph, constants: Container[str], weights: Container[str]) -> signature.ExportGraphSignature:
    inputs = []
    for node in graph.find_nodes(op="placeholder"):
        _check_input(node)
        kind = signature.InputKind.USER_INPUT
        if node.name in constants:
            kind = signature.InputKind.CONSTANT_TENSOR
        elif node.name in weights:
            kind = signature.InputKind.PARAMETER
        inputs.append(signature.InputSpec(kind, _argument(node), None if kind is signature.InputKind.USER_INPUT else node.name))
    outputs = [signature.OutputSpec(signature.OutputKind.USER_OUTPUT, _argument(node), None) for node in graph.output_node().args[0]]
    return signature.ExportGraphSignature(inputs, outputs)


def _find_ranges(graph: torch.fx.Graph) -> dict[Any, Any]:
    """The range of every symbol in the graph."""
    ranges: dict[Any, Any] = {}
    for node in graph.nodes:
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            parts = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) and value.layout == torch.strided else [value]
            for part in parts:
                if isinstance(part, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                    known = part.node.shape_env.var_to_range
                    ranges.update((symbol, known[symbol]) for symbol in part.node.expr.free_symbols if symbol in known)
    return dict(sorted(ranges.items(), key=lambda item: str(item[0])))


def _drop_hints(value: Any) -> None:
    """Removes the sizes of the example that was traced: the program is for all sizes. Before a program is JSON, an expression
    is a structure of its own, so that nothing else is taken for one."""
    if isinstance(value, schema.SymExpr):
        value.hint = None
    elif isinstance(value, schema._Union):
        _drop_hints(value.value)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _drop_hints(getattr(value, field.name))
    elif isinstance(value, dict):
        for entry in value.values():
            _drop_hints(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            _drop_hints(entry)


def _make_tuples(module: torch.fx.GraphModule) -> None:
    """The serializer knows several results of a higher-order operator as a tuple; some tracers of PyTorch give lists."""
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            if isinstance(node.target, torch._ops.HigherOrderOperator) and isinstance(node.meta.get("val"), list):
                node.meta["val"] = tuple(node.meta["val"])


def _serialize(module: torch.fx.GraphModule, constants: Container[str], weights: Container[str]) -> bytes:
    _make_tuples(module)
    serializer = GraphModuleSerializer(_make_signature(module.graph, constants, weights), [])
    for node in module.graph.nodes:
        getattr(serializer, f"handle_{node.op}")(node)
    state = serializer.graph_state
    graph = schema.Graph(
        inputs=state.inputs,
        outputs=state.outputs,
        nodes=state.nodes,
        tensor_values=state.tensor_values,
        sym_int_values=state.sym_int_values,
        sym_float_values=state.sym_float_values,
        sym_bool_values=state.sym_bool_values,
        custom_obj_values=state.custom_obj_values,
        is_single_tensor_return=False,
    )
    program = schema.ExportedProgram(
        graph_module=schema.GraphModule(
            graph=graph, signature=serializer.serialize_signature(serializer.graph_signature), module_call_graph=[]
        ),
        opset_version={"aten": torch._C._get_max_operator_version()},
        range_constraints=serialize_range_constraints(_find_ranges(module.graph)),
        schema_version=schema.SchemaVersion(*schema.SCHEMA_VERSION),
        torch_version=torch.__version__,
    )
    _drop_hints(program)
    return json.dumps(_dataclass_to_dict(program), cls=EnumEncoder, allow_nan=False).encode()


def _bytes(tensor: torch.Tensor) -> bytes:
    data: bytes = tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
    return data


class Archive:
    """An exported program in memory, without values of the inputs that are `weights`. `digest` tells it from every other one."""

    def __init__(self, module: torch.fx.GraphModule, weights: Container[str] = ()) -> None:
        tensors = _lift_constants(module)
        self.program = _serialize(module, tensors, weights)
        with unset_fake_temporarily():
            config, self.constants = {}, []
            for position, (name, tensor) in enumerate(tensors.items()):
                tensor = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg().contiguous()
                config[name] = {
                    "path_name": f"tensor_{position}",
                    "is_param": False,
                    "use_pickle": False,
                    "tensor_meta": _dataclass_to_dict(serialize_tensor_meta(tensor)),
                }
                self.constants.append(_bytes(tensor))
        self.config = json.dumps({"config": config}, cls=EnumEncoder).encode()
        digest = hashlib.sha256()
        for part in (self.program, self.config, *self.constants):
            digest.update(b"%d:" % len(part))
            digest.update(part)
        self.digest = digest.hexdigest()

    def write(self, path: str) -> None:
        with PT2ArchiveWriter(path) as writer:
            writer.write_bytes("models/model.json", self.program)
            writer.write_bytes("data/weights/model_weights_config.json", b'{"config": {}}')
            writer.write_bytes("data/constants/model_constants_config.json", self.config)
            for position, data in enumerate(self.constants):
                writer.write_bytes(f"data/constants/tensor_{position}", data)
