"""Ctrl-C while the command is still being read, by which time none of its own code has a say."""

import sys


def _hook(kind: type[BaseException], *more) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("error: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, *more)


# a script of the command's name, or `python -m kernelmean`, which is "-m" until it is found
if [word.rpartition("/")[2] for word in sys.argv[:1]] in (["kernelmean"], ["-m"]):
    sys.excepthook = _hook
