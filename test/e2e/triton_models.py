"""Triton kernels that the tests compile, and programs that launch them."""

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def add_kernel(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + scale * tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(x, out, stride, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    inside = i < columns
    value = tl.load(x + row * stride + i, mask=inside, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * columns + i, value / tl.sum(value, axis=0), mask=inside)


CONFIGS = [triton.Config({"BM": 64, "BN": 32, "BK": 32}, num_warps=4), triton.Config({"BM": 32, "BN": 16, "BK": 32}, num_warps=2)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def mm_kernel(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for begin in range(0, K, BK):
        k = begin + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * sam + k[None, :] * sak, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * sbk + n[None, :] * sbn, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total += tl.dot(left, right)
    tl.store(c + m[:, None] * scm + n[None, :] * scn, total, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def bump_kernel(x, n: tl.int64, by, flag, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(x + i, tl.where(flag, value + by, value), mask=i < n)


@triton_op("kiln_triton::add", mutates_args={})
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = out.numel()
    wrap_triton(add_kernel)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 0.5, BLOCK=256)
    return out


@triton_op("kiln_triton::softmax", mutates_args={})
def softmax(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    wrap_triton(softmax_kernel)[(rows,)](x, out, x.stride(0), columns, BLOCK=64)
    return out


@triton_op("kiln_triton::mm", mutates_args={})
def mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=torch.float32, device=a.device)
    grid = lambda meta: (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))
    wrap_triton(mm_kernel)[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride())
    return c


@triton_op("kiln_triton::bump", mutates_args={"x"})
def bump(x: torch.Tensor, by: float) -> None:
    n = x.numel()
    wrap_triton(bump_kernel)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n, by, True, BLOCK=128)
