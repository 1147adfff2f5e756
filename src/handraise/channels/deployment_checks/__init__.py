"""Deployment checks: a CI service sends a webhook, people decide, and the service is told. No runner waits meanwhile."""

from handraise.channels.deployment_checks.check_channel import CheckChannel, CheckRules

__all__ = ["CheckChannel", "CheckRules"]
