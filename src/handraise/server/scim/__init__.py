"""SCIM 2.0: a provider adds, changes, disables and removes the people and the groups of a workspace."""
