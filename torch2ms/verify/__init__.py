"""Run a program and its translation from the same weights, data and random draws, and compare every gradient."""

from torch2ms.verify.reporting.report import Report, cli_table
from torch2ms.verify.runner import Case, assert_same_gradients, verify
from torch2ms.verify.sides.warm import verify_many

__all__ = ["Case", "Report", "assert_same_gradients", "cli_table", "verify", "verify_many"]
