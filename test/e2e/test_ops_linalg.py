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
    return (torch.linalg.solve(a, b), torch.linalg.solve(a, b.mT, left=False), torch.linalg.solve(a, b[..., 0]), torch.linalg.inv(a), *torch.linalg.inv_ex(a), torch.linalg.det(a), torch.logdet(a),
            *torch.linalg.slogdet(a), lu, pivots, *torch.linalg.lu(a[..., :-1]), *torch.linalg.lu(a[..., :-1, :]), *torch.lu_unpack(lu, pivots),
            torch.linalg.lu_solve(lu, pivots, b), torch.linalg.lu_solve(lu, pivots, b, adjoint=True), torch.linalg.lu_solve(lu, pivots, b.mT, left=False), torch.lu_solve(b, lu, pivots),
            torch.linalg.matrix_power(a, 2), torch.linalg.matrix_power(a, -2))


def factors(a, b):
    positive = a @ a.mH
    lower = torch.linalg.cholesky(positive)
    return (lower, torch.linalg.cholesky(positive, upper=True), *torch.linalg.cholesky_ex(positive), torch.cholesky_solve(b, lower), torch.cholesky_inverse(lower),
            torch.linalg.solve_triangular(a, b, upper=True), torch.linalg.solve_triangular(a, b.mT, upper=False, left=False),
            torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True), *torch.triangular_solve(b, a, transpose=True), torch.cholesky_inverse(lower.mH, upper=True))


@pytest.mark.parametrize("function", [solve, factors], ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_matrices(check_calls, function, dtype):
    tolerances = dict(rtol=2e-4, atol=2e-4)
    check_calls(function, (matrices(4, 4, dtype=dtype), matrices(4, 4, dtype=dtype)[:, :3]), (matrices(2, 3, 7, 7, dtype=dtype), matrices(2, 3, 7, 7, dtype=dtype)[..., :2]), **tolerances)


def test_large(check_calls):
    check_calls(lambda a, b: (torch.linalg.solve(a, b), torch.linalg.cholesky(a @ a.T)), (matrices(90, 90) + 8 * torch.eye(90), some(90, 5)), rtol=1e-3, atol=1e-3)


def test_empty(check_calls):
    check_calls(lambda a: (torch.linalg.inv(a).sum(), torch.linalg.det(a), torch.linalg.cholesky(a).sum()), matrices(0, 3, 3, dtype=torch.complex64), matrices(2, 0, 0))


def test_tensors(check_calls):
    a = some(2, 3, 6)
    check_calls(lambda a, b: (torch.linalg.tensorinv(a), torch.linalg.tensorsolve(a, b), torch.linalg.tensorsolve(a.movedim(2, 0), b, dims=(0,))),
                (a, some(2, 3)), rtol=1e-3, atol=1e-3)


class System(torch.nn.Module):
    def forward(self, a, b):
        return torch.linalg.solve(a, b), torch.linalg.det(a), torch.linalg.cholesky_ex(a @ a.mT)[0]


def test_dynamic_sizes(compile_and_compare):
    shapes = {"a": {0: Dim("batch", max=64), 1: Dim("n", min=3, max=64), 2: Dim("n", min=3, max=64)}, "b": {0: Dim("batch", max=64), 1: Dim("n", min=3, max=64)}}
    compile_and_compare(System(), (matrices(3, 5, 5), some(3, 5, 2)), dynamic_shapes=shapes, rtol=2e-4, atol=2e-4, more_inputs=[(matrices(2, 9, 9), some(2, 9, 2)), (matrices(5, 4, 4), some(5, 4, 2))])


def test_failures(compile_model):
    """A system without a solution fails the run; the forms that give a number say where."""
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])

    class Checked(torch.nn.Module):
        def forward(self, a):
            return torch.linalg.inv(a)

    class Unchecked(torch.nn.Module):
        def forward(self, a):
            return torch.linalg.inv_ex(a).info, torch.linalg.cholesky_ex(-a).info, torch.linalg.lu_factor_ex(a).info, torch.linalg.det(a)
    model = compile_model(Checked(), (torch.eye(2),)).model
    with pytest.raises(Exception, match="a matrix is singular"):
        model.run([singular])
    actual = compile_model(Unchecked(), (torch.eye(2),)).model.run([singular])
    assert [torch.as_tensor(value).item() for value in actual] == [2, 1, 2, 0]
