"""The LibCST codemod: the same conversion behind another door."""

from __future__ import annotations

import pytest
from libcst.codemod import CodemodContext, TransformFailure, TransformSkip, TransformSuccess, transform_module

from torch2ms.codemod import ConvertTorchCommand

SOURCE = "import torch as t\nx = t.relu(1)  # keep\n"


@pytest.mark.usefixtures("engine")
class TestCommand:
    def apply(self, code: str) -> TransformSuccess | TransformSkip | TransformFailure:
        context = CodemodContext(filename="a.py")
        result = transform_module(ConvertTorchCommand(context), code)
        assert isinstance(result, (TransformSuccess, TransformSkip, TransformFailure))
        return result

    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    def test_converts(self, newline: str) -> None:
        result = self.apply(SOURCE.replace("\n", newline))
        assert isinstance(result, TransformSuccess)
        assert result.code == newline.join(["import mindspore as ms", "x = ms.ops.relu(1)  # keep", ""])
        assert result.warning_messages == []

    def test_leaves_other_code_alone(self) -> None:
        result = self.apply("x = 1\n")
        assert isinstance(result, TransformSuccess) and result.code == "x = 1\n"

    def test_warns_of_what_is_not_exact(self) -> None:
        result = self.apply(SOURCE + "refuse_me = 1\n")
        assert isinstance(result, TransformSuccess)
        assert result.warning_messages == ["line 3: T2M600 refused: refuse_me: no rule"]

    def test_skips_what_fails_the_self_check(self) -> None:
        result = self.apply(SOURCE + "grow = 1  # torch\n")
        assert isinstance(result, TransformSkip)
        assert "second conversion would change" in result.skip_description
