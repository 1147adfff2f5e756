"""Glue to agent frameworks, protocols and engines, one file for each. Each needs an extra of its own.

A pause of the framework becomes a question with the framework's ids in it, and an outcome becomes the framework's own
way to resume. Nothing here keeps anything: the desk does.
"""
