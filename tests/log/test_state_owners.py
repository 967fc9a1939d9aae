"""Each piece of a log's state has one writer: no module assigns a field of an object that it does not own."""

from __future__ import annotations

import ast
from pathlib import Path

import headrace.log

LOG = Path(headrace.log.__file__).parent

# Records inside an owner, and objects that are still being created.
ALLOWED = {
    "folder/data_folder.py": {"partitions", "overrides", "deleting"},
    "folder/upkeep.py": {"clean"},
    "producers/producer_state.py": {"epoch", "last_timestamp", "coordinator_epoch"},
    "producers/verification.py": {"epoch", "lowest_sequence"},
    "segments/offset_index.py": {"offsets", "positions", "saved"},
    "segments/segment_files.py": {"file", "used"},
    "segments/time_index.py": {"timestamps", "offsets", "saved"},
}


def assigned(module: Path) -> set[str]:
    """The fields of objects other than `self` that a module assigns or deletes."""
    return {
        node.attr
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }


def test_only_owners_assign_fields() -> None:
    found = {str(path.relative_to(LOG)): fields for path in LOG.rglob("*.py") if (fields := assigned(path))}
    assert found == ALLOWED
