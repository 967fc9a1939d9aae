"""Makes the folder tables of `docs/architecture.md` and `src/headrace/README.md` from package docstrings.

A package's docstring begins with one sentence that says what the folder owns. A paragraph that begins with
`Never:` says what it must not do. Folders stand in the order of the layers in `pyproject.toml`, so imports in
the table only go down. `make docs` writes both tables; a test fails when one of them is out of date.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headrace"
PAGES = (ROOT / "docs" / "architecture.md", PACKAGE / "README.md")
_TABLE = re.compile(r"(?<=<!-- folders -->\n).*?(?=<!-- /folders -->)", re.DOTALL)
# A README inside the package has no room for the folders inside folders.
_DEPTH = {"architecture.md": 9, "README.md": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    path: str
    owns: str
    never: str


def layer_order() -> list[str]:
    """The folders of the package, highest layer first; `testing`, which is in no layer, comes last."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in contracts["contracts"] if each.get("containers") == ["headrace"])
    names = [name.strip("() ") for layer in layers for name in layer.split("|")]
    return [*names, "testing"]


def folders() -> Iterator[Folder]:
    """Every package below `headrace`, each before the packages inside it."""
    order = layer_order()
    packages = [file.parent.relative_to(PACKAGE) for file in PACKAGE.rglob("__init__.py")]
    for package in sorted(
        packages, key=lambda path: (order.index(path.parts[0]) if path.parts else -1, path)
    ):
        if package.parts:
            yield _folder(package)


def _folder(package: Path) -> Folder:
    docstring = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8")))
    paragraphs = [" ".join(each.split()) for each in (docstring or "").split("\n\n")]
    never = [each.removeprefix("Never:").strip() for each in paragraphs if each.startswith("Never:")]
    return Folder(path=f"{package.as_posix()}/", owns=paragraphs[0], never=" ".join(never).rstrip("."))


def table(depth: int) -> str:
    rows = [
        f"| `{each.path}` | {each.owns.rstrip('.')} | {each.never} |"
        for each in folders()
        if each.path.count("/") <= depth
    ]
    return "\n".join(("| folder | owns | never |", "|---|---|---|", *rows, ""))


def page(path: Path) -> str:
    """The page as it should be."""
    text, count = _TABLE.subn(lambda _: table(_DEPTH[path.name]), path.read_text(encoding="utf-8"))
    assert count == 1, f"{path.name} has no place between <!-- folders --> and <!-- /folders -->"
    return text


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(page(each), encoding="utf-8")
    sys.exit(0)
