"""Every mistake in ops.yaml is an error that says the line and what would be right."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "generator"))

from native_functions import native_functions
from ops_yaml import OpsError, read_ops


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "ops.yaml"
        path.write_text(text)
        return read_ops(path, native_functions(), "ops.yaml")

    return read_text


@pytest.fixture
def errors(read):
    def errors_of(text):
        with pytest.raises(OpsError) as error:
            read(text)
        return str(error.value)

    return errors_of


def names(functions):
    return [str(function.func.name) for function in functions]


def test_valid(read):
    ops = read("""\
backend: PrivateUse1
supported:
- add.Tensor
- add_.Tensor   # a form that is made from the one above
- add.out
- relu
autograd: [dropout, dropout_]
""")
    assert (ops.backend, names(ops.supported), names(ops.autograd)) == (
        "PrivateUse1",
        ["add.Tensor", "add_.Tensor", "add.out", "relu"],
        ["dropout", "dropout_"],
    )


def test_lists_may_be_left_out(read):
    ops = read("backend: XLA\n")
    assert (ops.backend, ops.supported, ops.autograd) == ("XLA", (), ())
    assert read("backend: XLA\nsupported: []\nautograd: []\n") == ops


def test_empty_file(errors):
    assert errors("") == "ops.yaml:1: expected a mapping with the keys backend, supported, autograd, got nothing"


def test_not_yaml(errors):
    assert errors("backend: PrivateUse1\nsupported: [add.Tensor\n") == "ops.yaml:3: not YAML: expected ',' or ']', but got '<stream end>'"


@pytest.mark.parametrize("text, got", [("- add.Tensor\n", "a list"), ("add.Tensor\n", "'add.Tensor'")])
def test_root_is_not_a_mapping(errors, text, got):
    assert errors(text) == f"ops.yaml:1: expected a mapping with the keys backend, supported, autograd, got {got}"


def test_unknown_key(errors):
    assert errors("backend: PrivateUse1\nsuported:\n- add.Tensor\n") == "ops.yaml:2: unknown key 'suported'; did you mean 'supported'?"
    assert errors("backend: PrivateUse1\nzzz: 1\n") == "ops.yaml:2: unknown key 'zzz'; the keys are backend, supported, autograd"


def test_key_given_twice(errors):
    assert errors("backend: PrivateUse1\nsupported: []\nsupported: []\n") == "ops.yaml:3: key 'supported' is given twice"


def test_backend_is_missing(errors):
    assert errors("supported:\n- add.Tensor\n") == "ops.yaml:1: the key 'backend' is missing"


@pytest.mark.parametrize(
    "value, got", [("", "nothing"), ("3", "3 (int)"), ("true", "true (bool)"), ("[PrivateUse1]", "a list"), ("{a: b}", "a mapping")]
)
def test_backend_of_the_wrong_type(errors, value, got):
    assert errors(f"backend: {value}\n") == f"ops.yaml:1: 'backend': expected the name of a dispatch key, got {got}"


def test_unknown_backend(errors):
    assert (
        errors("backend: PrivateUse\n")
        == "ops.yaml:1: 'backend': 'PrivateUse' is no dispatch key of a backend; did you mean 'PrivateUse1'?"
    )
    assert (
        errors("backend: privateuse1\n")
        == "ops.yaml:1: 'backend': 'privateuse1' is no dispatch key of a backend; did you mean 'PrivateUse1'?"
    )
    # A dispatch key, but not of a backend.
    assert errors("backend: Functionalize\n").startswith("ops.yaml:1: 'backend': 'Functionalize' is no dispatch key of a backend")


@pytest.mark.parametrize("key", ["supported", "autograd"])
@pytest.mark.parametrize("value, got", [("", "nothing"), ("add.Tensor", "'add.Tensor'"), ("{add: Tensor}", "a mapping"), ("1", "1 (int)")])
def test_list_of_the_wrong_type(errors, key, value, got):
    assert errors(f"backend: PrivateUse1\n{key}: {value}\n") == f"ops.yaml:2: '{key}': expected a list of operators, got {got}"


@pytest.mark.parametrize(
    "item, got", [("1", "1 (int)"), ("", "nothing"), ("[relu]", "a list"), ("add: Tensor", "a mapping"), ("no", "no (bool)")]
)
def test_operator_of_the_wrong_type(errors, item, got):
    text = f"backend: PrivateUse1\nsupported:\n- relu\n- {item}\n"
    assert errors(text) == f"ops.yaml:4: 'supported': expected the name of an operator, got {got}"


def test_unknown_operator(errors):
    assert errors("backend: PrivateUse1\nsupported:\n- relux\n") == "ops.yaml:3: unknown operator 'relux'; did you mean 'relu'?"
    assert errors("backend: PrivateUse1\nsupported:\n- RELU\n") == "ops.yaml:3: unknown operator 'RELU'; did you mean 'relu'?"
    assert errors("backend: PrivateUse1\nsupported:\n- qqqqqqqqqq.Tensor\n") == "ops.yaml:3: unknown operator 'qqqqqqqqqq.Tensor'"


def test_overload_that_does_not_exist(errors):
    assert (
        errors("backend: PrivateUse1\nsupported: [add.Tensr]\n")
        == "ops.yaml:2: operator 'add' has no overload 'Tensr'; did you mean 'add.Tensor'?"
    )
    assert errors("backend: PrivateUse1\nsupported: [relu.zzzzzzzzzzzz]\n") == (
        "ops.yaml:2: operator 'relu' has no overload 'zzzzzzzzzzzz'; it has relu, relu.out"
    )
    assert errors("backend: PrivateUse1\nsupported: [add]\n") == (
        "ops.yaml:2: 'add' has overloads only: add.Scalar, add.Scalar_out, add.Tensor, add.out"
    )


@pytest.mark.parametrize("name", ["aten::relu", "aten.relu", "relu.default", "aten.relu.default"])
def test_name_in_another_spelling(errors, name):
    assert errors(f"backend: PrivateUse1\nsupported: ['{name}']\n") == f"ops.yaml:2: '{name}' is written 'relu' here"


def test_operator_listed_twice(errors):
    text = "backend: PrivateUse1\nsupported:\n- relu\n- add.Tensor\n- relu\n"
    assert errors(text) == "ops.yaml:5: 'relu' is listed twice, first on line 3"


def test_operator_in_two_lists(errors):
    text = "backend: PrivateUse1\nsupported:\n- relu\nautograd:\n- relu\n"
    assert errors(text) == "ops.yaml:5: 'relu' is in 'supported' and in 'autograd', first on line 3"


def test_operator_in_the_wrong_list(errors):
    assert errors("backend: PrivateUse1\nsupported: [dropout]\n") == (
        "ops.yaml:2: 'dropout' is composed of other operators, gradients included: it belongs to 'autograd'"
    )
    assert (
        errors("backend: PrivateUse1\nautograd: [relu]\n") == "ops.yaml:2: 'relu' has a kernel for each backend: it belongs to 'supported'"
    )


def test_form_without_its_functional_form(errors):
    text = "backend: PrivateUse1\nsupported:\n- add.out\n- mul_.Tensor\n"
    assert (
        errors(text)
        == """\
ops.yaml:3: the out= form 'add.out' is listed without its functional form 'add.Tensor'
ops.yaml:4: the in-place form 'mul_.Tensor' is listed without its functional form 'mul.Tensor'"""
    )


def test_all_errors_are_reported_by_line(errors):
    text = "backend: 1\nsupported:\n- relux\n- add.out\nextra: 2\nautograd: relu\n"
    assert (
        errors(text)
        == """\
ops.yaml:1: 'backend': expected the name of a dispatch key, got 1 (int)
ops.yaml:3: unknown operator 'relux'; did you mean 'relu'?
ops.yaml:4: the out= form 'add.out' is listed without its functional form 'add.Tensor'
ops.yaml:5: unknown key 'extra'; the keys are backend, supported, autograd
ops.yaml:6: 'autograd': expected a list of operators, got 'relu'"""
    )
