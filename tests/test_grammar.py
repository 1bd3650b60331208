"""Whatever Python's grammar allows, in a file that uses torch: translated or left alone, never broken.

$TORCH2MS_EXAMPLES sets how many programs each test draws; more of them find more.
"""

from __future__ import annotations

import ast
import os
import warnings

import hypothesmith
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from torch2ms import convert_source
from torch2ms.check import comments
from torch2ms.parsing import config_of, parse

EXAMPLES = int(os.environ.get("TORCH2MS_EXAMPLES", "60"))
QUIET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="TORCH2MS_EXAMPLES" not in os.environ,
    phases=[Phase.explicit, Phase.generate],  # a program of the grammar shrinks for minutes
    suppress_health_check=list(HealthCheck),
)
HEADS = st.sampled_from(
    [
        "import torch\n",
        "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n",
        "import torch\nfrom torch import *\nfrom torch.nn import *\n",
        "import torch, torch as A\n",  # the names that the grammar draws, too
        "import torch\nfrom torch import tensor as A, no_grad as AA\n",
    ]
)
TAILS = st.sampled_from(["", "y = torch.relu(torch.ones(3))\n", "loss = A.ones(2).sum()\nloss.backward()\n"])


def check(head: str, code: str, tail: str) -> None:
    source = f"{head}{code}\n{tail}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `1if 1else 1`
        try:
            ast.parse(source)
        except (SyntaxError, ValueError):
            return
        result = convert_source(source, path="a.py")
        if result.error:  # the file is left alone, for a reason that is not ours
            assert "torch2ms" not in result.error and "comment" not in result.error, result.error
            assert result.text == source
            return
        ast.parse(result.text)
    assert {text for _, text in comments(source)} <= {text for _, text in comments(result.text)}
    again = convert_source(result.text, path="a.py")
    assert not again.error and again.text == result.text


@QUIET
@given(HEADS, st.deferred(hypothesmith.from_grammar), TAILS)  # its parser takes seconds to make
def test_programs_of_the_grammar(head: str, code: str, tail: str) -> None:
    check(head, code, tail)


@QUIET
@given(HEADS, hypothesmith.from_node(), TAILS)
def test_programs_of_syntax_trees(head: str, code: str, tail: str) -> None:
    check(head, code, tail)


@pytest.mark.parametrize(
    "text",
    [
        "pass\n #R\n #S\n",
        "pass\n #R\n\n #S\n#T\n",
        "def f():\n    pass\n  #R\n  #S",
        "if x:\n\tpass\n    #R\n    \n\n",
        "pass;\r\n\r\n  \t#\r\n \t  #\x0b\r\n \t \n   \t##",
    ],
)
def test_comments_at_the_end_come_back(text: str) -> None:
    assert parse(text).code == text


def test_an_indent_with_a_form_feed_is_none_for_new_code() -> None:
    tree = parse("class A:\n\t\x0c \tpass\n")
    assert tree.default_indent == "\t\x0c \t" and config_of(tree).default_indent == "    "
