"""Ctrl-C while the command is still being read, by which time none of its own code has a say."""

import sys
from pathlib import Path

# a script of the command's name, or `python -m kernelmean`, which is "-m" until it is found
if [Path(word).stem for word in sys.argv[:1]] in (["kernelmean"], ["-m"]):
    sys.excepthook = lambda kind, *more: (
        print("error: interrupted", file=sys.stderr)
        if kind is KeyboardInterrupt
        else sys.__excepthook__(kind, *more)
    )
