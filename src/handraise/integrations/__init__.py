"""Integrations with agent frameworks, protocols and engines, one module or package for each.

Each needs its own extra.

A pause of the framework becomes a question that holds the framework's ids, and the outcome resumes the
framework in its own way. State is stored only in the desk.
"""
