"""Policies: rules with which the operator of a workspace decides what needs whom."""
