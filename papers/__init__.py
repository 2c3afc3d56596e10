"""Published experiments, repeated: a folder for each paper. `python -m papers --list` shows all."""
