"""The verbs, and how one of them is run: what goes wrong ends in one line.

A verb imports what it computes with when it runs: `--help` takes 0.2 CPU seconds, and with all imports 1.9.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from typing import Annotated, Any, NoReturn

import typer

import marginalia
from marginalia.cli import budget, data, fit
from marginalia.cli.audit import audit
from marginalia.cli.certify import certify
from marginalia.cli.infer import infer
from marginalia.cli.plan import list_experiments, plan
from marginalia.cli.predict import predict
from marginalia.cli.quality import quality
from marginalia.cli.recommend import recommend
from marginalia.cli.release import release
from marginalia.cli.removed import add_removed_verbs
from marginalia.cli.results import report, verify
from marginalia.cli.shared import Answer, show
from marginalia.errors import InputError, PrivacyError, one_line
from marginalia.kernels import pin
from marginalia.postponed import postpone
from marginalia.progress import no_progress

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Verb = Callable[..., Answer]
PLAIN: dict[str, Any] = {"rich_markup_mode": None, "no_args_is_help": True, "pretty_exceptions_enable": False}
PLAIN["context_settings"] = {"help_option_names": ["-h", "--help"]}


def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show cells of private rows in what a database says of an error.")
    ] = False,
) -> None:
    if show_values:
        os.environ["MARGINALIA_SHOW_VALUES"] = "1"
    if version:
        print(marginalia.__version__)
        raise typer.Exit


VERBS: tuple[Verb, ...] = (
    audit,
    certify,
    fit.fit,
    fit.synthesize,
    infer,
    predict,
    quality,
    recommend,
    release,
    report,
    plan,
    verify,
)
GROUPS: dict[str, tuple[str, dict[str, Verb]]] = {
    "datasets": (
        "Look at, fetch and check data sets.",
        {"list": data.list_datasets, "fetch": data.fetch, "check": data.check},
    ),
    "budget": ("Keep the budget file of a table.", {"open": budget.open_budget, "show": budget.show_budget}),
    "methods": ("Look at the methods.", {"list": fit.list_methods}),
    "experiments": ("Look at the experiments of the papers.", {"list": list_experiments}),
    "domain": (
        "Say what the columns of a raw table hold.",
        {"init": data.init, "import": data.import_domain},
    ),
}


def _command(verb: Verb) -> Callable[..., None]:
    """Return a verb as typer takes it: prints the answer; each field of a dataclass of options is an option."""
    signature = inspect.signature(verb, eval_str=True)
    groups: dict[str, Any] = {n: p.annotation for n, p in signature.parameters.items() if is_dataclass(p.annotation)}

    @wraps(verb)
    def run(*, as_json: bool, quiet: bool, **options: Any) -> None:
        pin()  # before the verb imports NumPy
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        if "as_json" in signature.parameters:  # of a verb that prints before all is known
            options["as_json"] = as_json
        with no_progress() if quiet or as_json else nullcontext():
            answer = verb(**options)
        show(answer, as_json=as_json)
        if answer.exit_code:
            raise typer.Exit(answer.exit_code)

    parameters = []
    for name, parameter in signature.parameters.items():
        if name == "as_json":
            continue
        parts = inspect.signature(groups[name], eval_str=True).parameters.values() if name in groups else [parameter]
        parameters += [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in parts]
    for name, annotation in (("as_json", Json), ("quiet", Quiet)):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation))
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _app() -> typer.Typer:
    """Return the tree of all verbs; the help lists them in this order."""
    app = typer.Typer(help="Differentially private linear models and synthetic tables, with a certificate.", **PLAIN)
    app.callback(invoke_without_command=True)(_root)
    for verb in VERBS:
        app.command()(_command(verb))
    add_removed_verbs(app)
    for name, (help_text, verbs) in GROUPS.items():
        group = typer.Typer(help=help_text, **PLAIN)
        for word, verb in verbs.items():
            group.command(word)(_command(verb))
        add_removed_verbs(group, f"{name} ")
        app.add_typer(group, name=name)
    return app


app = _app()


@cache
def command() -> Any:
    """Return the tree of all verbs as click runs it: a process that calls `main` often makes it once."""
    return typer.main.get_command(app)


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, `kill`, a closed terminal
STOPPED = 130  # the code of a process that Ctrl-C ends
# typer carries its own copy of click, whose base error it does not export.
USAGE_ERROR: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main() -> None:
    """Run the command line; bad input ends in one line on stderr and exit code 2."""
    warnings.showwarning = _note
    postpone()
    for number in STOPPING:
        with suppress(ValueError):  # not the main thread
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, _stop)
    try:
        # click's own usage errors span several lines; here every error is one.
        code = command().main(standalone_mode=False)
        sys.stdout.flush()
    except (InputError, PrivacyError) as error:
        _fail(str(error))
    except USAGE_ERROR as error:
        message = error.format_message()  # type: ignore[attr-defined]
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message, file=sys.stderr)
            sys.exit(2)
        if "unexpected extra argument" in message:
            message += _way_out(error)
        _fail(message)
    except MemoryError as error:
        _fail(f"out of memory ({error}); take fewer rows, columns or codes" if str(error) else "out of memory")
    except ModuleNotFoundError as error:
        extra = _extra_with(error.name or "")
        if not extra:
            raise
        _fail(f"this needs {error.name}, which is not installed: pip install 'marginalia[{extra}]'")
    except RecursionError:
        _fail("the input is nested too deeply")
    except (typer.Abort, KeyboardInterrupt):
        code = STOPPED
    except BrokenPipeError:
        _end_by_closed_pipe()
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # what click makes of a closed pipe
            _end_by_closed_pipe()
        raise
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EBADF):
            _close_output()
            _fail(f"cannot write the output: {error.strerror}")
        _fail(f"cannot read or write {error.filename}: {error.strerror}" if error.filename else str(error))
    if code == STOPPED:
        _fail("stopped", STOPPED)
    sys.exit(code if isinstance(code, int) else 0)


def _way_out(error: Any) -> str:
    """Return how a verb takes what stood where it takes nothing."""
    options = {name for parameter in error.ctx.command.params for name in parameter.opts}
    if "--configfile" in options:
        return "; a configuration goes with --configfile"
    if "--data" in options:
        return "; a table goes with --data; a pattern of files stands in quotes, or the shell takes it apart"
    return ""


def _stop(number: int, _: object) -> None:
    """End in one line, with nothing half-written: who is impatient does not disturb that."""
    for other in STOPPING:
        signal.signal(other, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    _fail("stopped", 128 + number)


def _fail(message: str, code: int = 2) -> NoReturn:
    """End with `message` as one line of printable characters."""
    print(f"marginalia: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


def _extra_with(module: str) -> str:
    """Return the extra of this package that brings a module, empty if none does."""
    from importlib.metadata import PackageNotFoundError, requires  # here, since `--help` does not need it

    try:
        requirements = requires("marginalia") or []
    except PackageNotFoundError:  # a source tree that was never installed
        return ""
    wanted = rf"{re.escape(module.partition('.')[0])}\b.*extra == [\"'](\w+)"
    return next((found[1] for line in requirements if (found := re.match(wanted, line))), "")


def _note(message: Warning | str, *_: object, **__: object) -> None:
    print(f"marginalia: warning: {one_line(message)}", file=sys.stderr)


def _end_by_closed_pipe() -> NoReturn:
    _close_output()
    sys.exit(141)  # as a process that SIGPIPE ends, which is what `| head` does to others


def _close_output() -> None:
    """Let nothing more be written to stdout, which would fail again as the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
