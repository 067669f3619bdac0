"""The entries of PyTorch's test suites, each run with one backend of torch.compile and compared with eager mode.

An entry comes from one of PyTorch's databases (of modules, higher-order operators, custom operators), or is a test of a file of
PyTorch's own tests, whose use of Inductor then means the backend."""

import ast
import contextlib
import copy
import importlib
import inspect
import itertools
import os
import pathlib
import re
import sys
import unittest

import torch
from torch.utils import _pytree as pytree

COMPILED, EAGER, WRONG, ERROR, NOT_RUN = "compiled", "eager", "wrong", "error", "not run"
PASSED = (COMPILED, EAGER)
DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)
# A test that mentions one of these looks at the code that Inductor wrote, at its counters, or at numbers that its options draw.
_INSPECTS = re.compile(
    r"get_\w*code|metrics|FileCheck|counters\[|GeneratedKernel|indirect_indexing|config\.patch|codecache|aoti|torch\._inductor|fx_passes|_for_testing"
)


# ===-- The databases -----------------------------------------------------------------------------===#


class _Case:
    """A function or module with the arguments of one call. `make` gives them anew, with the same values."""

    def __init__(self, make, is_differentiable=True):
        self.make, self.is_differentiable = make, is_differentiable


def _copies(function, args, kwargs):
    """Gives the call again and again: with tensors that share nothing, and a module of its own."""

    def copied(leaf):
        return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    def make():
        called = copy.deepcopy(function) if isinstance(function, torch.nn.Module) else function
        return called, *pytree.tree_map(copied, (list(args), dict(kwargs)))

    return make


def _modules():
    from torch.testing._internal.common_modules import module_db

    def cases(info, training):
        drawn = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for one in drawn:
            made, called = one.constructor_input, one.forward_input
            torch.manual_seed(1)
            module = info.module_cls(*made.args, **made.kwargs).train(training)
            if called is not None:
                if info.is_lazy:
                    with torch.no_grad():
                        module(*called.args, **called.kwargs)
                yield _Case(_copies(module, called.args, called.kwargs))

    for info, training in itertools.product(module_db, (True, False)):
        yield f"{info.name}.{'train' if training else 'eval'}", lambda info=info, training=training: cases(info, training), False


def _operators(database):
    def cases(info, dtype):
        grad = dtype.is_floating_point and info.supports_autograd and dtype in info.supported_dtypes("cpu")
        for sample in info.sample_inputs("cpu", dtype, requires_grad=grad):
            yield _Case(_copies(info.op, (sample.input, *sample.args), sample.kwargs), grad)

    for info in database:
        # Entries that PyTorch itself tests on GPUs alone have no dtype here, and run if eager mode can.
        for dtype in [dtype for dtype in DTYPES if dtype in info.supported_dtypes("cpu")] or [torch.float32]:
            for dynamic in (False, True):
                name = f"{info.full_name}.{str(dtype).removeprefix('torch.')}{'.dynamic' if dynamic else ''}"
                yield name, lambda info=info, dtype=dtype: cases(info, dtype), dynamic


def databases(suite):
    if suite == "module_db":
        return _modules()
    from torch.testing._internal import custom_op_db, hop_db

    return _operators({"hop_db": hop_db.hop_db, "custom_op_db": custom_op_db.custom_op_db}[suite])


def _results(value):
    """What can be compared of a call's result."""
    return [leaf for leaf in pytree.tree_leaves(value) if leaf is not None]


def _run(case, compile_function):
    """Results, gradients, and what the inputs and the module are afterwards."""
    function, args, kwargs = case.make()
    torch.manual_seed(0)
    results = _results(compile_function(function)(*args, **kwargs))
    roots = [leaf for leaf in results if isinstance(leaf, torch.Tensor) and leaf.requires_grad] if case.is_differentiable else []
    if roots:
        torch.autograd.backward(roots, [torch.linspace(0.5, 1.5, root.numel(), dtype=root.dtype).view(root.shape) for root in roots])
    after = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if isinstance(function, torch.nn.Module):
        after += [*function.parameters(), *function.buffers()]
    return results, [leaf.grad for leaf in after], [leaf.detach() for leaf in after]


def _describe(value):
    return (value.dtype, value.shape, value.layout) if isinstance(value, torch.Tensor) else type(value)


def _check_case(case, compile_function):
    """None, or what differs."""
    expected, again = _run(case, lambda f: f), _run(case, _reseeded)
    actual = _run(case, compile_function)
    for what, a, e, other in zip(("results", "gradients", "inputs"), actual, expected, again):
        if [_describe(value) for value in a] != [_describe(value) for value in e]:
            return f"{what}: {[_describe(value) for value in a]} instead of {[_describe(value) for value in e]}"[:400]
        for value, right, drawn in zip(a, e, other):
            try:
                torch.testing.assert_close(drawn, right, rtol=0, atol=0, equal_nan=True)
            except AssertionError:
                continue  # random numbers, and each backend draws its own
            try:
                torch.testing.assert_close(value, right, equal_nan=True, **_tolerance(right))
            except AssertionError as error:
                return f"{what}: {error}"
    return None


def _reseeded(function):
    def call(*args, **kwargs):
        torch.manual_seed(1234)
        return function(*args, **kwargs)

    return call


def _tolerance(value):
    """PyTorch's own, but for sums in other orders, and for half precision in fused kernels, which round less often than eager mode."""
    tolerances = {torch.float32: (1e-4, 1e-5), torch.complex64: (1e-4, 1e-5), torch.float16: (1e-2, 5e-3)}
    known = tolerances.get(value.dtype) if isinstance(value, torch.Tensor) else None
    return {"rtol": known[0], "atol": known[1]} if known else {}


def run_cases(cases, dynamic, compile_function, samples):
    """(state, detail)"""
    # Scans and maps need these with Inductor; custom operators with sizes that depend on data are part of graphs then.
    torch._dynamo.config.capture_scalar_outputs = torch._dynamo.config.capture_dynamic_output_shape_ops = True
    checked, problem = [], "no samples"
    try:
        for case in itertools.islice(cases(), samples):
            _run(case, lambda f: f)
            checked.append(case)
    except Exception as error:  # of PyTorch itself, in the sample or in eager mode
        problem = f"eager mode: {error}"
    for case in checked:
        torch._dynamo.reset()
        found = _check_case(case, lambda f: compile_function(f, dynamic))
        if found:
            return WRONG, found
    return (COMPILED, "") if checked else (NOT_RUN, problem)


# ===-- Files of tests ----------------------------------------------------------------------------===#


_running = []  # the test that runs


def _missing(module, name):
    def skip(*_, **__):
        if _running:
            raise unittest.SkipTest(f"this PyTorch has no {module}.{name}")
        return False  # while the file is read: nothing that a test may ask for is there

    return skip


def _add_missing_names(path):
    """A file of another version of PyTorch may import names that this one lacks: tests that call them are skipped."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        other = path.parent.parent / f"{node.module.replace('.', '/')}.py"
        if other.exists():
            _add_missing_names(other)
        elif node.module.startswith("torch"):
            try:
                module = importlib.import_module(node.module)
            except ImportError:
                continue
            for name in (alias.name for alias in node.names):
                if not hasattr(module, name):
                    with contextlib.suppress(ImportError):
                        importlib.import_module(f"{node.module}.{name}")
                        continue
                    setattr(module, name, _missing(node.module, name))


def load_tests(path):
    """{name: (class, method)} of a file of tests."""
    path = pathlib.Path(path).resolve()
    os.environ["PYTORCH_TEST_DIR"] = str(path.parent.parent)
    sys.path[:0] = [str(path.parent.parent), str(path.parent)]
    sys.argv = [str(path)]
    allow_rounding()
    _add_missing_names(path)
    module = importlib.import_module(f"{path.parent.name}.{path.stem}" if (path.parent / "__init__.py").exists() else path.stem)
    tests = {}
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == module.__name__:
            for method in unittest.TestLoader().getTestCaseNames(value):
                tests[f"{name}.{method}"] = (value, method)
    return tests


def allow_rounding():
    """Lets assertEqual of tests, which PyTorch wrote for results with the same roundings as eager mode's, accept differences that
    are small for the range of a tensor. All backends are judged so."""
    from torch.testing._internal.common_utils import TestCase

    strict = TestCase.assertEqual

    def is_near(value, right):
        if not isinstance(right, torch.Tensor) or not isinstance(value, torch.Tensor) or not right.is_floating_point():
            return False
        if value.dtype != right.dtype or value.shape != right.shape or not bool((value.isfinite() == right.isfinite()).all()):
            return False
        finite = right.isfinite()
        unit = {torch.float64: 1e-10, torch.float32: 1e-5}.get(right.dtype, 4 * torch.finfo(right.dtype).eps)
        a, e = value[finite].double(), right[finite].double()
        rest = torch.equal(value[~finite].nan_to_num(), right[~finite].nan_to_num())
        return rest and bool(((a - e).abs() <= unit * e.abs().max()).all()) if e.numel() else rest

    def compare(self, x, y, *rest, **options):
        try:
            strict(self, x, y, *rest, **options)
        except AssertionError:
            a, e = pytree.tree_leaves(x), pytree.tree_leaves(y)
            if len(a) != len(e) or not a:
                raise
            for value, right in zip(a, e):
                if not is_near(value, right):
                    strict(self, value, right, *rest, **options)

    TestCase.assertEqual = compare


def use_backend(compile_fx):
    """Makes all of what says "inductor" mean another backend, in the files of tests too."""
    from torch._dynamo.backends import registry
    from torch._inductor import compile_fx as inductor

    def compile_other(graph, inputs, *_, **__):
        return compile_fx(graph, inputs)

    compile_other._tags = ()
    registry.lookup_backend("inductor")  # registered when it is first looked up
    registry._COMPILER_FNS["inductor"] = compile_other
    original = inductor.compile_fx
    for module in list(sys.modules.values()):
        if vars(module).get("compile_fx") is original:
            module.compile_fx = compile_other


def _source(function):
    """The text of a test, which may have been copied from another class: it is a default argument of the copy then."""
    function = inspect.unwrap(function)
    copied = [value for value in function.__defaults__ or () if inspect.isfunction(value)]
    return inspect.getsource(function) + "".join(map(_source, copied))


def inspects(test):
    """Whether a test looks at more than results."""
    try:
        return bool(_INSPECTS.search(_source(getattr(*test))))
    except (OSError, TypeError):
        return False


def run_test(test):
    """(state, detail)"""
    result = unittest.TestResult()
    _running.append(test)
    torch.manual_seed(0)
    test[0](test[1]).run(result)
    if result.skipped:
        return NOT_RUN, result.skipped[0][1]
    if result.expectedFailures:
        return NOT_RUN, "expected to fail"
    bad = result.failures + result.errors
    if bad:
        text = bad[0][1].strip()
        return (WRONG if result.failures else ERROR), text[-1500:]
    return COMPILED, ""
