"""Results of finished parts of a study, each in a file in the folder of its results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tractable.persistence.atomic import write_text


class CachedParts:
    """Results of finished parts, so that a study can be resumed; runs may share a folder.

    Args:
        folder: folder of the results.
        settings: settings that affect the results; parts with other settings are ignored.
        resume: whether to use existing files.
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any], resume: bool) -> None:
        self.folder, self.resume = Path(folder), resume
        text = json.dumps(settings, sort_keys=True, default=str)
        self.mark = hashlib.sha256(text.encode()).hexdigest()[:8]

    def get(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the result of a part as JSON values, from its file or computed."""
        path = self.folder / f"{name}.{self.mark}.ckpt"
        if self.resume and path.is_file():
            return json.loads(path.read_text())
        found = compute()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(found))
        return found
