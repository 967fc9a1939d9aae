"""Random Avro schemas, random changes of them, and random values, for property tests."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

_PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
_FIELDS = ["a", "b", "c"]
_SYMBOLS = ["X", "Y", "Z"]
# Full names: others would take the namespace of the record around them. The last two are for records alone,
# as fastavro takes an enum for a record of the same name in another namespace.
_NAMES = ["x.S", "x.T", "x.R", "y.R"]


class _Build:
    """One schema; each name is defined once and may be mentioned after that."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._defined: list[str] = []
        # A mention of a record that is still open needs a way out, or no value of it would end.
        self._open: set[str] = set()

    def schema(self, depth: int, *, in_union: bool = False) -> Any:
        shapes = ["primitive"] * 3
        if depth > 0:
            shapes += ["array", "map", "record", "enum", "fixed"] + ([] if in_union else ["union"] * 2)
        closed = [name for name in self._defined if name not in self._open]
        if closed:
            shapes.append("mention")
        shape = self._draw(st.sampled_from(shapes))
        if shape == "primitive":
            return self._draw(st.sampled_from(_PRIMITIVES))
        if shape == "mention":
            return self._draw(st.sampled_from(closed))
        if shape == "array":
            return {"type": "array", "items": self.schema(depth - 1)}
        if shape == "map":
            return {"type": "map", "values": self.schema(depth - 1)}
        return self._union(depth) if shape == "union" else self.named(shape, depth)

    def named(self, shape: str, depth: int) -> Any:
        names = _NAMES if shape == "record" else _NAMES[:2]
        free = [name for name in names if name not in self._defined]
        if not free:
            return "int"
        name = self._draw(st.sampled_from(free))
        self._defined.append(name)
        if shape == "enum":
            symbols = self._draw(st.lists(st.sampled_from(_SYMBOLS), min_size=1, unique=True))
            return {"type": "enum", "name": name, "symbols": symbols}
        if shape == "fixed":
            return {"type": "fixed", "name": name, "size": self._draw(st.integers(1, 2))}
        self._open.add(name)
        fields_drawn = st.lists(st.sampled_from(_FIELDS), unique=True, max_size=3)
        fields: list[dict[str, Any]] = [
            {"name": each, "type": self.schema(depth - 1)}
            if self._draw(st.integers(0, 4))
            else {"name": each, "type": ["null", name]}
            for each in self._draw(fields_drawn)
        ]
        self._open.discard(name)
        return {"type": "record", "name": name, "fields": fields}

    def _union(self, depth: int) -> Any:
        branches: dict[str, Any] = {}
        for _ in range(self._draw(st.integers(1, 3))):
            branch = self.schema(depth - 1, in_union=True)
            key = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            branches.setdefault(key, branch)
        return list(branches.values())


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Mostly records, as most schemas are."""
    build = _Build(draw)
    return build.named("record", 3) if draw(st.integers(0, 3)) else build.schema(3)


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """The schema with up to three changes, most of which a reader may survive."""
    holder = {"root": copy.deepcopy(schema)}
    for _ in range(draw(st.integers(1, 3))):
        inside, key = draw(st.sampled_from(list(_inner(holder))))
        inside[key] = _change(draw, inside[key])
    return holder["root"]


def _inner(holder: Any) -> Any:
    """Where types stand: the holder and the key under which it has one."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        value = holder[key]
        yield holder, key
        if isinstance(value, list):
            yield from _inner(value)
        elif isinstance(value, dict):
            for part in ("items", "values"):
                if part in value:
                    yield value, part
                    yield from (each for each in _inner({"it": value[part]}) if each[1] != "it")
            for field in value.get("fields", ()):
                yield field, "type"
                yield from (each for each in _inner({"it": field["type"]}) if each[1] != "it")


def _change(draw: st.DrawFn, schema: Any) -> Any:
    promotions = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
    if isinstance(schema, str):
        return draw(st.sampled_from([promotions.get(schema, schema), schema, "string"]))
    if isinstance(schema, list):
        if "null" not in schema and draw(st.booleans()):
            return ["null", *schema]
        return list(draw(st.permutations(schema)))
    if schema["type"] == "enum":
        return _changed_enum(draw, schema)
    if schema["type"] == "record":
        return _changed_record(draw, schema)
    return schema


def _changed_enum(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    symbols = draw(st.lists(st.sampled_from(_SYMBOLS), min_size=1, unique=True))
    default = {"default": symbols[0]} if draw(st.booleans()) else {}
    return {"type": "enum", "name": schema["name"], "symbols": symbols, **default}


def _changed_record(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    fields: list[dict[str, Any]] = list(schema["fields"])
    what = draw(st.sampled_from(["drop", "add", "add with default", "rename", "alias", "new name"]))
    free = [name for name in (*_FIELDS, "d") if name not in {each["name"] for each in fields}]
    if what == "drop" and fields:
        # A definition may go with it and leave a mention behind: whoever draws asks whether it is valid.
        fields.pop(draw(st.integers(0, len(fields) - 1)))
    elif what == "add" and free:
        fields.append({"name": free[0], "type": "int"})
    elif what == "add with default" and free:
        fields.append({"name": free[0], "type": ["null", "int"], "default": None})
    elif what == "rename" and fields and free:
        number = draw(st.integers(0, len(fields) - 1))
        fields[number] = {**fields[number], "name": free[-1], "aliases": [fields[number]["name"]]}
    elif what == "alias" and fields:
        fields[0] = {**fields[0], "aliases": [draw(st.sampled_from(_FIELDS))]}
    elif what == "new name":
        return {**schema, "name": "x.New", "aliases": [schema["name"]]}
    return {**schema, "fields": fields}


class Values:
    """Draws values of a schema, as fastavro takes them."""

    def __init__(self, draw: st.DrawFn, schema: Any) -> None:
        self._draw = draw
        self._named: dict[str, Any] = {}
        self._learn(schema)

    def _learn(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._learn(branch)
        elif isinstance(schema, dict):
            if "name" in schema:
                self._named[schema["name"]] = schema
            for part in ("items", "values"):
                self._learn(schema.get(part))
            for field in schema.get("fields", ()):
                self._learn(field["type"])

    def value(self, schema: Any, depth: int = 4) -> Any:  # noqa: PLR0911 - one for each shape
        draw = self._draw
        if isinstance(schema, list):
            return self._branch(schema, depth)
        if isinstance(schema, str):
            simple = _SIMPLE.get(schema)
            return draw(simple) if simple is not None else self.value(self._named[schema], depth)
        if schema["type"] == "array":
            return [self.value(schema["items"], depth - 1) for _ in range(self._size(depth))]
        if schema["type"] == "map":
            return {str(each): self.value(schema["values"], depth - 1) for each in range(self._size(depth))}
        if schema["type"] == "enum":
            return draw(st.sampled_from(schema["symbols"]))
        if schema["type"] == "fixed":
            return b"\x01" * schema["size"]
        return {each["name"]: self.value(each["type"], depth - 1) for each in schema["fields"]}

    def _size(self, depth: int) -> int:
        return self._draw(st.integers(0, 2)) if depth > 0 else 0

    def _branch(self, schema: list[Any], depth: int) -> Any:
        """Named types are said by name: several may look alike."""
        branches = ["null"] if "null" in schema and depth <= 0 else schema
        branch = self._draw(st.sampled_from(branches))
        value = self.value(branch, depth)
        kind = self._named.get(branch) if isinstance(branch, str) else branch
        name = kind.get("name") if isinstance(kind, dict) else None
        return (name, value) if name else value


_SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    # As a string may be read for bytes, the bytes are those of a text.
    "bytes": st.text(max_size=3).map(str.encode),
    "string": st.text(max_size=3),
}
