"""Pure values and rules: what a question is, what fits it, and how it may end. No I/O, no clock."""
