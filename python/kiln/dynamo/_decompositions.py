"""What is taken apart before a graph is compiled: operators that Kiln has no lowering for and PyTorch, or this file, composes of others."""

import math
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


def _weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The gradients of v * (g / norm(v)), in the norms' dtype, which is float at least."""
    dims = [other for other in range(v.dim()) if other != dim]
    wide, direction, norms = grad.to(norms.dtype), v.to(norms.dtype), norms.reshape(g.shape)
    along = (wide * direction).sum(dims, keepdim=True)
    grad_v = g.to(norms.dtype) / norms * (wide - direction * along / (norms * norms))
    return grad_v.to(v.dtype), (along / norms).to(g.dtype)


def _resize_as(x: Tensor, other: Tensor, *, memory_format: Any = None) -> Tensor:
    """A resize to a format that is known: the compiler does not know how `other` lies in memory."""
    if memory_format == torch.preserve_format:
        memory_format = torch._prims_common.suggest_memory_format(other)
    return _aten.resize.default(x, list(other.shape), memory_format=memory_format)


def _fill(dtype: torch.dtype) -> float | int | bool:
    """What PyTorch fills memory with that nothing is written to, where algorithms are to be deterministic."""
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return True if dtype == torch.bool else torch.iinfo(dtype).max


def _empty(size: list[int], *, dtype: torch.dtype | None = None, memory_format: Any = None, **options: Any) -> Tensor:
    dtype = dtype or torch.get_default_dtype()
    made = torch.full(size, _fill(dtype), dtype=dtype, **options)
    return made if memory_format is None else made.contiguous(memory_format=memory_format)


def _empty_strided(size: list[int], stride: list[int], *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    count = 0 if 0 in size else 1 + sum((length - 1) * step for length, step in zip(size, stride))
    return _empty([count], dtype=dtype, **options).as_strided(size, stride)


def _resize(x: Tensor, size: list[int], *, memory_format: Any = None) -> Tensor:
    count, wanted = x.numel(), math.prod(size)
    if wanted <= count or not torch._prims_common.is_non_overlapping_and_dense_or_false(x):
        return NotImplemented
    whole = torch.cat([x.as_strided((count,), (1,)), _empty([wanted - count], dtype=x.dtype, device=x.device)])
    strides = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format).stride()
    return whole.as_strided(size, strides)


_FILLED: dict[Any, Callable[..., Any]] = {
    _aten.empty.memory_format: _empty,
    _aten.empty_strided.default: _empty_strided,
    _aten.empty_like.default: lambda x, *, dtype=None, **options: torch.full_like(x, _fill(dtype or x.dtype), dtype=dtype, **options),
    _aten.new_empty.default: lambda x, size, *, dtype=None, **options: x.new_full(size, _fill(dtype or x.dtype), dtype=dtype, **options),
    _aten.resize.default: _resize,
}


def lowered() -> set[str]:
    """The operators that the compiler has a lowering for; asked once for each compiler."""

    def ask(path: str) -> None:
        listed = subprocess.run([find_compiler(), "--list-ops"], capture_output=True, text=True, check=True).stdout
        pathlib.Path(path).write_text(listed)

    text = pathlib.Path(_cache.fetch(_cache.make_key("--list-ops"), ".txt", ask)).read_text()
    return {line.split()[0] for line in text.splitlines() if line.endswith(" native")}


def make_table() -> dict[Any, Callable[..., Any]]:
    """{operator: decomposition}"""
    known = lowered()
    table = {op: function for op, function in torch._decomp.decomposition_table.items() if str(op) not in known}
    own: dict[Any, Callable[..., Any]] = {
        _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _flash_attention_backward,
        _aten._weight_norm_interface_backward.default: _weight_norm_backward,
        torch.ops.prims.fma.default: lambda x, y, z: x * y + z,
        _aten._neg_view.default: torch.neg,  # no graph that is compiled writes through a view
    }
    table.update((op, function) for op, function in own.items() if str(op) not in known)
    table[_aten.resize_as.default] = _resize_as
    if torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory:
        table.update(_FILLED)
    return table
