"""The report names the operation: the first statement, layer or derivative that differs."""

from __future__ import annotations

import pytest

from tests.verify.hand_written import PAIRS


@pytest.mark.parametrize(
    "pair, old, new, told, line",
    [
        (
            "train_canonical",
            "x = ops.relu(self.fc1(x))",
            "x = ops.gelu(self.fc1(x))",
            "`x`",
            "x = ops.gelu(self.fc1(x))",
        ),
        ("many_layers", "nn.PReLU()", "nn.PReLU(w=0.3)", "the output of nn.PReLU act", ""),
        (
            "vq_straight_through",
            "ops.mse_loss(ops.stop_gradient(quantized), inputs)",
            "ops.mse_loss(quantized, inputs)",
            "the first derivative that differs is that by `quantized`",
            "quantized = self.embedding(indices)",
        ),
        (
            "train_script",
            "nn.MSELoss()",
            "nn.MSELoss('sum')",
            "first operation that differs (9 values before",
            "loss = ",
        ),
        ("train_script", "lr=1e-2", "lr=2e-2", "the update differs (the optimizer's arguments)", ""),
        ("train_rnn_carried", "(grads, 0.25)", "(grads, 0.5)", "accumulating, clipping", ""),
    ],
)
def test_the_first_difference_is_located(pair, old, new, told, line, check):
    text = PAIRS[pair].translated.read_text()
    assert old in text
    report = check(PAIRS[pair].original, text.replace(old, new))
    assert told in report.located[0], report.located
    if line:
        assert [where.split(":")[0].strip() for where in report.located[1:]] == ["torch", "mindspore"]
        assert line in report.located[2]


def test_what_agrees_is_not_located(check):
    report = check(PAIRS["train_script"].original, PAIRS["train_script"].translated)
    assert report.agrees and report.located == []
