"""Factors of matrices, systems of equations, inverses, determinants: several sizes, batches, complex numbers, failures."""

import pytest
import torch
from torch.export import Dim

from test_ops_pointwise import some


def matrices(*shape, dtype=torch.float32):
    """Of condition numbers that single precision can take."""
    x = torch.complex(some(*shape), some(*shape)) if dtype.is_complex else some(*shape)
    return 0.3 * x.to(dtype) + 2 * torch.eye(shape[-1]).to(dtype)


def solve(a, b):
    lu, pivots = torch.linalg.lu_factor(a)
    return (
        torch.linalg.solve(a, b),
        torch.linalg.solve(a, b.mT, left=False),
        torch.linalg.solve(a, b[..., 0]),
        torch.linalg.inv(a),
        *torch.linalg.inv_ex(a),
        torch.linalg.det(a),
        torch.logdet(a),
        *torch.linalg.slogdet(a),
        lu,
        pivots,
        *torch.linalg.lu(a[..., :-1]),
        *torch.linalg.lu(a[..., :-1, :]),
        *torch.lu_unpack(lu, pivots),
        torch.linalg.lu_solve(lu, pivots, b),
        torch.linalg.lu_solve(lu, pivots, b, adjoint=True),
        torch.linalg.lu_solve(lu, pivots, b.mT, left=False),
        torch.lu_solve(b, lu, pivots),
        torch.linalg.matrix_power(a, 2),
        torch.linalg.matrix_power(a, -2),
    )


def factors(a, b):
    positive = a @ a.mH
    lower = torch.linalg.cholesky(positive)
    return (
        lower,
        torch.linalg.cholesky(positive, upper=True),
        *torch.linalg.cholesky_ex(positive),
        torch.cholesky_solve(b, lower),
        torch.cholesky_inverse(lower),
        torch.linalg.solve_triangular(a, b, upper=True),
        torch.linalg.solve_triangular(a, b.mT, upper=False, left=False),
        torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True),
        *torch.triangular_solve(b, a, transpose=True),
        torch.cholesky_inverse(lower.mH, upper=True),
    )


@pytest.mark.parametrize("function", [solve, factors], ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_matrices(check_calls, function, dtype):
    tolerances = dict(rtol=2e-4, atol=2e-4)
    check_calls(
        function,
        (matrices(4, 4, dtype=dtype), matrices(4, 4, dtype=dtype)[:, :3]),
        (matrices(2, 3, 7, 7, dtype=dtype), matrices(2, 3, 7, 7, dtype=dtype)[..., :2]),
        **tolerances,
    )


def test_large(check_calls):
    check_calls(
        lambda a, b: (torch.linalg.solve(a, b), torch.linalg.cholesky(a @ a.T)),
        (matrices(90, 90) + 8 * torch.eye(90), some(90, 5)),
        rtol=1e-3,
        atol=1e-3,
    )


def test_empty(check_calls):
    check_calls(
        lambda a: (torch.linalg.inv(a).sum(), torch.linalg.det(a), torch.linalg.cholesky(a).sum()),
        matrices(0, 3, 3, dtype=torch.complex64),
        matrices(2, 0, 0),
    )


def test_tensors(check_calls):
    a = some(2, 3, 6)
    check_calls(
        lambda a, b: (torch.linalg.tensorinv(a), torch.linalg.tensorsolve(a, b), torch.linalg.tensorsolve(a.movedim(2, 0), b, dims=(0,))),
        (a, some(2, 3)),
        rtol=1e-3,
        atol=1e-3,
    )


class System(torch.nn.Module):
    def forward(self, a, b):
        return torch.linalg.solve(a, b), torch.linalg.det(a), torch.linalg.cholesky_ex(a @ a.mT)[0]


def test_dynamic_sizes(compile_and_compare):
    shapes = {
        "a": {0: Dim("batch", max=64), 1: Dim("n", min=3, max=64), 2: Dim("n", min=3, max=64)},
        "b": {0: Dim("batch", max=64), 1: Dim("n", min=3, max=64)},
    }
    compile_and_compare(
        System(),
        (matrices(3, 5, 5), some(3, 5, 2)),
        dynamic_shapes=shapes,
        rtol=2e-4,
        atol=2e-4,
        more_inputs=[(matrices(2, 9, 9), some(2, 9, 2)), (matrices(5, 4, 4), some(5, 4, 2))],
    )


def test_failures(compile_model):
    """A system without a solution fails the run; the forms that give a number say where."""
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])

    class Checked(torch.nn.Module):
        def forward(self, a):
            return torch.linalg.inv(a)

    class Unchecked(torch.nn.Module):
        def forward(self, a):
            return torch.linalg.inv_ex(a).info, torch.linalg.cholesky_ex(-a).info, torch.linalg.lu_factor_ex(a).info, torch.linalg.det(a)

    compiled = compile_model(Checked(), (torch.eye(2),))
    with pytest.raises(Exception, match="a matrix is singular"):
        compiled.model.run([singular])
    compiled.decompose()
    assert any("with_effects" in str(node.target) for node in compiled.program.graph.nodes)
    compiled.check((matrices(2, 2),), 1e-5, 1e-5)
    with pytest.raises(Exception, match="linalg.inv: a matrix has no such factors"):
        compiled.model.run([singular])
    actual = compile_model(Unchecked(), (torch.eye(2),)).model.run([singular])
    assert [torch.as_tensor(value).item() for value in actual] == [2, 1, 2, 0]


def qr(a):
    q, r = torch.linalg.qr(a)
    packed, tau = torch.geqrf(a)
    tall = a if a.shape[-2] >= a.shape[-1] else a.mH
    reflectors, factors = torch.geqrf(tall)
    square = a @ a.mH
    return (
        q,
        r,
        *torch.linalg.qr(a, mode="complete"),
        *torch.linalg.qr(a, mode="r"),
        packed,
        tau,
        torch.linalg.householder_product(reflectors, factors),
        torch.linalg.householder_product(reflectors, factors[..., :2]),
        torch.ormqr(packed, tau, square),
        torch.ormqr(packed, tau, square, transpose=True),
        torch.ormqr(packed, tau, square, left=False),
        torch.ormqr(packed, tau, square, left=False, transpose=True),
    )


def singular_vectors(a):
    """They are determined but for signs, so they are multiplied."""
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    left, _, right = torch.linalg.svd(a)
    return (u * s.unsqueeze(-2)) @ vh, s, left.mH @ left, right @ right.mH, torch.linalg.svdvals(a), torch.linalg.matrix_norm(a, "nuc")


def singular_values(a):
    return (
        *singular_vectors(a),
        torch.linalg.pinv(a),
        torch.linalg.pinv(a @ a.mH, hermitian=True, rtol=0.1),
        torch.linalg.pinv(a, atol=0.5),
        torch.linalg.matrix_rank(a),
        torch.linalg.matrix_rank(a, atol=1.0),
        torch.linalg.matrix_rank(a @ a.mH, hermitian=True, rtol=0.1),
        torch.linalg.matrix_norm(a, 2),
        torch.linalg.matrix_norm(a, -2, keepdim=True),
        torch.linalg.matrix_norm(a, "nuc"),
        torch.linalg.norm(a, "nuc", dim=(-1, -2)),
    )


def condition(a):
    square = a @ a.mH + torch.eye(a.shape[-2])
    return torch.linalg.cond(square), *(torch.linalg.cond(square, p) for p in (-2, "nuc", "fro", 1, -1, float("inf")))


def hermitian_eigenvalues(a):
    a = a @ a.mH - 0.5 * a - 0.5 * a.mH
    values, vectors = torch.linalg.eigh(a)
    upper_values, upper = torch.linalg.eigh(a.triu() + 3 * a.tril(-1), UPLO="U")
    return (
        values,
        (vectors * values.unsqueeze(-2)) @ vectors.mH,
        vectors.mH @ vectors,
        (upper * upper_values.unsqueeze(-2)) @ upper.mH,
        torch.linalg.eigvalsh(a),
        torch.linalg.eigvalsh(a, UPLO="U"),
    )


def general_eigenvalues(a):
    """In any order, and vectors but for phases where values are complex."""
    values, vectors = torch.linalg.eig(a)
    rebuilt = (vectors * values.unsqueeze(-2)) @ torch.linalg.inv(vectors)
    return rebuilt, torch.linalg.vector_norm(vectors, dim=-2), values.sum(-1), (values * values).sum(-1), torch.linalg.eigvals(a).prod(-1)


def exponentials(a):
    return (
        torch.matrix_exp(a),
        torch.linalg.matrix_exp(20 * a.mH),
        torch.matrix_exp(1e-3 * a),
        torch.matrix_exp(1e-9 * a),
        torch.ops.aten.matrix_exp_backward(a, a @ a),
    )


def ldl(a):
    a = a + a.mT
    adjoint = a + a.mH
    factors, pivots, info = torch.linalg.ldl_factor_ex(a)
    others, swaps = torch.linalg.ldl_factor(adjoint, hermitian=True)
    return (
        factors,
        pivots,
        info,
        others,
        swaps,
        torch.linalg.ldl_solve(factors, pivots, a[..., :2] + 1),
        torch.linalg.ldl_solve(others, swaps, a[..., :2] + 1, hermitian=True),
    )


DECOMPOSED = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def some_of(dtype, *shape):
    return torch.complex(some(*shape).double(), some(*shape).double()).to(dtype) if dtype.is_complex else some(*shape).to(dtype)


@pytest.mark.parametrize("function", [qr, singular_values, condition], ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", DECOMPOSED, ids=str)
def test_decompositions(check_calls, function, dtype):
    tall, deficient = some_of(dtype, 7, 4), some_of(dtype, 2, 1, 6, 3)
    check_calls(
        function,
        tall,
        some_of(dtype, 2, 1, 4, 7),
        some_of(dtype, 3, 3),
        some_of(dtype, 2, 2, 9, 6).mT,
        deficient @ some_of(dtype, 3, 6) if function is not qr else deficient,
        rtol=2e-3,
        atol=2e-4,
    )


@pytest.mark.parametrize("dtype", DECOMPOSED, ids=str)
def test_hermitian_eigenvalues(check_calls, dtype):
    check_calls(
        hermitian_eigenvalues,
        some_of(dtype, 6, 6),
        some_of(dtype, 2, 3, 4, 4).mT,
        some_of(dtype, 1, 1),
        torch.eye(5, dtype=dtype),
        some_of(dtype, 30, 30),
        rtol=1e-3,
        atol=1e-3,
    )


@pytest.mark.parametrize("dtype", DECOMPOSED, ids=str)
def test_general_matrices(check_calls, dtype):
    square, batch = some_of(dtype, 6, 6), some_of(dtype, 2, 3, 4, 4).mT
    cases = square, batch, some_of(dtype, 1, 1), some_of(dtype, 40, 40) / 6, some_of(dtype, 3, 7, 7)
    check_calls(general_eigenvalues, *cases, torch.diag(torch.arange(1, 5)).to(dtype), rtol=1e-3, atol=1e-3)
    check_calls(exponentials, *(0.2 * case for case in cases), torch.zeros(2, 3, 3, dtype=dtype), rtol=1e-3, atol=1e-4)
    check_calls(ldl, *(case + 2 * torch.diag(torch.arange(case.shape[-1]) % 2) for case in cases), rtol=2e-3, atol=2e-3)


def test_exponentials_of_half_precision(compile_model):
    """Eager mode's own results in these dtypes are meaningless."""

    class Exponential(torch.nn.Module):
        def forward(self, a):
            return torch.matrix_exp(a)

    for dtype in (torch.float16, torch.bfloat16):
        a = some(2, 3, 3).to(dtype)
        (got,) = compile_model(Exponential(), (a,)).model.run([a])
        torch.testing.assert_close(torch.as_tensor(got), torch.matrix_exp(a.float()).to(dtype), rtol=1e-2, atol=1e-2)


def test_decompositions_of_empty_matrices(check_calls):
    def function(a):
        results = (
            *torch.linalg.qr(a, mode="complete"),
            *torch.linalg.svd(a),
            torch.linalg.svdvals(a),
            torch.linalg.pinv(a),
            torch.linalg.matrix_rank(a),
            torch.linalg.matrix_norm(a, "nuc"),
            *torch.linalg.eigh(a @ a.mT),
            torch.linalg.cond(a),
            *torch.linalg.eig(a @ a.mT),
            torch.matrix_exp(a @ a.mT),
            *torch.linalg.ldl_factor_ex(a @ a.mT),
        )
        return [x.sum() for x in results]

    check_calls(function, torch.zeros(0, 3), torch.zeros(2, 3, 0), torch.zeros(0, 2, 2), torch.zeros(2, 0, 0, dtype=torch.float64))


class Decomposition(torch.nn.Module):
    def forward(self, a):
        return (
            *torch.linalg.qr(a),
            *torch.linalg.qr(a, mode="complete"),
            *singular_vectors(a),
            *hermitian_eigenvalues(a @ a.mT),
            *general_eigenvalues(a @ a.mT + a[..., :1]),
            torch.matrix_exp(0.1 * a @ a.mT),
            *ldl(a @ a.mT + 3 * torch.eye(a.shape[-2])),
        )


def test_decompositions_of_dynamic_sizes(compile_and_compare):  # export takes geqrf at given sizes only
    shapes = {"a": {0: Dim("batch", max=64), 1: Dim("m", min=3, max=64), 2: Dim("n", min=3, max=64)}}
    compile_and_compare(
        Decomposition(),
        (some(3, 5, 7),),
        dynamic_shapes=shapes,
        rtol=2e-3,
        atol=2e-3,
        more_inputs=[(some(2, 9, 4),), (some(5, 3, 3),), (some(2, 17, 30),)],
    )


def test_decompositions_with_threads(compile_model):
    """The same bits on any number of threads."""

    class Vectors(torch.nn.Module):
        def forward(self, a):
            return (
                *torch.linalg.svd(a),
                *torch.linalg.qr(a),
                *torch.linalg.eigh(a @ a.mT),
                *torch.linalg.eig(a @ a.mT),
                torch.matrix_exp(a @ a.mT),
                torch.matrix_exp(a[:7].flatten(0, 1)[:, :1] @ a[:7].flatten(0, 1)[:, :1].mT / 9),
            )

    a = some(40, 9, 6)
    one, four = (compile_model(Vectors(), (a,), threads=threads).model.run([a]) for threads in (1, 4))
    assert all(torch.equal(torch.as_tensor(x), torch.as_tensor(y)) for x, y in zip(one, four))


@pytest.mark.parametrize(
    "function",
    [torch.linalg.svdvals, torch.linalg.eigvalsh, lambda a: torch.linalg.eigvals(a).real],
    ids=lambda function: function.__name__,
)
def test_decompositions_that_fail(compile_model, function):
    class Values(torch.nn.Module):
        def forward(self, a):
            return function(a)

    model = compile_model(Values(), (torch.eye(3),)).model
    for value in (float("nan"), float("inf")):
        with pytest.raises(Exception, match="linalg_.*: the algorithm failed to converge"):
            model.run([torch.full((3, 3), value)])
    assert torch.as_tensor(model.run([torch.eye(3)])[0]).tolist() == [1, 1, 1]


GRADIENTS = {
    "qr": lambda a: sum(x.square().sum() * (i + 1) + x.sum() for i, x in enumerate(torch.linalg.qr(a @ a.mT + torch.eye(4)))),
    "svd": lambda a: (lambda u, s, vh: ((u * s.sin()) @ vh).sum())(*torch.linalg.svd(a, full_matrices=False)),
    "svdvals": lambda a: torch.linalg.svdvals(a).square().sum() + torch.linalg.matrix_norm(a, "nuc"),
    "eigh": lambda a: (lambda values, vectors: ((vectors * values.exp()) @ vectors.mT).sum())(*torch.linalg.eigh(a + a.mT)),
    "eig": lambda a: (lambda values, vectors: values.abs().sum() + vectors.abs().sum())(*torch.linalg.eig(a)),
    "matrix_exp": lambda a: torch.matrix_exp(a).sin().sum(),
    "pinv": lambda a: torch.linalg.pinv(a).sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(compile_and_compare, name):
    a = some(4, 4).double()
    program = torch.fx.experimental.proxy_tensor.make_fx(torch.func.grad(GRADIENTS[name]))(a)
    compile_and_compare(program, (a,), rtol=1e-6, atol=1e-6)
