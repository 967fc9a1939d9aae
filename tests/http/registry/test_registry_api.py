"""The routes of deletion, references, modes and lists, in Confluent's shapes; and requests that mean harm."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.http.registry.media_types import chosen

RECORD = '{"type":"record","name":"R%s","fields":[]}'


def register(client: httpx.Client, subject: str, schema: str, **more: Any) -> int:
    answer = client.post(f"/subjects/{subject}/versions", json={"schema": schema, **more})
    assert answer.status_code == 200, answer.text
    assert answer.json()["guid"]
    return int(answer.json()["id"])


def code(answer: httpx.Response) -> int:
    assert set(answer.json()) == {"error_code", "message"}
    assert answer.status_code == int(str(answer.json()["error_code"])[:3])
    return int(answer.json()["error_code"])


def test_lists_show_what_is_asked_for(client: httpx.Client, topic_name: str) -> None:
    one, two, gone = (f"{topic_name}-{name}" for name in ("a", "b", "c"))
    first = register(client, one, '"int"')
    second = register(client, one, '"long"')
    register(client, two, '"int"')
    register(client, gone, '"int"')
    assert client.delete(f"/subjects/{gone}").json() == [1]
    assert client.delete(f"/subjects/{one}/versions/latest").json() == 2

    def get(path: str, **params: Any) -> Any:
        return client.get(path, params={"subjectPrefix": topic_name, **params}).json()

    assert get("/subjects") == get("/subjects", subjectPrefix=f":*:{topic_name}") == [one, two]
    assert get("/subjects", deleted=True) == [one, two, gone]
    assert get("/subjects", deletedOnly=True) == [gone]
    assert get("/subjects", deleted=True, offset=1, limit=1) == [two]
    assert get("/subjects", limit=-1, offset=0) == [one, two]
    assert get(f"/subjects/{one}/versions") == [1]
    assert get(f"/subjects/{one}/versions", deleted=True) == [1, 2]
    assert get(f"/subjects/{one}/versions", deletedOnly=True) == [2]
    assert get(f"/schemas/ids/{first}/subjects") == [one, two]
    assert get(f"/schemas/ids/{first}/subjects", deleted=True) == [one, two, gone]
    assert get(f"/schemas/ids/{second}/versions") == []
    assert get(f"/schemas/ids/{second}/versions", deleted=True) == [{"subject": one, "version": 2}]
    assert get(f"/schemas/ids/{second}")["schema"] == '"long"'
    assert get(f"/schemas/ids/{first}", fetchMaxId=True)["maxId"] >= second
    assert [(each["subject"], each["version"]) for each in get("/schemas")] == [(one, 1), (two, 1)]
    shown = get("/schemas", deleted=True, latestOnly=True)
    assert [(each["subject"], each["version"], each.get("deleted")) for each in shown] == [
        (one, 2, True),
        (two, 1, None),
        (gone, 1, True),
    ]
    guid = shown[1]["guid"]
    assert client.get(f"/schemas/guids/{guid}").json()["schema"] == '"int"'
    assert {"context": ".", "id": first} in client.get(f"/schemas/guids/{guid}/ids").json()
    assert client.get("/contexts").json() == ["."]
    lookup = client.post(f"/subjects/{gone}", json={"schema": '"int"'})
    assert code(lookup) == 40401
    lookup = client.post(f"/subjects/{gone}", params={"deleted": True}, json={"schema": '"int"'})
    assert (lookup.json()["version"], lookup.json()["deleted"]) == (1, True)


def test_references_are_shown_from_both_ends(client: httpx.Client, topic_name: str) -> None:
    base, user = f"{topic_name}-base", f"{topic_name}-user"
    name = topic_name.replace("-", "_")
    register(client, base, RECORD % name)
    reference = {"name": f"R{name}", "subject": base, "version": -1}
    schema_id = register(client, user, f'["null","R{name}"]', references=[reference])
    path = f"/subjects/{base}/versions/1"
    assert client.get(f"{path}/referencedby").json() == [schema_id]
    shown = client.get(f"/subjects/{user}/versions/1").json()
    assert shown["references"] == [{**reference, "version": 1}]
    resolved = client.get(f"/schemas/ids/{schema_id}/schema", params={"format": "resolved"}).json()
    assert resolved == ["null", json.loads(RECORD % name)]
    refused = client.delete(path)
    assert code(refused) == 42206
    assert f"subject={base},version=1" in refused.json()["message"]
    assert client.delete(f"/subjects/{user}").json() == [1]
    assert client.get(f"{path}/referencedby").json() == []
    assert client.get(f"{path}/referencedby", params={"deleted": True}).json() == [schema_id]
    missing = {"schema": '"int"', "references": [{"name": "x", "subject": "nowhere", "version": 3}]}
    assert code(client.post(f"/subjects/{user}/versions", json=missing)) == 42201


def test_normalising_by_request_or_by_setting(client: httpx.Client, topic_name: str) -> None:
    one = json.dumps({"type": "object", "title": topic_name}, separators=(",", ":"))
    other = json.dumps({"title": topic_name, "type": "object"}, separators=(",", ":"))

    def post(subject: str, schema: str, **params: Any) -> int:
        body = {"schema": schema, "schemaType": "JSON"}
        return int(client.post(f"/subjects/{subject}/versions", params=params, json=body).json()["id"])

    assert post(f"{topic_name}-a", one) != post(f"{topic_name}-b", other)
    assert post(f"{topic_name}-c", one, normalize=True) == post(f"{topic_name}-d", other, normalize=True)
    config = f"/config/{topic_name}-e"
    assert client.put(config, json={"normalize": True}).json() == {"normalize": True}
    assert client.put(config, json={"compatibility": "FULL"}).json() == {
        "normalize": True,
        "compatibility": "FULL",
    }
    assert post(f"{topic_name}-e", one) == post(f"{topic_name}-d", other, normalize=True)
    assert client.delete(config).json() == {"normalize": True, "compatibilityLevel": "FULL"}


def test_modes(client: httpx.Client, topic_name: str) -> None:
    path, versions = f"/mode/{topic_name}", f"/subjects/{topic_name}/versions"
    assert client.get("/mode").json() == {"mode": "READWRITE"}
    assert client.get(path, params={"defaultToGlobal": True}).json() == {"mode": "READWRITE"}
    assert client.put(path, json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    imported = {"schema": '{"type":"fixed","name":"F","size":3}', "id": 90_001, "version": 4}
    assert client.post(versions, json=imported).json()["id"] == 90_001
    assert client.get(versions).json() == [4]
    assert code(client.post(versions, json={**imported, "schema": '"bytes"'})) == 42205
    assert client.put(path, json={"mode": "readonly"}).json() == {"mode": "READONLY"}
    assert code(client.post(versions, json={"schema": '"int"'})) == 42205
    assert code(client.delete(f"{versions}/4")) == 42205
    assert code(client.put(path, json={"mode": "IMPORT"})) == 42205
    assert client.put(path, params={"force": True}, json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    assert client.delete(path).json() == {"mode": "IMPORT"}
    assert code(client.get(path)) == 40409
    try:
        assert client.put("/mode", json={"mode": "READONLY_OVERRIDE"}).status_code == 200
        assert code(client.post(versions, json={"schema": '"int"'})) == 42205
    finally:
        assert client.delete("/mode").json() == {"mode": "READONLY_OVERRIDE"}
    assert client.get("/mode").json() == {"mode": "READWRITE"}


DEEP = 5_000
HARMFUL = {
    "deep avro": ("AVRO", '{"type":"array","items":' * DEEP + '"int"' + "}" * DEEP),
    "deep json": ("JSON", '{"not":' * DEEP + "{}" + "}" * DEEP),
    "deep array": ("JSON", "[" * DEEP + "]" * DEEP),
    "deep protobuf": ("PROTOBUF", "message M { " * DEEP + "}" * DEEP),
    "deep option": ("PROTOBUF", "message M { option a = " + "{ a " * DEEP + "} " * DEEP + "; }"),
    "huge": ("AVRO", json.dumps({"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(200_000)]})),
    "huge in the log": ("JSON", json.dumps({"title": "ä" * 800_000}, ensure_ascii=False)),
    "many quotes": ("JSON", json.dumps({"enum": [f"x{n}" for n in range(98_000)]}, separators=(",", ":"))),
    "many words": ("PROTOBUF", "message M { " + "reserved 1; " * 60_000 + "}"),
    "huge number": ("JSON", '{"maximum": ' + "9" * 5_000 + "}"),
    "circle": ("JSON", '{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}'),
    "name": ("AVRO", '{"type":"record","name":"a b","fields":[]}'),
    "half a character": ("JSON", '{"title":"\\ud800"}'),
    "half a character, bare": ("PROTOBUF", 'message M { option a = "\ud800"; }'),
    "base64": ("PROTOBUF", "CgNhYmM" * 50_000),
    "fetched": ("JSON", '{"$ref":"http://169.254.169.254/latest/meta-data"}'),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_schemas_are_refused_and_leave_the_registry_well(
    client: httpx.Client, topic_name: str, name: str
) -> None:
    schema_type, text = HARMFUL[name]
    body = json.dumps({"schema": text, "schemaType": schema_type})
    answer = client.post(f"/subjects/{topic_name}/versions", content=body)
    assert code(answer) in {42201, 42209}, answer.text[:200]
    assert len(answer.content) < 10_000
    checked = client.post(f"/compatibility/subjects/{topic_name}/versions", content=body)
    assert checked.status_code < 500
    assert register(client, topic_name, '"int"')


def test_one_schema_may_be_named_by_many_subjects_without_knowing_of_each_other(
    client: httpx.Client, topic_name: str
) -> None:
    """The same name of a record means another one in another subject."""
    name = topic_name.replace("-", "_")
    plain, other = RECORD % name, RECORD.replace("[]", '[{"name":"x","type":"int"}]') % name
    ids = [
        register(client, f"{topic_name}-{number}", each) for number, each in enumerate((plain, other, plain))
    ]
    assert ids[0] == ids[2] != ids[1]
    using = client.post(f"/subjects/{topic_name}-3/versions", json={"schema": f'["null","R{name}"]'})
    assert code(using) == 42201


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "application/vnd.schemaregistry.v1+json"),
        ("*/*", "application/vnd.schemaregistry.v1+json"),
        ("text/html", "application/vnd.schemaregistry.v1+json"),
        ("application/json", "application/json"),
        (
            "application/json;q=0.5, application/vnd.schemaregistry+json",
            "application/vnd.schemaregistry+json",
        ),
        ("application/json, */*;q=0.1", "application/json"),
        ("application/json;q=x;;,;", "application/vnd.schemaregistry.v1+json"),
    ],
)
def test_the_media_type_is_the_one_that_is_wanted_most(accept: str, media_type: str) -> None:
    assert chosen(accept) == media_type


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SCHEMA_TEXTS = st.sampled_from(['"int"', "{}", "message M {}", "", "[", '{"type":"record"}']) | JSON.map(
    json.dumps
)
BODIES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "schema": SCHEMA_TEXTS | JSON,
        "schemaType": st.sampled_from(["AVRO", "JSON", "PROTOBUF", "XML"]) | JSON,
        "references": st.lists(
            st.fixed_dictionaries({"name": JSON, "subject": st.just("fuzzed") | JSON, "version": JSON}),
            max_size=2,
        )
        | JSON,
        "id": JSON,
        "version": JSON,
        "metadata": JSON,
        "compatibility": st.sampled_from(["NONE", "FULL"]) | JSON,
        "normalize": JSON,
        "mode": st.sampled_from(["READWRITE", "IMPORT"]) | JSON,
    },
)
SUBJECT = st.sampled_from(["fuzzed", "fuzzed-2", "a%2Fb", ":.x:y", "%00", "%1F", "x" * 2_000])
PATHS = st.one_of(
    st.builds("/subjects/{}/versions".format, SUBJECT),
    st.builds(
        "/subjects/{}/versions/{}".format, SUBJECT, st.sampled_from(["1", "latest", "-1", "x", "9" * 30])
    ),
    st.builds("/subjects/{}".format, SUBJECT),
    st.builds("/compatibility/subjects/{}/versions".format, SUBJECT),
    st.builds("/config/{}".format, SUBJECT),
    st.builds("/mode/{}".format, SUBJECT),
    st.sampled_from(
        ["/subjects", "/schemas", "/schemas/ids/1", "/schemas/ids/-1", "/schemas/ids/" + "9" * 30]
    ),
    st.sampled_from(["/schemas/guids/x", "/contexts", "/schemas/types", "/mode", "/", "//", "/%ff"]),
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ["deleted", "permanent", "offset", "limit", "format", "force", "normalize", "subjectPrefix"]
    ),
    st.sampled_from(["true", "false", "1", "-1", "serialized", "x", "9" * 30, ""]),
    max_size=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["GET", "POST", "PUT", "DELETE"]), PATHS, QUERIES, BODIES)
def test_no_request_makes_the_registry_fail(
    client: httpx.Client, method: str, path: str, query: dict[str, str], body: Any
) -> None:
    content = json.dumps(body) if method in {"POST", "PUT"} else None
    # The server closes a connection with a body that nobody has read; the next request may still use it.
    answer = client.request(method, path, params=query, content=content, headers={"connection": "close"})
    assert answer.status_code < 500, (method, path, query, body, answer.text)
    if answer.status_code >= 400:
        assert set(answer.json()) == {"error_code", "message"}
