"""`python -m papers`, from a clone of the repository."""

from .reproduce import app

if __name__ == "__main__":
    app(prog_name="python -m papers")
