"""The command line: options in, exit status out; nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn, TypeVar

import click

from torch2ms import __version__
from torch2ms.config import DEVICES, REPORTS, STAGES, STYLES, TARGETS, Config, ConfigError
from torch2ms.exits import DONE, FAILED

# commands that live elsewhere, imported when they are called: name -> (module, attribute, one line for --help)
ELSEWHERE = {
    "verify": ("torch2ms.verify.cli", "verify", "Run original and translation side by side and compare the gradients."),
    "rules": ("torch2ms.evidence.cli", "rules", "Run the probes behind the API rules on the installed frameworks."),
    "weights": ("torch2ms.weights.cli", "weights", "Convert a checkpoint for the translation of its model."),
}
Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(click.Group):
    """A group that imports the commands of other modules late and accepts options where `convert` is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in ELSEWHERE:
            return super().get_command(ctx, name)
        module, attribute, _ = ELSEWHERE[name]
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise click.UsageError(f"{name} needs {error.name}: pip install 'torch2ms[verify]'", ctx) from None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {name: line for name, (_, _, line) in ELSEWHERE.items()}  # without importing what they stand for
        lines |= {name: command.get_short_help_str(100) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] in ("--check", "--diff"):  # torch2ms --check src/ is torch2ms convert --check src/
            args = ["convert", *args]
        return super().resolve_command(ctx, args)


def show_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """The versions, from the metadata of what is installed: nothing is imported."""
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    click.echo(f"torch2ms {__version__}")
    for name, package in (("PyTorch", "torch"), ("MindSpore", "mindspore"), ("LibCST", "libcst")):
        try:
            click.echo(f"{name} {version(package)}")
        except PackageNotFoundError:
            click.echo(f"{name} is not installed")
    ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    epilog="Exit status: 0 done, 1 --check or --strict found something, 2 a file failed, or wrong usage.",
)
@click.option(
    "-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version,
    help="Show the versions of torch2ms and of what it finds installed.",
)  # fmt: skip
def torch2ms() -> None:
    """Translate PyTorch source code to MindSpore, gradients included."""


def engine_options(function: Function) -> Function:
    """The options that say what the output must be like."""
    options = [
        click.option("--target", type=click.Choice(TARGETS), default="2.10", show_default=True, help="MindSpore."),
        click.option(
            "--device-target",
            type=click.Choice(DEVICES, case_sensitive=False),
            default="portable",
            show_default=True,
            help="Device the output must run on; portable is all of them.",
        ),
        click.option("--style", type=click.Choice(STYLES), default=STYLES[0], show_default=True, help="Form of steps."),
        click.option("--jit/--no-jit", default=False, help="Compile the forward functions that pass a check."),
        click.option(
            "--assume-cleared", is_flag=True, help="Where the analysis cannot see it, gradients count as cleared."
        ),
        click.option("--exclude", multiple=True, metavar="GLOB", help="Files or folders to leave out; repeatable."),
        click.option(
            "--select", multiple=True, metavar="CODE",
            help="Report only these codes (T2M1 is all of 1xx); modules and autograd are two steps of a conversion.",
        ),
        click.option("--ignore", multiple=True, metavar="CODE", help="Do not report these codes."),
        click.option(
            "--project-root", type=click.Path(exists=True, file_okay=False), metavar="DIR",
            help="Read the other files of this folder along: what the given ones import, and who calls them.",
        ),
        click.option("-j", "--jobs", type=click.IntRange(0), default=0, help="Worker processes; 0 chooses."),
        click.option(
            "--executor", default="", metavar="dask://HOST:PORT", help="A Dask cluster in place of local processes."
        ),
        click.option("--no-cache", is_flag=True, help="Convert everything anew and keep nothing for the next run."),
        click.option(
            "--config", "config_file", type=click.Path(dir_okay=False), is_eager=True, expose_value=False,
            callback=load_config, help="A pyproject.toml to use instead of the nearest one.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def check_code(word: str) -> str:
    """`word` as a code or the beginning of one."""
    if not re.fullmatch(r"T2M\d{0,3}", word.upper()):
        known = f"T2M101 is one, T2M1 is all of its block; the steps are {' and '.join(STAGES)}"
        raise click.UsageError(f"{word} is no code: {known}")
    return word.upper()


def load_config(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Make [tool.torch2ms] the defaults of the other options."""
    from pathlib import Path

    from torch2ms.config import find_pyproject, read_pyproject

    path = Path(value) if value else find_pyproject(Path.cwd())
    if path is None:
        return
    try:
        table = read_pyproject(path)
    except ConfigError as error:
        raise click.UsageError(str(error), ctx) from None
    if "project-root" in table:  # relative to the file that says so
        table["project-root"] = str(path.resolve().parent / table["project-root"])
    ctx.obj = {**table, "pyproject": path}
    ctx.default_map = {key.replace("-", "_"): entry for key, entry in table.items()}


def engine_config(options: dict[str, Any]) -> Config:
    """The options of the engine among those of a command."""
    stages = [word for word in options["select"] if word in STAGES]
    if len(stages) > 1:
        raise click.UsageError("--select modules and --select autograd are two steps; run one after the other")
    options["select"] = tuple(check_code(word) for word in options["select"] if word not in STAGES)
    options["ignore"] = tuple(check_code(word) for word in options["ignore"])
    table = (click.get_current_context().obj or {}).get("per-file-ignores", {})
    options["per_file_ignores"] = {p: tuple(check_code(word) for word in words) for p, words in table.items()}
    return Config(
        stage="".join(stages),
        target=options["target"],
        device=options["device_target"],
        style=options["style"],
        jit=options["jit"],
        assume_cleared=options["assume_cleared"],
    )


@torch2ms.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("-o", "--out", metavar="DIR", help='Where translations go; default: beside the input, with "_ms".')
@click.option("--in-place", is_flag=True, help="Edit the files themselves.")
@click.option("-i", "--interactive", is_flag=True, help="Ask hunk by hunk, like git add -p.")
@click.option("--diff", is_flag=True, help="Print what would change as a unified diff; write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when something would change or a mark is left.")
@click.option("--strict", is_flag=True, help="Exit 1 when a construct was refused.")
@click.option("--force", is_flag=True, help="Replace files that stand in the output folder with other content.")
@click.option("--report", type=click.Choice(REPORTS), help="Write a full report.")
@click.option("--report-file", type=click.Path(dir_okay=False), help="Where the report goes; default: standard output.")
@click.option("-v", "--verbose", is_flag=True, help="List every finding with its reason.")
@click.option("-q", "--quiet", is_flag=True, help="Say only what failed.")
@engine_options
def convert(paths: tuple[str, ...], **options: Any) -> NoReturn:
    """Translate files or whole folders; "-" reads standard input and writes standard output.

    `torch2ms convert src/` writes the translated tree to src_ms/ and leaves src/ alone.
    """
    from torch2ms.commands import run_convert

    sys.exit(run_convert(paths, engine_config(options), options))


@torch2ms.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "markdown"]), default="table", show_default=True,
    help="Form of the answer.",
)  # fmt: skip
@engine_options
def scan(paths: tuple[str, ...], form: str, **options: Any) -> NoReturn:
    """Count what a conversion would do, file by file, without writing anything."""
    from torch2ms.commands import run_scan

    sys.exit(run_scan(paths, engine_config(options), form, options))


@torch2ms.command()
@click.argument("code", required=False)
def explain(code: str | None) -> NoReturn:
    """Say what a code such as T2M101 means and what to do about it; without one, list them all."""
    from torch2ms.codes import CodeError
    from torch2ms.commands import run_explain

    try:
        click.echo(run_explain(code))
    except CodeError as error:
        raise click.UsageError(str(error)) from None
    sys.exit(DONE)


@torch2ms.command()
@engine_options
@click.pass_context
def config(ctx: click.Context, /, **options: Any) -> NoReturn:
    """Show the options in force here, and where each comes from."""
    table = ctx.obj or {}
    path = table.pop("pyproject", None)
    click.echo(f"# {path or 'no pyproject.toml with [tool.torch2ms] at or above this folder'}")
    origins = {"COMMANDLINE": "command line", "DEFAULT_MAP": "pyproject.toml"}
    shown = {name: (value, "pyproject.toml") for name, value in table.items()}  # of other commands too
    for name, value in options.items():
        source = ctx.get_parameter_source(name)
        value = list(value) if isinstance(value, tuple) else value
        shown[name.replace("_", "-")] = (value, origins.get(source.name if source else "", "default"))
    for name, (value, origin) in sorted(shown.items()):
        click.echo(f"{name} = {value!r}  # {origin}")
    sys.exit(DONE)


@torch2ms.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> NoReturn:
    """Print the completion script of a shell; `eval "$(torch2ms completion bash)"` turns it on."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(torch2ms, {}, "torch2ms", "_TORCH2MS_COMPLETE").source())
    sys.exit(DONE)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The program: no traceback reaches the user, whatever happens."""
    args = None if arguments is None else list(arguments)
    try:
        status = torch2ms.main(args=args, prog_name="torch2ms", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        _leave(FAILED)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        _leave(130)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(FAILED)
    except Exception as error:
        from torch2ms.packs import PackError

        if isinstance(error, PackError):
            click.echo(f"error: {error}", err=True)
            _leave(FAILED)
        if os.environ.get("TORCH2MS_DEBUG"):
            raise
        click.echo(f"internal error: {type(error).__name__}: {error}; please report it", err=True)
        _leave(FAILED)
    _leave(status if isinstance(status, int) else DONE)  # --help and --version come back with a status


def _leave(status: int) -> NoReturn:
    sys.exit(status)
