"""One file for each foreign package."""
