"""`python -m kernelmean`: the `kernelmean` command."""

from .app import main

if __name__ == "__main__":
    main()
