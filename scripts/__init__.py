"""Scripts for occasional work on the repository itself."""
