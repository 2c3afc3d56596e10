"""The jobs of `kernelmean demo`."""
