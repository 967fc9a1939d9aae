"""One pipeline for a data folder: the lock comes before anything is read or written. Starts no Spark."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.assembly.processes import pipeline
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings


def test_a_pipeline_takes_its_lock_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = object()
    asked: list[tuple[object, Path]] = []

    def hold(spark: object, path: Path) -> None:
        asked.append((spark, path))
        raise HeadraceError("pipeline_failed", "Another pipeline runs.")

    def too_early(*_: object) -> None:
        raise AssertionError("nothing may be asked or written without the lock")

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(pipeline, "announce", lambda *_, **__: None)
    monkeypatch.setattr(pipeline, "find_java", lambda _: SimpleNamespace(home=tmp_path))
    monkeypatch.setattr(pipeline, "Artifacts", lambda _: SimpleNamespace(spark_jars=list))
    monkeypatch.setattr(pipeline, "create_session", lambda *_, **__: session)
    monkeypatch.setattr(pipeline, "hold_writer_lock", hold)
    for name in ("Registries", "Cluster"):
        monkeypatch.setattr(pipeline, name, too_early)
    with pytest.raises(HeadraceError, match="Another pipeline runs"):
        pipeline.run(Settings(data_dir=tmp_path))
    assert asked == [(session, tmp_path / "pipeline" / ".writer")]
