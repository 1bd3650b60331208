"""torch2ms as a LibCST codemod.

Run it with `python -m libcst.tool codemod -x --no-format torch2ms.codemod.ConvertTorchCommand src/`.
"""

from __future__ import annotations

import argparse

import libcst as cst
from libcst.codemod import CodemodCommand, CodemodContext, SkipFile

from torch2ms.config import DEVICES, STYLES, TARGETS, Config
from torch2ms.findings import Tier
from torch2ms.parsing import config_of
from torch2ms.run import convert_guarded


class ConvertTorchCommand(CodemodCommand):
    """Translates one module at a time; `torch2ms convert` sees whole projects and is preferable where it can run."""

    DESCRIPTION = "Translate PyTorch source code to MindSpore, gradients included."

    @staticmethod
    def add_args(arg_parser: argparse.ArgumentParser) -> None:
        arg_parser.add_argument("--target", choices=TARGETS, default=Config.target, help="MindSpore version")
        arg_parser.add_argument("--device-target", choices=DEVICES, default=Config.device, help="device of the output")
        arg_parser.add_argument("--style", choices=STYLES, default=Config.style, help="form of training steps")

    def __init__(
        self,
        context: CodemodContext,
        target: str = Config.target,
        device_target: str = Config.device,
        style: str = Config.style,
    ) -> None:
        super().__init__(context)
        self.config = Config(target=target, device=device_target, style=style)

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        code = tree.code
        if "torch" not in code:
            return tree
        path = self.context.filename or "module.py"
        result = convert_guarded({path: code}, self.config)[path]
        if result.error:
            raise SkipFile(result.error)
        for finding in result.findings:
            if finding.tier is not Tier.EXACT:
                self.warn(f"line {finding.line}: {finding.code} {finding.tier.value}: {finding.what}: {finding.why}")
        return cst.parse_module(result.text, config_of(tree)) if result.changed else tree
