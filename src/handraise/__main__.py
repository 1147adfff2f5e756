"""`python -m handraise` is the command `handraise`."""

from handraise.cli import main

main()
