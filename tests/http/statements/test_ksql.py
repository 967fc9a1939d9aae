"""`/ksql` and the small endpoints: ksqlDB's shapes of answers and errors."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from headrace.pipeline.serving.service import StatementService


def ksql(client: httpx.Client, text: str, **fields: Any) -> list[dict[str, Any]]:
    answer = client.post("/ksql", json={"ksql": text, **fields})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def refused(client: httpx.Client, text: str, **fields: Any) -> dict[str, Any]:
    answer = client.post("/ksql", json={"ksql": text, **fields})
    content: dict[str, Any] = answer.json()
    assert answer.status_code == content["error_code"] // 100, answer.text
    return content


def stream(name: str, **properties: object) -> str:
    given = {"KAFKA_TOPIC": f"'{name.lower()}'", "VALUE_FORMAT": "'JSON'", "PARTITIONS": 1, **properties}
    listed = ", ".join(f"{key}={value}" for key, value in given.items() if value is not None)
    return f"CREATE STREAM {name} (id VARCHAR KEY, v BIGINT) WITH ({listed});"


def test_creating_a_stream(client: httpx.Client, service: StatementService, name: str) -> None:
    (created,) = ksql(client, stream(name, PARTITIONS=3))
    sequence = created.pop("commandSequenceNumber")
    assert created == {
        "@type": "currentStatus",
        "statementText": stream(name, PARTITIONS=3),
        "commandId": f"stream/`{name}`/create",
        "commandStatus": {"status": "SUCCESS", "message": "Stream created", "queryId": None},
        "warnings": [],
    }
    topic = service.cluster.topic(name.lower())
    assert topic is not None
    assert topic.partitions == 3
    assert service.log.catalogue.sources[name].partitions == 3
    assert ksql(client, "SHOW STREAMS;", commandSequenceNumber=sequence)
    for path in (f"/status/stream/`{name}`/create", f"/status/stream/{name}/create"):
        assert client.get(path).json() == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    assert client.get("/status").json()["commandStatuses"][f"stream/`{name}`/create"] == "SUCCESS"


def test_a_topic_that_is_not_there_is_made_and_told(
    client: httpx.Client, service: StatementService, name: str
) -> None:
    (created,) = ksql(client, stream(name, PARTITIONS=None))
    assert "did not exist" in created["warnings"][0]["message"]
    topic = service.cluster.topic(name.lower())
    assert topic is not None
    assert service.log.catalogue.sources[name].partitions == topic.partitions


def test_a_stream_of_a_query_has_ksqldbs_ids(
    client: httpx.Client, service: StatementService, name: str
) -> None:
    text = f"CREATE STREAM {name}_out WITH (PARTITIONS=2) AS SELECT id, v FROM {name};"
    made = ksql(client, stream(name) + text, streamsProperties={"ksql.streams.auto.offset.reset": "earliest"})
    assert [answer["statementText"] for answer in made] == [stream(name), text]
    number = made[1]["commandSequenceNumber"]
    query_id = f"CSAS_{name}_OUT_{number}"
    assert made[1]["commandStatus"] == {
        "status": "SUCCESS",
        "message": f"Created query with ID {query_id}",
        "queryId": query_id,
    }
    query = service.log.catalogue.queries[query_id]
    assert query.properties == (("auto.offset.reset", "earliest"),)
    assert (query.sink, query.sources) == (f"{name}_OUT", (name,))
    queries = ksql(client, "SHOW QUERIES;")[0]
    assert queries["@type"] == "queries"
    assert {
        "queryString": text,
        "sinks": [f"{name}_OUT"],
        "sinkKafkaTopics": [f"{name}_OUT"],
        "id": query_id,
        "statusCount": {"RUNNING": 1},
        "queryType": "PERSISTENT",
        "state": "RUNNING:1",
    } in queries["queries"]

    ksql(client, f"PAUSE {query_id};")
    assert service.log.catalogue.queries[query_id].paused
    (described,) = ksql(client, f"DESCRIBE {name};")
    readers = described["sourceDescription"]["readQueries"]
    assert [(reader["id"], reader["state"]) for reader in readers] == [(query_id, "PAUSED:1")]
    (resumed,) = ksql(client, f"RESUME {query_id};")
    assert resumed["commandId"] == f"resume/{query_id}/execute"
    assert not service.log.catalogue.queries[query_id].paused

    in_the_way = refused(client, f"DROP STREAM {name};")
    assert in_the_way["message"].endswith(
        f"Cannot drop {name}.\nThe following queries read from this source: [{query_id}].\n"
        "The following queries write into this source: [].\n"
        f"You need to terminate them before dropping {name}."
    )
    # Dropping what a query made ends the query.
    (dropped,) = ksql(client, f"DROP STREAM {name}_OUT DELETE TOPIC;")
    assert dropped["commandId"] == f"stream/{name}_OUT/drop"
    assert dropped["commandStatus"]["message"] == f"Source `{name}_OUT` (topic: {name}_OUT) was dropped."
    assert query_id not in service.log.catalogue.queries
    assert service.cluster.topic(f"{name}_OUT") is None
    ksql(client, f"DROP STREAM {name};")
    assert name not in service.log.catalogue.sources
    assert service.cluster.topic(name.lower()) is not None


def test_insert_into_and_terminate(client: httpx.Client, service: StatementService, name: str) -> None:
    ksql(client, stream(name) + stream(f"{name}_2"))
    (made,) = ksql(client, f"INSERT INTO {name}_2 SELECT * FROM {name};")
    query_id = f"INSERTQUERY_{made['commandSequenceNumber']}"
    assert made["commandStatus"]["queryId"] == query_id
    assert query_id in refused(client, f"DROP STREAM {name}_2;")["message"]
    (ended,) = ksql(client, f"TERMINATE {query_id};")
    assert ended["commandStatus"]["message"] == "Query terminated."
    assert query_id not in service.log.catalogue.queries
    assert f"Unknown queryId: {query_id}" in refused(client, f"TERMINATE {query_id};")["message"]


def test_a_name_in_back_quotes_gives_an_id_that_can_name_a_folder(
    client: httpx.Client, service: StatementService, name: str
) -> None:
    ksql(client, stream(name))
    (made,) = ksql(
        client, f"CREATE STREAM `{name}/../..` WITH (KAFKA_TOPIC='{name}_odd') AS SELECT * FROM {name};"
    )
    query_id = f"CSAS_{name}{'_' * len('/../..')}_{made['commandSequenceNumber']}"
    assert made["commandStatus"]["queryId"] == query_id
    ksql(client, f"TERMINATE {query_id};")
    assert query_id not in service.log.catalogue.queries


def test_show_and_describe(client: httpx.Client, name: str) -> None:
    ksql(client, stream(name))
    (streams,) = ksql(client, "LIST STREAMS;")
    assert streams["@type"] == "streams"
    assert {
        "type": "STREAM",
        "name": name,
        "topic": name.lower(),
        "keyFormat": "KAFKA",
        "valueFormat": "JSON",
        "isWindowed": False,
    } in streams["streams"]
    (topics,) = ksql(client, "SHOW TOPICS;")
    assert {"name": name.lower(), "replicaInfo": [1]} in topics["topics"]
    assert not [topic for topic in topics["topics"] if topic["name"].startswith("_")]
    (every,) = ksql(client, "SHOW ALL TOPICS;")
    assert [topic for topic in every["topics"] if topic["name"].startswith("_")]
    (described,) = ksql(client, f"DESCRIBE {name} EXTENDED;")
    about = described["sourceDescription"]
    assert described["@type"] == "sourceDescription"
    assert about["fields"] == [
        {"name": "ID", "schema": {"type": "STRING", "fields": None, "memberSchema": None}, "type": "KEY"},
        {"name": "V", "schema": {"type": "BIGINT", "fields": None, "memberSchema": None}},
    ]
    assert (about["partitions"], about["replication"], about["statement"]) == (1, 1, stream(name))
    (functions,) = ksql(client, "SHOW FUNCTIONS;")
    assert "UCASE" in {function["name"] for function in functions["functions"]}
    (function,) = ksql(client, "DESCRIBE FUNCTION UCASE;")
    assert (function["@type"], function["name"], function["type"]) == ("describe_function", "UCASE", "SCALAR")
    (form,) = function["functions"]
    assert (form["returnType"], [given["type"] for given in form["arguments"]]) == ("VARCHAR", ["VARCHAR"])
    (properties,) = ksql(client, "SET 'auto.offset.reset'='earliest'; SHOW PROPERTIES;")
    assert properties["overwrittenProperties"] == ["auto.offset.reset"]
    shown = {each["name"]: (each["value"], each["editable"]) for each in properties["properties"]}
    assert shown["processing.guarantee"] == ("exactly_once_v2", False)
    (variables,) = ksql(client, "DEFINE a = 'b'; SHOW VARIABLES;", sessionVariables={"c": "d"})
    assert {"name": "C", "value": "d"} in variables["variables"]
    (plan,) = ksql(client, f"EXPLAIN SELECT * FROM {name} EMIT CHANGES;")
    assert plan["queryDescription"]["sources"] == [name]
    assert plan["queryDescription"]["executionPlan"]


def test_types_and_alter(client: httpx.Client, service: StatementService, name: str) -> None:
    (made,) = ksql(client, f"CREATE TYPE T_{name} AS STRUCT<a INT, b ARRAY<VARCHAR>>;")
    assert made["commandId"] == f"type/T_{name}/create"
    (types,) = ksql(client, "SHOW TYPES;")
    assert types["types"][f"T_{name}"]["type"] == "STRUCT"
    assert types["types"][f"T_{name}"]["fields"][1]["schema"]["memberSchema"]["type"] == "STRING"
    ksql(client, stream(name) + f"ALTER STREAM {name} ADD COLUMN w T_{name};")
    assert [column.name for column in service.log.catalogue.sources[name].value] == ["V", "W"]
    twice = refused(client, f"ALTER STREAM {name} ADD COLUMN w INT;")
    assert "A column with the same name already exists." in twice["message"]
    ksql(client, f"DROP TYPE T_{name};")
    assert "does not exist" in refused(client, f"DROP TYPE T_{name};")["message"]


def test_if_exists_and_or_replace(client: httpx.Client, service: StatementService, name: str) -> None:
    ksql(client, stream(name))
    again = refused(client, stream(name))
    assert "with the same name already exists" in again["message"]
    (warned,) = ksql(client, stream(name).replace("STREAM", "STREAM IF NOT EXISTS", 1))
    assert (warned["@type"], "already exists" in warned["message"]) == ("warning_entity", True)
    (warned,) = ksql(client, f"DROP TABLE IF EXISTS no_{name};")
    assert warned["@type"] == "warning_entity"
    wider = stream(name).replace("v BIGINT", "v BIGINT, w INT").replace("STREAM", "OR REPLACE STREAM", 1)
    ksql(client, wider)
    assert [column.name for column in service.log.catalogue.sources[name].value] == ["V", "W"]
    narrower = refused(client, stream(name).replace("STREAM", "OR REPLACE STREAM", 1))
    assert "Cannot upgrade data source" in narrower["message"]


def test_replacing_a_query_keeps_its_id(client: httpx.Client, service: StatementService, name: str) -> None:
    text = f"STREAM {name}_O AS SELECT id, v FROM {name};"
    made = ksql(client, stream(name) + f"CREATE {text}")
    query_id = made[1]["commandStatus"]["queryId"]
    (replaced,) = ksql(client, f"CREATE OR REPLACE {text}")
    assert replaced["commandStatus"]["queryId"] == query_id
    assert [query for query in service.log.catalogue.queries if name in query] == [query_id]


def test_what_comes_before_an_error_stays(client: httpx.Client, service: StatementService, name: str) -> None:
    error = refused(client, stream(name) + f"DROP STREAM no_{name}; " + stream(f"{name}_2"))
    assert error["@type"] == "statement_error"
    assert error["error_code"] == 40001
    assert error["statementText"] == f"DROP STREAM no_{name};"
    assert [entity["commandId"] for entity in error["entities"]] == [f"stream/`{name}`/create"]
    assert name in service.log.catalogue.sources
    assert f"{name}_2" not in service.log.catalogue.sources


def test_a_text_that_cannot_be_parsed_changes_nothing(
    client: httpx.Client, service: StatementService, name: str
) -> None:
    error = refused(client, stream(name) + "SHOW STREEMS;")
    assert (error["error_code"], error["entities"]) == (40001, [])
    assert "STREAMS" in error["message"]
    assert name not in service.log.catalogue.sources


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT * FROM nothing EMIT CHANGES;", 40002),
        ("PRINT nothing;", 40002),
        ("DESCRIBE nothing;", 40001),
        ("EXPLAIN nothing_1;", 40001),
        ("RUN SCRIPT 'x.sql';", 40001),
        ("INSERT INTO nothing VALUES (1);", 40001),
        ("SET 'ksql.service.id'='x';", 40001),
        ("ASSERT TOPIC nothing TIMEOUT 10 MILLISECONDS;", 41700),
        ("ASSERT SCHEMA ID 4711 TIMEOUT 10 MILLISECONDS;", 41700),
    ],
)
def test_statements_that_fail(client: httpx.Client, text: str, code: int) -> None:
    error = refused(client, text)
    assert (error["@type"], error["error_code"]) == ("statement_error", code)
    assert error["message"]
    assert error["statementText"] == text


def test_asserting(client: httpx.Client, service: StatementService, name: str) -> None:
    ksql(client, stream(name))
    subject = f"{name}-value"
    schema_id = service.schemas.register(subject, '"string"')
    topic, missing, schema = ksql(
        client,
        f"ASSERT TOPIC '{name.lower()}' WITH (PARTITIONS=1); ASSERT NOT EXISTS TOPIC 'no';"
        f"ASSERT SCHEMA SUBJECT '{subject}' ID {schema_id};",
    )
    assert (topic["@type"], topic["topicName"], topic["exists"]) == ("assert_topic", name.lower(), True)
    assert missing["exists"] is False
    assert (schema["@type"], schema["subject"], schema["id"]) == ("assert_schema", subject, schema_id)
    wrong = refused(client, f"ASSERT TOPIC '{name.lower()}' WITH (PARTITIONS=2) TIMEOUT 10 MILLISECONDS;")
    assert "expected 2 got 1" in wrong["message"]


@pytest.mark.parametrize(
    "body", ["no json", "[]", "{}", '{"ksql": 5}', '{"ksql": "SHOW STREAMS;", "streamsProperties": 5}']
)
def test_requests_that_make_no_sense(client: httpx.Client, body: str) -> None:
    answer = client.post("/ksql", content=body)
    assert (answer.status_code, answer.json()["@type"]) == (400, "generic_error")
    assert answer.json()["error_code"] == 40000


def test_prohibited_properties_are_refused(client: httpx.Client) -> None:
    error = refused(client, "SHOW STREAMS;", streamsProperties={"ksql.service.id": "x"})
    assert "[ksql.service.id]" in error["message"]
    assert client.get("/is_valid_property/ksql.service.id").json()["error_code"] == 40000
    assert client.get("/is_valid_property/auto.offset.reset").json() is True


def test_the_small_endpoints(client: httpx.Client, service: StatementService) -> None:
    info = client.get("/info").json()["KsqlServerInfo"]
    assert set(info) == {"version", "kafkaClusterId", "ksqlServiceId", "serverStatus"}
    assert info["kafkaClusterId"] == service.cluster.id()
    assert client.get("/", follow_redirects=False).headers["location"] == "/info"
    health = client.get("/healthcheck").json()
    assert (health["isHealthy"], health["details"]["kafka"]) == (True, {"isHealthy": True})
    (host,) = client.get("/clusterStatus").json()["clusterStatus"].values()
    assert host["hostAlive"] is True
    assert client.get("/v1/metadata").json()["clusterId"] == client.get("/v1/metadata/id").json()
    assert client.get("/status/stream/NO/create").json()["error_code"] == 40400
    assert client.get("/nothing").json()["error_code"] == 40400
    assert client.get("/info").headers["content-type"] == "application/vnd.ksql.v1+json"
    plain = client.get("/info", headers={"accept": "application/json"})
    assert plain.headers["content-type"] == "application/json"
    late = client.post("/ksql", json={"ksql": "SHOW STREAMS;", "commandSequenceNumber": -1})
    assert late.status_code == 200
