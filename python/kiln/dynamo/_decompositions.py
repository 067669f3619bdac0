"""What is taken apart before a graph is compiled: operators that Kiln has no lowering for and PyTorch, or this file, composes of others."""

import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._compile import find_compiler
from . import _cache

_aten = torch.ops.aten


def _flash_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """The gradients of attention, in float at least. The weights are computed once more from queries and keys, so that the
    forward graph need not keep the logarithms of their sums, which a fused kernel does not give."""
    if dropout_p:
        return NotImplemented
    dtype = torch.promote_types(query.dtype, torch.float32)
    q, k, v, grad, result = (tensor.to(dtype) for tensor in (query, key, value, grad_out, out))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if attn_mask is not None:
        scores = scores + attn_mask.to(dtype)
    if is_causal:
        rows = torch.arange(query.shape[-2], device=query.device).unsqueeze(-1)
        columns = torch.arange(key.shape[-2], device=query.device)
        scores = torch.where(columns <= rows, scores, float("-inf"))
    weights = _aten._safe_softmax.default(scores, -1)  # a row without any key has no weights
    grad_value = torch.matmul(weights.transpose(-1, -2), grad)
    grad_weights = torch.matmul(grad, v.transpose(-1, -2))
    grad_scores = weights * (grad_weights - (grad * result).sum(-1, keepdim=True)) * scale
    grad_query = torch.matmul(grad_scores, k)
    grad_key = torch.matmul(grad_scores.transpose(-1, -2), q)
    return grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype)


def _trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: list[int], expand2: list[int], expand3: list[int], sumdim: list[int], unroll_dim: int = 1
) -> Tensor:
    """A product of three tensors, each with dims of size 1 put in, summed over dims of the result."""
    factors = []
    for factor, places in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for place in sorted(places):
            factor = factor.unsqueeze(place)
        factors.append(factor)
    product = factors[0] * factors[1] * factors[2]
    return product.sum(sumdim) if sumdim else product


def _lowered() -> set[str]:
    """The operators that the compiler has a lowering for; asked once for each compiler."""

    def ask(path: str) -> None:
        listed = subprocess.run([find_compiler(), "--list-ops"], capture_output=True, text=True, check=True).stdout
        pathlib.Path(path).write_text(listed)

    text = pathlib.Path(_cache.fetch(_cache.make_key("--list-ops"), ".txt", ask)).read_text()
    return {line.split()[0] for line in text.splitlines() if line.endswith(" native")}


def make_table() -> dict[Any, Callable[..., Any]]:
    """{operator: decomposition}"""
    lowered = _lowered()
    table = {op: function for op, function in torch._decomp.decomposition_table.items() if str(op) not in lowered}
    own: dict[Any, Callable[..., Any]] = {
        _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _flash_attention_backward,
        _aten._trilinear.default: _trilinear,
        torch.ops.prims.fma.default: lambda x, y, z: x * y + z,
        _aten._neg_view.default: torch.neg,  # no graph that is compiled writes through a view
    }
    table.update((op, function) for op, function in own.items() if str(op) not in lowered)
    return table
