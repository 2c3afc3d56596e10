"""The front door: finds the commands, and turns every mistake into one line."""

import sys
from codecs import register_error
from importlib import import_module
from io import TextIOWrapper
from pkgutil import iter_modules
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..core.version import __version__
from . import commands
from .errors import UserError
from .terminal import fail

UsageError: Any = typer.BadParameter.__bases__[0]  # what the parser raises on any bad option


def _plain(err: Any) -> tuple[str, int]:
    """What a pipe on Windows, or an old terminal, writes of a sign that it does not have."""
    return "-" if err.object[err.start] == "−" else "?", err.start + 1


register_error("plain", _plain)


class Commands(TyperGroup):
    """Commands whose every mistake is one line on stderr and exit code 2."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command."""
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="plain")
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            if code == 130:  # what typer makes of Ctrl-C
                raise KeyboardInterrupt
        except UserError as err:
            fail(str(err), err.code)
        except UsageError as err:
            fail(err.format_message().replace("Value error, ", ""))  # pydantic's, not ours
        except OSError as err:
            fail(f"{err.strerror or err}{f': {err.filename}' if err.filename else ''}")
        except MemoryError:
            fail("these data need more memory than there is")
        except (KeyboardInterrupt, typer.Abort):
            fail("interrupted", code=130)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """And refuse options given twice, of which the parser would take the last."""
        found: Any = super().resolve_command(ctx, args)
        _, command, words = found
        own = command.context_class(command, parent=ctx, **command.context_settings)
        given = command.make_parser(own).parse_args(args=[*words])[2]
        for told in given:
            if given.count(told) > 1 and not getattr(told, "is_flag", True):
                times = f"{told.opts[0]} is given {given.count(told)} times; once is needed"
                raise UserError(times + ", with all names by commas" * (told.metavar == "NAMES"))
        return found


app = typer.Typer(cls=Commands, add_completion=False)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"kernelmean {__version__}")
        raise typer.Exit


SHOWN = typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version.")


@app.callback(invoke_without_command=True)
def start(context: typer.Context, version: Annotated[bool, SHOWN] = False) -> None:
    """Compute with probability distributions through kernel mean embeddings."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
def reproduce(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Moved, with the experiments, out of the package."""
    raise UserError("kernelmean reproduce is now python -m papers, from a clone of the repository")


# Each command brings its estimators: where one is typed, the others need not be read.
every = [module.name for module in iter_modules(commands.__path__)]
for name in [name for name in every if name in sys.argv[1:2]] or every:
    import_module(f"{commands.__name__}.{name}").COMMAND.register(app)
