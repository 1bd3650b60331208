"""Names per MindSpore version: the tables, and the refusal of a form whose names a version does not have."""

from __future__ import annotations

import pytest

from torch2ms import Config, convert_source
from torch2ms.api import Rule, Rules, targets, template
from torch2ms.config import TARGETS
from torch2ms.evidence.snippets import translate

RULES = Rules.load()


def texts(rule: Rule) -> list[str]:
    return [text for text in (*(form.to for form in rule.forms), rule.value, rule.full, rule.cls, rule.star) if text]


@pytest.mark.parametrize("target", TARGETS)
def test_targets_of_all_rules_exist(target: str) -> None:
    lacking = {
        (rule.name, name)
        for rule in RULES.table.values()
        for text in texts(rule)
        if (name := targets.lacking(template.parse(text), target))
    }
    assert not lacking


def test_names_and_keywords_by_version() -> None:
    assert not targets.has("2.7", "mindspore.value_and_grad(sens_param=)")
    assert targets.has("2.8", "mindspore.value_and_grad(sens_param=)")
    assert targets.has("2.10", "mindspore.nn.Dense") and not targets.has("2.10", "mindspore.nn.Bilinear")
    assert targets.has("2.7", "mindspore.ops.cat(axis=)") and not targets.has("2.7", "mindspore.ops.cat(dim=)")


def test_a_form_with_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = targets._table("2.9")
    gone = {**table, "mindspore.ops": {k: v for k, v in table["mindspore.ops"].items() if k != "softmax"}}
    monkeypatch.setattr(targets, "_table", lambda target: gone)
    for text in ("torch.softmax(x, -1)", "f = torch.softmax"):
        translated, findings = translate(text, Rules.load("2.9"))
        assert translated == text
        assert findings[0].why.startswith("MindSpore 2.9 has no mindspore.ops.softmax")


def test_devices_that_pages_of_mindspore_leave_out_are_assumptions() -> None:
    source = "import torch\nx = torch.ones(3)\ny = torch.lgamma(x) + torch.fft.fft(x).real\n"

    def assumed(device: str) -> dict[str, str]:
        found = convert_source(source, Config(device=device)).findings
        return {f.what: f.why for f in found if f.tier.value == "assumed"}

    portable = assumed("portable")
    assert assumed("CPU") == portable and not any("pages" in why for why in portable.values())
    assert (
        "Ascend has it as well: MindSpore's pages name mindspore.ops.lgamma on CPU and GPU only"
        in assumed("Ascend")["torch.lgamma"]
    )
    assert "mindspore.ops.fft on CPU and Ascend only" in assumed("GPU")["torch.fft.fft"]
    assert "pages" not in assumed("GPU").get("torch.lgamma", "") and "torch.ones" not in assumed("Ascend")


def test_candidates_for_a_device() -> None:
    source = "import torch\nm = torch.rand(3, 3)\nx = torch.inverse(m)\ny = m.median()\nz = torch.randperm(4)\n"
    measured = convert_source(source, Config()).text
    assert "ops.inverse(m)" in measured and "mint" not in measured
    assert (
        convert_source(source, Config(device="CPU")).text
        == convert_source(source, Config(device="GPU")).text
        == measured
    )
    found = convert_source(source, Config(device="Ascend"))
    assert all(text in found.text for text in ("mint.inverse(m)", "mint.median(m)", "mint.randperm(4)"))
    assert all(f.tier.value == "assumed" for f in found.findings if "mint." in f.why)


def test_unknown_target_is_an_error() -> None:
    with pytest.raises(targets.TargetError, match="no MindSpore 1.9 is known; choose from 2.7, 2.8, 2.9, 2.10"):
        Rules.load("1.9")
    result = convert_source("import torch\nx = torch.ones(3)\n", Config(target="1.9"))
    assert "no MindSpore 1.9" in (result.error or "")
