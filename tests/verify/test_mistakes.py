"""The harness can fail: each mistake people and translators make, planted in a right translation, must be found."""

from __future__ import annotations

import pytest

from tests.verify.hand_written import PAIRS
from torch2ms.verify import cli_table

# name: (pair, text to replace, replacement, what the report must name)
MISTAKES = {
    "swapped arguments": ("leaf_scalars", "(forward_z, (0, 1))(x, y)", "(forward_z, (0, 1))(y, x)", "loss"),
    "gradient for the other argument": ("leaf_scalars", "ms.grad(forward_w)(x)", "2 * ms.grad(forward_w)(x)", "RESULT"),
    "accumulation dropped": (
        "train_accumulate",
        "new_grads if grads is None else tuple(a + b for a, b in zip(grads, new_grads))",
        "new_grads",
        "gradient",
    ),
    "accumulator never cleared": ("train_accumulate", "            grads = None\n", "", "gradient"),
    "accumulated loss not scaled": ("train_accumulate", " / accum_steps", "", "loss"),
    "stop_gradient missing": (
        "vq_straight_through",
        "ops.mse_loss(ops.stop_gradient(quantized), inputs)",
        "ops.mse_loss(quantized, inputs)",
        "gradient",
    ),
    "momentum": ("train_canonical", "momentum=0.9", "momentum=0.8", "step 2"),
    "momentum forgotten": ("train_canonical", ", momentum=0.9", "", "step 2"),
    "nesterov": ("train_canonical", "momentum=0.9", "momentum=0.9, nesterov=True", "weight"),
    "weight decay": ("train_canonical", "momentum=0.9", "momentum=0.9, weight_decay=0.01", "weight"),
    "learning rate": ("train_script", "lr=1e-2", "lr=1.05e-2", "step 1, weight"),
    "transposed weight": ("train_canonical", "self.fc1(x)", "(x @ self.fc1.weight.T * 0.99 + self.fc1.bias)", "loss"),
    "set_train missing, batch normalisation": ("train_adam", "model.set_train()\n", "", "loss"),
    "set_train missing, dropout": ("all_draws", "    net.set_train()\n", "", "draws"),
    "batch normalisation momentum": (
        "train_gan_bn",
        "nn.BatchNorm1d(8), nn.ReLU",
        "nn.BatchNorm1d(8, momentum=0.1), nn.ReLU",
        "buffer",
    ),
    "clip dropped": ("train_rnn_carried", "grads = ops.clip_by_norm(grads, 0.25)", "pass", "gradient"),
    "clip value": ("train_rnn_carried", "(grads, 0.25)", "(grads, 0.5)", "gradient"),
    "reduction": ("train_script", "nn.MSELoss()", "nn.MSELoss('sum')", "loss"),
    "forward evaluated twice": (
        "train_gan_bn",
        "    fake, fake_vjp =",
        "    netG(noise)\n    fake, fake_vjp =",
        "buffer",
    ),
    "other Adam": ("train_adam", "optim.AdamW(", "optim.Adam(", "weight"),
    "default weight decay of AdamW": ("all_draws", ", weight_decay=0.0", "", "weight"),
    "learning rate written past the optimizer": (
        "train_lr_decay",
        'ops.assign(group["lr"], group["lr"] * 0.5)',
        'group["lr"] = group["lr"] * 0.5',
        "weight",
    ),
    "autocast dropped": (
        "train_amp",
        'autocast_fn = ms.amp.auto_mixed_precision(autocast_fn, amp_level="auto", dtype=ms.float16)',
        "",
        "",
    ),
    "overflow not skipped": ("train_amp", "    if grads_finite:\n        optimizer(grads)", "    optimizer(grads)", ""),
    "a step too few": ("train_script", "range(20)", "range(19)", "optimizer steps"),
    "manual update of one parameter lost": ("manual_sgd", "zip(params, grads)", "zip(params[1:], grads[1:])", "loss"),
    "cotangent": ("vjp_cotangent", "vjp_y(v)", "vjp_y(v * 2)", "gradient"),
    "penalty without its gradient": (
        "wgan_gp",
        "gradients = input_gradient(D, interpolates)",
        "gradients = ops.stop_gradient(input_gradient(D, interpolates))",
        "gradient",
    ),
    "dropout inside an LSTM": ("hidden_draws", "dropout=0.3", "dropout=0.4", "draw"),
    "dropout of attention": ("hidden_draws", "ops.dropout(a, 0.1)", "ops.dropout(a, 0.2)", "draw"),
    "a layer more": ("many_layers", "self.attn = ", "self.other = nn.Dense(3, 3)\n        self.attn = ", "weights"),
    "activation": ("many_layers", "nn.PReLU()", "nn.PReLU(w=0.3)", ""),
    "epsilon of a normalisation": (
        "many_layers",
        "nn.LayerNorm((16,), epsilon=1e-5)",
        "nn.LayerNorm((16,), epsilon=1e-2)",
        "gradient",
    ),
    "shape of a draw": ("all_draws", "ops.randn(10)", "ops.randn(1)", "draw"),
    "bounds of a draw": ("all_draws", "ops.randint(0, 3, (24,))", "ops.randint(0, 2, (24,))", "draw"),
    "probability of dropout": ("all_draws", "nn.Dropout(p=0.3)", "nn.Dropout(p=0.2)", "draw"),
    "standard deviation of a draw": (
        "all_draws",
        "ops.normal(a.shape, 0.0, 0.1)",
        "ops.normal(a.shape, 0.0, 0.2)",
        "loss",
    ),
    "shuffle forgotten": ("all_draws", "shuffle=True", "shuffle=False", "shuffled"),
    "initial values forgotten": ("all_draws", ", bias_init='zeros'", "", ""),
    "initial values of another kind": ("all_draws", "weight_init=Normal(0.2)", "weight_init='ones'", ""),
    "leak of a frozen layer": (
        "train_canonical",
        "optim.SGD(model.trainable_params()",
        "optim.SGD(model.fc2.trainable_params()",
        "",
    ),
    "gradients in the wrong order": (
        "train_gan_bn",
        "optimizerD(grads)",
        "optimizerD(grads[:2] + grads[3:4] + grads[2:3] + grads[4:])",
        "gradient",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake, check):
    pair, old, new, named = MISTAKES[mistake]
    text = PAIRS[pair].translated.read_text()
    assert old in text
    report = check(PAIRS[pair].original, text.replace(old, new), explain=False)  # test_locate.py explains
    table = cli_table(report)
    assert report.verdict == "differ", table
    assert named in table.rpartition("differ:")[2], table
