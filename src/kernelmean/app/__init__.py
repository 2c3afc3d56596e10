"""The `kernelmean` command. Needs the extra `app`: ``pip install "kernelmean[app]"``."""

import gc
import sys

EXTRA = frozenset({"typer", "rich", "pandas", "pyarrow", "matplotlib", "jinja2"})


def main() -> None:
    """Run the command line; say how to install the extra where a package of it is missing.

    Importing takes a second or two, in which somebody may change their mind.
    """
    try:
        gc.disable()  # nothing that is read on the way is ever garbage: .2 s of looking for it
        from .cli import app

        gc.freeze()
        gc.enable()
        app()
    except ModuleNotFoundError as err:
        package = (err.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        missing = f"the kernelmean command needs {package}, which is not installed"
        print(f'error: {missing}: pip install "kernelmean[app]"', file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
