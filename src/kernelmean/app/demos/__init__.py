"""The jobs of `kernelmean demo`: a file each makes the tables, and `texts` has the words."""

# The quickest first: its picture is there while the others are at work.
JOBS = ("schooling", "savings", "sunspots", "pacific", "influenza", "sp500")
