"""The engine without any framework: binding, text, findings."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from torch2ms import api
from torch2ms.api import signature
from torch2ms.api.definitions import closure
from torch2ms.data import rules_dir
from torch2ms.evidence.probes import read_cases
from torch2ms.evidence.snippets import translate
from torch2ms.findings import Tier

CASES = read_cases()
RULES = api.Rules.load()


def call(text: str) -> cst.Call:
    node = cst.parse_expression(text)
    assert isinstance(node, cst.Call)
    return node


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "torch.cat([x,\n           y],  # both\n          dim=1)",
            "ops.cat([x,\n           y],  # both\n          axis=1)",
        ),
        ("torch.stack(\n    [x, y],\n    dim=0,\n)", "ops.stack(\n    [x, y],\n    axis=0,\n)"),
        ("torch.add(x, y if s else z, alpha=2)", "ops.add(x, (y if s else z) * 2)"),
        ("torch.stack(v for v in x)", "ops.stack(v for v in x)"),
        ("torch.stack((v for v in x), 1)", "ops.stack((v for v in x), 1)"),
        ("(x\n .exp()\n .sum(dim=1))", "(x\n .exp()\n .sum(dim=1))"),
        ("torch.relu(*args)", "ops.relu(*args)"),
        ("torch.zeros(*x.shape)", "ops.zeros(x.shape)"),
        ("x.max(\n    dim=1,  # rows\n    keepdim=True,\n)", "ops.max(\n    x, axis=1,  # rows\n    keepdims=True,\n)"),
        (
            "torch.zeros(\n    2, 3,\n    device=device,  # where\n    dtype=d,  # what\n)",
            "ops.zeros(\n    (2, 3),  # where\n    dtype=d,  # what\n)",
        ),
        (
            "torch.cat(\n    dim=1,  # one\n    tensors=[x, y],  # two\n)",
            "ops.cat(\n    [x, y],  # one\n    axis=1,  # two\n)",
        ),
        ("(x\n .sum(1)  # rows\n .std(0))", "(standard_deviation(x\n .sum(1),  # rows\n 0))"),
        (
            "torch.zeros(2,  # rows\n            3,  # columns\n            device=device)",
            "ops.zeros((2,  # rows\n            3),  # columns\n            )",
        ),
        ("(x + y).relu()", "ops.relu(x + y)"),
        ("torch.zeros(n)", "ops.zeros(n)"),
    ],
)
def test_text(before: str, after: str) -> None:
    assert translate(before)[0] == after


@pytest.mark.parametrize(
    "text",
    [
        "torch.cat(parts, **options)",  # the dimension may hide in there, and MindSpore names it otherwise
        "torch.sum(x, **options)",
        "torch.cat([x], nonsense=1)",
        "torch.argmax(x, 1, False, 3)",
        "x.to(whatever)",
    ],
)
def test_refused_text_stays(text: str) -> None:
    translated, findings = translate(text)
    assert translated == text
    assert [finding.tier for finding in findings] == [Tier.REFUSED]
    assert findings[0].todo


def test_dropped_argument_is_told() -> None:
    _, findings = translate("torch.zeros(3, device=device)")
    assert [(f.code, f.what) for f in findings] == [("T2M601", "torch.zeros"), ("T2M602", "torch.zeros(device=device)")]


def test_default_given_counts_as_not_given() -> None:
    assert translate("torch.cat([x, y], out=None)")[0] == "ops.cat([x, y])"


def test_binding_by_position_keyword_and_numpy_name() -> None:
    parsed = signature.parse("input, dim=None, keepdim=False")
    found = signature.bind(parsed, call("f(a, axis=1)"), call("f(a, axis=1)"))
    assert found.value("dim") == 1 and found.value("keepdim") is False and not found.given("keepdim")
    with pytest.raises(signature.BindError):
        signature.bind(parsed, call("f(dim=1)"), call("f(dim=1)"))


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("torch.concat", "torch.cat"),
        ("torch.functional.norm", "torch.norm"),
    ],
)
def test_spellings(name: str, canonical: str) -> None:
    found = RULES.find(name)
    assert found is not None and found is RULES.find(canonical)


def test_every_rule_parses_and_mentions_only_its_parameters() -> None:
    for rule in set(RULES.table.values()):
        for form in rule.forms:
            assert form.to or form.refuse or rule.choose or rule.value, rule.name
            if form.to is not None:
                known = set(form.signature.by_name) | {"self"}
                assert form.template.params <= known, rule.name
            # a method shares its forms with the function of that name: there the receiver is `input`
            receiver = {"input"} if rule.name.startswith("torch.Tensor.") else set()
            for name in form.drop:
                assert name in form.signature.by_name or name in receiver, (rule.name, name)


def test_value_use_takes_the_unconditional_form() -> None:
    rule = RULES.find("torch.sigmoid")
    assert rule is not None
    outcome = api.apply_value(rule, cst.parse_expression("torch.sigmoid"), api.Facts())
    assert outcome.node is not None and api.code(outcome.node) == "ops.sigmoid"


def test_value_use() -> None:
    rule = RULES.find("torch.relu")
    assert rule is not None
    outcome = api.apply_value(rule, cst.parse_expression("torch.relu"), api.Facts())
    assert outcome.node is not None and api.code(outcome.node) == "ops.relu" and outcome.needs == {"ops"}
    flatten = RULES.find("torch.flatten")
    assert flatten is not None
    outcome = api.apply_value(flatten, cst.parse_expression("torch.flatten"), api.Facts())
    assert outcome.node is not None and api.code(outcome.node) == "partial(ops.flatten, start_dim=0)"


TABLES = ("math", "reduce", "shape", "create", "tensor", "functional", "index", "linalg", "more", "further")
# only the analysis knows the tuples
SPOKEN_BY_OTHERS = ("torch.return_fields.", "torch.finfo.dtype", "torch.iinfo.dtype")


def test_every_exact_rule_has_a_case() -> None:
    used: set[str] = set()
    for case in CASES:
        if case.mode != "!":
            used |= {finding.what.partition("(")[0] for finding in translate(case.text)[1]}
    for rule in RULES.table.values():
        if rule.source.removesuffix(".toml") in TABLES and any(f.evidence == "pass" and f.to for f in rule.forms):
            assert rule.name in used or rule.name.startswith(SPOKEN_BY_OTHERS), rule.name


def test_no_placeholder_survives() -> None:
    for name, rule in RULES.table.items():
        outcome = api.apply_value(rule, cst.parse_expression(name), api.Facts())
        assert outcome.node is None or "_placeholder_" not in api.code(outcome.node), name
        call_outcome = api.apply_call(rule, call(f"{name}(*args)"), call(f"{name}(*args)"), api.Facts())
        assert call_outcome.node is None or "_placeholder_" not in api.code(call_outcome.node), name


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("torch.nn.LayerNorm", "eps=1e-6", "(lambda dim: nn.LayerNorm((dim,), epsilon=1e-6))"),
        ("torch.nn.Conv2d", "bias=False, padding=1", "partial(nn.Conv2d, pad_mode='pad', padding=1, has_bias=False)"),
        ("torch.nn.BatchNorm2d", "eps=1e-3, momentum=0.01", "partial(nn.BatchNorm2d, eps=1e-3, momentum=0.99)"),
        ("torch.nn.Conv2d", "padding_mode='reflect'", None),
    ],
)
def test_partial(name: str, arguments: str, expected: str | None) -> None:
    rule = RULES.find(name)
    assert rule is not None
    node = call(f"partial(it, {arguments})")
    outcome = api.apply_partial(rule, node, node, api.Facts())
    assert (api.code(outcome.node) if outcome.node is not None else None) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.nn.Linear", "nn.Dense"),
        ("torch.nn.Conv2d", "nn.Conv2d"),
        ("torch.nn.ConvTranspose2d", "nn.Conv2dTranspose"),
        ("torch.nn.LayerNorm", "nn.LayerNorm"),
        ("torch.nn.Dropout", "nn.Dropout"),
        ("torch.nn.Module", "nn.Cell"),
        ("torch.utils.data.DataLoader", "ds.Dataset"),
        ("torch.nn.Softplus", "Softplus"),
        ("torch.nn.CrossEntropyLoss", None),
    ],
)
def test_class_that_is_only_named(name: str, expected: str | None) -> None:
    rule = RULES.find(name)
    assert rule is not None
    outcome = api.apply_class(rule)
    assert (api.code(outcome.node) if outcome.node is not None else None) == expected


def test_refusal_does_not_depend_on_arguments() -> None:
    _, findings = translate("torch.optim.SparseAdam(net.parameters(), lr=1)")
    assert [(f.code, f.todo != "") for f in findings if f.what == "torch.optim.SparseAdam"] == [("T2M605", True)]


def test_definitions_have_names_of_their_own() -> None:
    """Their text is found by name, so that a second one of a name would replace the first everywhere."""
    files = (rules_dir() / "definitions").glob("*.py")
    names = [node.name for path in files for node in ast.parse(path.read_text()).body if hasattr(node, "name")]
    assert sorted(names) == sorted(set(names))


def test_of_a_distribution_only_what_the_program_names_is_written_out() -> None:
    (*_, kept) = closure(["Categorical"], {"log_prob"})
    assert {n for n in ("sample", "log_prob", "entropy", "mode") if f"def {n}(" in kept.text} == {"log_prob"}
    with_samples = {d.name: d.text for d in closure(["Categorical"], {"sample"})}
    assert "def drawn_shape" in with_samples["Distribution"]  # which sample calls
    assert "def entropy" in closure(["Categorical"])[-1].text
