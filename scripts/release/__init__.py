"""Making and checking a release: `python -m scripts.release --help`."""
