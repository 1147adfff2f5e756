"""The description on a package index: the README, with addresses in place of paths, which lead nowhere from there."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

HOME = "https://github.com/handraise/handraise"
PICTURES = "https://raw.githubusercontent.com/handraise/handraise"


def described(readme: str, version: str) -> str:
    """The README as it can be read anywhere."""
    pictures = re.sub(r'(<img src=")(?!https?:)', rf"\g<1>{PICTURES}/v{version}/", readme)
    return re.sub(r"(\]\()(?!https?:|#|mailto:)", rf"\g<1>{HOME}/blob/v{version}/", pictures)


class ReadmeHook(MetadataHookInterface):
    """Puts the description into the metadata of a distribution."""

    def update(self, metadata: dict[str, object]) -> None:
        """Add the description."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": described(text, str(metadata["version"])),
        }
