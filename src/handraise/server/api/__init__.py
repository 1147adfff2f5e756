"""The HTTP API: one module for each resource of `/v1`, and what they share."""
