"""The configuration of a workspace as a file: people, groups, addresses, routing, policy, retention and quotas.

`handraise apply` and `PUT /v1/config` do the same as these functions.
"""

from handraise.config.config_apply import apply_config, export_config, preview_config
from handraise.config.config_document import WorkspaceConfig, config_schema, parse_config
from handraise.config.config_plan import ConfigChange

__all__ = [
    "ConfigChange",
    "WorkspaceConfig",
    "apply_config",
    "config_schema",
    "export_config",
    "parse_config",
    "preview_config",
]
