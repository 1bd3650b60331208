"""Functions of torch under other spellings: texts, methods called through their class, names of one's own, stars."""

from __future__ import annotations

from torch2ms import Tier, convert_source
from torch2ms.config import Config
from torch2ms.pipeline import convert_project


def converted(*lines: str) -> str:
    result = convert_source("\n".join(["import torch", "x = torch.ones(2, 3)", *lines, ""]))
    assert not result.error and not [f for f in result.findings if f.tier is Tier.REFUSED], result.findings
    return result.text


def test_a_text_that_names_an_attribute_is_the_attribute() -> None:
    text = converted("print(getattr(torch, 'round')(x, decimals=1), getattr(x, 'roll')(1))")
    assert "ops.round(x * 10.0 ** 1) / 10.0 ** 1" in text and "mnp.roll(x, 1)" in text and "getattr" not in text


def test_a_method_of_the_class_is_called_on_the_tensor() -> None:
    assert "print(x.add(2), (x + 1).abs())" in converted("print(torch.Tensor.add(x, 2), torch.Tensor.abs(x + 1))")
    assert "x = x.add(1)" in converted("torch.Tensor.add_(x, 1)", "print(x)")


def test_a_name_for_a_function_is_the_function_where_it_is_called() -> None:
    text = converted("best = torch.topk", "print(best(x, 1))")
    assert "best" not in text and "long_places(ops.topk(x, 1))" in text


def test_a_name_that_takes_torchs_arguments_stays() -> None:
    text = converted("act = torch.relu", "print(act(x), list(map(act, [x])))")
    assert "act = ops.relu" in text and "list(map(act, [x]))" in text


def test_a_name_that_is_bound_twice_stays() -> None:
    result = convert_source(
        "import torch\n\n\ndef run(x, flag):\n    pick = torch.median\n    if flag:\n        pick = torch.mean\n"
        "    return pick(x)\n"
    )
    assert "pick(x)" in result.text


def test_other_modules_may_ask_for_the_name() -> None:
    sources = {
        "names.py": "import torch\n\nbest = torch.topk\nprint(best(torch.ones(3), 1))\n",
        "main.py": "import torch\nfrom names import best\n\nprint(best(torch.ones(3), 2))\n",
    }
    texts = {path: result.text for path, result in convert_project(sources, Config()).items()}
    assert "best = " in texts["names.py"] and "from names import best" in texts["main.py"]


def test_stars_import_what_is_used() -> None:
    text = converted("from torch.nn.utils.rnn import *", "print(pad_sequence([x, x]))")
    assert "def pad_sequence" in text or "pad_sequence" not in text
    assert "import *" not in text
