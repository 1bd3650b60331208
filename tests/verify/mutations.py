"""Mistakes of translations, planted in verified ones (of fixtures, or by hand): kinds, places, and the rate found.

python -m tests.verify.mutations [--places N]     plants every kind in N places and prints what was found
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.fixture_cases import all_cases
from tests.verify.hand_written import PAIRS
from torch2ms.verify import Case, Report, verify_many

Change = str | Callable[[re.Match[str]], str]


@dataclass(frozen=True)
class Kind:
    """A kind of mistake: what is looked for in a translation, and what a mistaken one has instead."""

    name: str
    pattern: str
    change: Change
    unlike: str = "(?!)"  # translations with this in them would mean the same with the mistake

    def plant(self, text: str) -> str | None:
        """The text with the first such place spoilt, None if it has none."""
        if re.search(self.unlike, text):
            return None
        spoilt, count = re.subn(self.pattern, self.change, text, count=1, flags=re.MULTILINE)
        return spoilt if count and spoilt != text else None


def times(factor: float) -> Callable[[re.Match[str]], str]:
    """Multiply the number in the second group."""
    return lambda match: f"{match[1]}{float(match[2]) * factor:g}"


def unstopped(match: re.Match[str]) -> str:
    """The first stop_gradient in a function that is differentiated is taken away."""
    text = match[0]
    for body in re.finditer(r"^([ \t]*)def (?:forward\w*|construct)\(.*\n(?:\1[ \t]+.*\n|\n)*", text, re.MULTILINE):
        if "ops.stop_gradient(" in body[0]:
            return text[: body.start()] + body[0].replace("ops.stop_gradient(", "(", 1) + text[body.end() :]
    return text


CALL = r"^([ \t]+)(optim\w*|opt\w*|self\.opt\w*)\((grads?\w*)\)$"
KEPT = (
    r"\1kept = tuple(a + b for a, b in zip(globals().get('kept_grads', [0.0] * len(\3)), \3))"
    r"\n\1globals()['kept_grads'] = kept\n\1\2(kept)"
)
KINDS = (
    Kind("learning rate", r"(\blr=)(\d[\d.e-]*)", times(1.1)),
    Kind("momentum of the optimizer", r"(optim\.SGD\(.*momentum=)(0\.\d+)", times(0.9)),
    Kind("momentum forgotten", r"(optim\.SGD\(.*), momentum=0\.\d+", r"\1"),
    Kind("weight decay forgotten", r", weight_decay=(?!0\.0\))[\d.e-]+", ""),
    Kind("Adam of another formula", r"optim\.AdamW\(", "optim.Adam("),
    Kind("epsilon of the optimizer", r"(optim\.AdamW\(.*)weight_decay=", r"\1eps=1e-4, weight_decay="),
    Kind("betas", r"betas=\(0\.\d+,", "betas=(0.7,"),
    Kind("zero_grad dropped: gradients pile up", CALL, KEPT),
    Kind("gradient scaled", CALL, r"\1\2(tuple(g * 0.5 for g in \3))"),
    Kind("gradients handed over in another order", CALL, r"\1\2(tuple(\3)[::-1])"),
    Kind("update forgotten", CALL, r"\1pass"),
    Kind("update done twice", CALL, r"\1\2(\3)\n\1\2(\3)"),
    Kind("wrong cotangent", r"^(\s*.*= \w*vjp\w*)\((\w+)\)$", r"\1(2 * \2)"),
    Kind("cotangent of the wrong sign", r"^(\s*.*= \w*vjp\w*)\((\w+)\)$", r"\1(-\2)"),
    Kind("stop_gradient missing", r"\A(?s:.*)\Z", unstopped),
    Kind("stop_gradient too much", r"^(\s+)(output|logits|pred|out) = (\w+\(.*\))$", r"\1\2 = ops.stop_gradient(\3)"),
    Kind("differentiates the sum of all outputs", r", has_aux=True", ""),
    Kind("weights of the other optimizer", r"\b(optimizerG|opt_g|optimizer_g)\.parameters", "optimizerD.parameters"),
    Kind("off by one in accumulation", r"\((\w+) \+ 1\) % ", r"\1 % "),
    Kind("accumulated loss not scaled", r"loss / \w*(?:accum|steps)\w*", "loss"),
    Kind("clipping dropped", r"^(\s+)(grads\w*) = ops\.clip_by\w+\(.*\)$", r"\1pass"),
    Kind("clipping at another value", r"(ops\.clip_by\w+\(\w+, (?:max_norm=)?)(\d[\d.e-]*)", times(0.5)),
    Kind("scheduler not stepped", r"^(\s+)\w*sched\w*\.step\(\)$", r"\1pass"),
    Kind("gamma of the scheduler", r"(gamma=)(\d[\d.e-]*)", times(0.9)),
    Kind("other default epsilon of a normalisation", r"(nn\.LayerNorm\([^)]*\)?), epsilon=1e-0?5", r"\1, epsilon=1e-2"),
    Kind("momentum of batch normalisation", r"nn\.BatchNorm(\d)d\((\w+)\)", r"nn.BatchNorm\1d(\2, momentum=0.1)"),
    Kind("set_train missing", r"^(\s*)[\w.]+\.set_train\(\)$", r"\1pass", unlike=r"^(?![\s\S]*(Dropout|BatchNorm))"),
    Kind("evaluation in training mode", r"^(\s+)[\w.]+\.set_train\(False\)$", r"\1pass"),
    Kind("dropout keeps instead of drops", r"(Dropout\(p=)0\.(?!5\b)\d+", r"\g<1>0.7"),
    Kind("reduction", r"nn\.(MSELoss|CrossEntropyLoss|BCELoss|L1Loss)\(\)", r"nn.\1(reduction='sum')"),
    Kind("reduction forgotten", r", reduction=['\"]sum['\"]", ""),
    Kind(
        "padding of a convolution", r"(nn\.Conv2d\(.*stride=2.*)pad_mode=['\"]pad['\"], padding=1", r"\1pad_mode='same'"
    ),
    Kind("other pooling", r"ops\.max_pool2d\(([^,]+), 2\)", r"ops.avg_pool2d(\1, 2, 2)"),
    Kind("slope of LeakyReLU", r"(LeakyReLU\(|leaky_relu\(\w+, |where\(\w+ > 0, \w+, )0?\.\d+", r"\g<1>0.15"),
    Kind("other activation", r"ops\.relu\(", "ops.gelu("),
    Kind("axis", r"(log_softmax|softmax)\((.*), axis=-?1\)", r"\1(\2, axis=0)"),
    Kind("initial value", r"ops\.zeros\((\w+)\), name=", r"ops.ones(\1), name="),
    Kind("swapped operands", r"\((\w+) - (\w+)\)(?! \*\* 2|\.pow|\.square|\.abs)", r"(\2 - \1)"),
    Kind("in-place change lost", r"^(\s+)(\w+) = ops\.(?:relu|add|mul|clamp)\(\2[,)].*$", r"\1pass"),
    Kind("copy into a tensor lost", r"^(\s+)[\w.\[\]]+\.copy_\(.*\)$", r"\1pass"),
    Kind("assignment lost", r"^(\s+)ops\.assign\(.*\)$", r"\1pass"),
    Kind("a parameter left out of the optimizer", r"(optim\.\w+\([\w.]+\.trainable_params\(\))", r"\1[1:]"),
    Kind("shuffle forgotten", r"shuffle=True", "shuffle=False"),
    Kind("seed drawn once more", r"^(\s*)(\w+) = ops\.randn\((\d+)", r"\1ops.randn(7)\n\1\2 = ops.randn(\3"),
    Kind(
        "transposed weight",
        r"\bself\.(fc\d?|linear|hidden)\((\w+)\)",
        r"(\2 @ self.\1.weight.T * 0.999 + self.\1.bias)",
    ),
)


@dataclass(frozen=True)
class Planted:
    """One mistake in one translation."""

    kind: Kind
    place: str
    original: Path
    text: str

    @property
    def name(self) -> str:
        """For reports: kind and place."""
        return f"{self.kind.name} in {self.place}"


@cache
def translations() -> tuple[tuple[str, Path, str], ...]:
    """Verified translations of one file: name, original, text."""
    cases = [case for case in all_cases() if case.single and not case.refused]
    found = [(case.name, case.main, case.folder / "expected.py") for case in cases]
    found += [(f"by_hand/{name}", pair.original, pair.translated) for name, pair in sorted(PAIRS.items())]
    return tuple((name, original, path.read_text(encoding="utf-8")) for name, original, path in found)


def planted(kind: Kind, places: int) -> list[Planted]:
    """The mistake in the first translations that have a place for it."""
    found = []
    for name, original, text in translations():
        spoilt = None if name in EQUAL.get(kind.name, {}) or len(found) == places else kind.plant(text)
        if spoilt is not None:
            found.append(Planted(kind, name, original, spoilt))
    return found


# Places where the mistake cannot be seen, and why: but for five of Adam, it changes nothing.
EQUAL: dict[str, dict[str, str]] = {
    "weight decay forgotten": {"examples/train_zero_after_step": "0.01 is AdamW's own default"},
    "Adam of another formula": {
        "examples/optimise_image": "every gradient is far above epsilon",
        "control_flow/backward_under_conditions": "within the tolerance",
        "examples/pinn_burgers": "within the tolerance",
        "accumulation/two_agents": "every gradient is far above epsilon",
        "accumulation/cleared_by_a_function": "every gradient is far above epsilon",
        "accumulation/cleared_by_syntax": "within the tolerance",
        "backward/actor_and_critic": "within the tolerance",
        "examples/maml": "every gradient is far above epsilon",
        "control_flow/timed_blocks": "one weight differs by 1.1e-5, which is within the tolerance",
    },
    "epsilon of the optimizer": {"accumulation/cleared_by_a_function": "within the tolerance"},
    "stop_gradient missing": {
        "adversarial/attacks_of_a_base_class": "the forward of an attack is not differentiated",
        "control_flow/skip_between_losses": "it is an argument: a value in any case",
        "examples/byol_ema": "it is stopped once more below",
        "detach/byol": "the target network's weights are not among those the gradient is taken for",
        "detach/ema_target_network": "argmax has no derivative",
        "control_flow/branch_with_own_inputs": "argmax has no derivative",
        "backward/grad_cam_class": "the maps that a hook keeps are only looked at",
        "autograd_grad/adaptive_weight": "it is an argument: a value in any case",
    },
    "swapped operands": {"adversarial/neural_style_lbfgs": "the cubic of a line search that never asks for it"},
    "assignment lost": {"adversarial/neural_style_lbfgs": "the end of a line search that never asks for it"},
    "betas": {
        "optimizers/lion_class": "only signs count, and they are the same",
        "forward/names_of_cells": "it is a default that nobody uses",
    },
    "stop_gradient too much": {
        "adversarial/fgsm_skips": "nothing is differentiated there",
        "adversarial/gradient_within_a_forward": "it is stopped in the next line",
        "adversarial/fgsm_of_a_loader": "it is only looked at",
    },
    "clipping dropped": dict.fromkeys(
        ("cell/where_it_does_not_fit", "adversarial/steps_on_embeddings"), "no norm reaches the limit"
    ),
    "clipping at another value": {"adversarial/steps_on_embeddings": "no norm reaches half of the limit"},
    "wrong cotangent": {"adversarial/fgsm_skips": "only the sign of the gradient is read"},
    "differentiates the sum of all outputs": {
        "autograd_grad/intermediate_input": "the other output is an integer",
        "accumulation/looked_at_in_methods": "the other output is a number",
        "accumulation/scaler_across_epochs": "the loss beside 65,536 times itself is within the tolerance",
    },
    "set_train missing": {
        "accumulation/model_out_of_a_table": "it is called again in every epoch",
        "cell/with_loss_cell": "it is called again in every epoch",
        "backward/asked_by_text": "it is called again in every step",
        "backward/branches_share_a_forward": "it is called where the network is made, too",
    },
    "evaluation in training mode": dict.fromkeys(
        (
            "backward/criterion_call",
            "control_flow/early_stopping",
            "examples/training_step",
            "adversarial/neural_style_lbfgs",
            "adversarial/style_transfer",
            "backward/grad_cam",
            "functions/checkpointed",
            "autograd_grad/weights_kept_on_self",
        ),
        "no layer has two modes",
    ),
}


def run(mistakes: list[Planted], workers: int = 2) -> list[Report]:
    """Verify every original against its spoilt translation."""
    with tempfile.TemporaryDirectory(prefix="torch2ms-mutations-") as name:
        cases = []
        for number, mistake in enumerate(mistakes):
            path = Path(name) / f"{number}.py"
            path.write_text(mistake.text, encoding="utf-8")
            cases.append(Case(mistake.original, path, explain=False, compiled=False))
        return verify_many(cases, workers=workers)


def main() -> int:
    """Print a table and how many were found; 1 if any was not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, default=3, help="fixtures per kind")
    parser.add_argument("--kind", default="", help="only kinds with this in their name")
    options = parser.parse_args()
    mistakes = [m for kind in KINDS if options.kind in kind.name for m in planted(kind, options.places)]
    reports = run(mistakes)
    missed = 0
    for mistake, report in zip(mistakes, reports, strict=True):
        missed += report.verdict == "agree"
        first = report.reason.partition("\n")[0] or (report.problems[0].what if report.problems else "")
        print(f"{'MISSED' if report.verdict == 'agree' else report.verdict:8} {mistake.name}: {first[:90]}")
    kinds = len({mistake.kind.name for mistake in mistakes})
    print(f"{len(mistakes) - missed} of {len(mistakes)} mistakes of {kinds} kinds found")
    for kind in KINDS:
        if options.kind in kind.name and not planted(kind, 1):
            print(f"no place for: {kind.name}")
    return bool(missed)


if __name__ == "__main__":
    raise SystemExit(main())
