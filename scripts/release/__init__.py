"""What a release is made of and checked by: `python -m scripts.release --help`."""
