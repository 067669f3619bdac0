"""Generated files: written only when their text changes, so that nothing is rebuilt for nothing."""

import difflib
import pathlib


class Files:
    """Collects what is generated, then writes it, lists it or compares it."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.texts: dict[pathlib.Path, str] = {}

    def add(self, path: str, text: str) -> None:
        self.texts[self.root / path] = text

    def changed(self) -> list[pathlib.Path]:
        def current(path):
            return path.read_text() if path.exists() else None

        return [path for path, text in sorted(self.texts.items()) if current(path) != text]

    def write(self) -> list[pathlib.Path]:
        changed = self.changed()
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.texts[path])
        return changed

    def differences(self, context: int = 0, limit: int = 40) -> list[str]:
        lines = []
        for path in self.changed():
            name = str(path.relative_to(self.root))
            before = path.read_text().splitlines() if path.exists() else []
            lines += difflib.unified_diff(before, self.texts[path].splitlines(), name, f"{name} (generated)", lineterm="", n=context)
        return lines[:limit] + ([f"... and {len(lines) - limit} lines more"] if len(lines) > limit else [])
