"""Values of the catalogue for tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headrace.pipeline.catalogue.catalogue import (
    Catalogue,
    Column,
    Encoding,
    Format,
    HeaderColumn,
    KeyWindow,
    PersistentQuery,
    QueryKind,
    Source,
    StartPositions,
    TimestampColumn,
)
from headrace.pipeline.statements.queries import WindowKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import (
    BYTES,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)

texts = st.text("abcÄ`'", min_size=1, max_size=5)
types: st.SearchStrategy[DataType] = st.recursive(
    st.one_of(
        st.sampled_from(list(ScalarType)),
        st.tuples(st.integers(1, 38), st.integers(0, 10)).map(lambda pair: DecimalType(*pair)),
    ),
    lambda inner: st.one_of(
        inner.map(ArrayType),
        st.tuples(inner, inner).map(lambda pair: MapType(*pair)),
        st.lists(st.tuples(texts, inner), min_size=1, max_size=3).map(
            lambda fields: StructType(tuple(StructField(name, kind) for name, kind in fields))
        ),
    ),
    max_leaves=4,
)
columns = st.lists(st.builds(Column, name=texts, type=types), max_size=3).map(tuple)
encodings = st.builds(
    Encoding,
    format=st.sampled_from(list(Format)),
    delimiter=st.sampled_from([",", "TAB"]),
    wrapped=st.sampled_from([None, True, False]),
    schema_id=st.sampled_from([None, 7]),
    schema_name=st.sampled_from([None, "a.B"]),
)
sources = st.builds(
    Source,
    name=st.sampled_from(["A", "B", "C"]),
    kind=st.sampled_from(list(SourceKind)),
    topic=texts,
    key=columns,
    value=columns,
    key_encoding=encodings,
    value_encoding=encodings,
    headers=st.sampled_from([(), (HeaderColumn(name="H", type=BYTES, header="h"),)]),
    timestamp=st.sampled_from([None, TimestampColumn(name="T", format="yyyy")]),
    window=st.sampled_from([None, KeyWindow(kind=WindowKind.SESSION, size_ms=None)]),
    partitions=st.integers(1, 9),
    read_only=st.booleans(),
    is_global=st.booleans(),
    statement=texts,
    replicas=st.sampled_from([None, 1]),
    retention_ms=st.sampled_from([None, -1]),
    cleanup_policy=st.sampled_from([None, "compact"]),
)
_offsets = st.dictionaries(
    texts, st.dictionaries(st.integers(0, 9), st.integers(0, 2**50), max_size=2), max_size=2
)
queries = st.builds(
    PersistentQuery,
    id=texts,
    kind=st.sampled_from(list(QueryKind)),
    sink=texts,
    sources=st.lists(texts, max_size=2).map(tuple),
    statement=texts,
    paused=st.booleans(),
    properties=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    found_sources=st.lists(sources, max_size=1).map(tuple),
    found_types=st.lists(st.tuples(texts, types), max_size=1).map(tuple),
    start=st.none() | st.builds(StartPositions, sources=_offsets, sinks=_offsets, statement=texts),
)
catalogues = st.builds(
    lambda made, running, kinds: Catalogue(
        sources={source.name: source for source in made},
        queries={query.id: query for query in running},
        types=kinds,
    ),
    st.lists(sources, max_size=2),
    st.lists(queries, max_size=2),
    st.dictionaries(texts, types, max_size=2),
)


def source(name: str = "S", **changes: Any) -> Source:
    """A stream in JSON with a key of its own."""
    values: dict[str, Any] = {
        "name": name,
        "kind": SourceKind.STREAM,
        "topic": name.lower(),
        "key": (Column(name="ID", type=ScalarType.VARCHAR),),
        "value": (Column(name="V", type=ScalarType.BIGINT),),
        "key_encoding": Encoding(format=Format.KAFKA),
        "value_encoding": Encoding(format=Format.JSON),
        **changes,
    }
    return Source(**values)
