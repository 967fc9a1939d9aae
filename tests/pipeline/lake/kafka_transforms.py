"""Apache Kafka's own transformations, in a JVM of their own, on the same records.

Values go in and out as the JSON of Kafka's JsonConverter, so that no type is lost on the way. A transformed
value is put into a field first, since the door to the JVM converts what is not a record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import py4j.java_gateway
import py4j.protocol
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.lake.sink import Transformation
from headrace.lake.types import Type
from tests.pipeline.lake.plain_values import connect_schema, connect_value, from_connect, type_of
from tests.pipeline.lake.transforming import OFFSET, PARTITION, TIMESTAMP, TOPIC, Outcome

_PACKAGE = "org.apache.kafka.connect.transforms"
_WRAPPER = "it"


@contextmanager
def kafka_transforms(java: JavaRuntime, artifacts: Artifacts) -> Iterator[KafkaTransforms]:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, process = launch_gateway(
        classpath=os.pathsep.join(map(str, artifacts.jars("kafka"))),
        jarpath=str(jar),
        java_path=str(java.executable),
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Duser.language=en"],
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield KafkaTransforms(gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(timeout=60)


class KafkaTransforms:
    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self._jvm = gateway.jvm

    def outcomes(
        self, kind: Type, values: Sequence[Any], steps: Sequence[Transformation], *, has_schema: bool = True
    ) -> tuple[list[Outcome], list[Type | None], list[str]]:
        """What becomes of each value; the types of the fields in Kafka's result if it has a schema, by name;
        and the failures.
        """
        with _plain_errors():
            return self._outcomes(kind, values, steps, has_schema=has_schema)

    def _outcomes(
        self, kind: Type, values: Sequence[Any], steps: Sequence[Transformation], *, has_schema: bool
    ) -> tuple[list[Outcome], list[Type | None], list[str]]:
        converter = self._converter(has_schema=has_schema)
        stages = [self._stage(each) for each in steps]
        last = self._made(f"{_PACKAGE}.HoistField$Value", {"field": _WRAPPER})
        found, failures, types = [], [], []
        for number, value in enumerate(values):
            record = self._record(converter, kind, value, number, has_schema=has_schema)
            try:
                for predicate, negate, stage in stages:
                    if record is not None and (predicate is None or predicate.test(record) != negate):
                        record = stage.apply(record)
                if record is None:
                    found.append(Outcome(is_dropped=True))
                    continue
                record = last.apply(record)
                text = converter.fromConnectData(TOPIC, record.valueSchema(), record.value())
            except Py4JJavaError as error:
                failures.append(error.java_exception.toString())
                found.append(Outcome(fails=True))
                continue
            made = json.loads(bytes(text), parse_float=str if has_schema else float)
            if has_schema and made["schema"] is not None:
                (schema,) = made["schema"]["fields"]
                found.append(Outcome(value=from_connect(schema, made["payload"][_WRAPPER])))
                if found[-1].value is None:
                    continue
                if schema["type"] == "struct":
                    types = [type_of(each) for each in schema["fields"]]
                else:
                    types = [type_of(schema)]
            else:
                payload = made["payload"] if has_schema else made
                found.append(Outcome(value=payload[_WRAPPER]))
        return found, types, failures

    def topic(self, steps: Sequence[Transformation]) -> str:
        record = self._record(self._converter(has_schema=False), None, None, 0, has_schema=False)
        for _, _, stage in map(self._stage, steps):
            record = stage.apply(record)
        return str(record.topic())

    def _record(self, converter: Any, kind: Type | None, value: Any, number: int, *, has_schema: bool) -> Any:
        jvm = self._jvm
        text = None
        if value is not None:
            assert kind is not None
            payload = connect_value(kind, value)
            text = {"schema": connect_schema(kind), "payload": payload} if has_schema else payload
        data = converter.toConnectData(TOPIC, None if text is None else json.dumps(text).encode())
        when = jvm.org.apache.kafka.common.record.TimestampType.CREATE_TIME
        return jvm.org.apache.kafka.connect.sink.SinkRecord(
            TOPIC,
            PARTITION,
            None,
            None,
            data.schema(),
            data.value(),
            OFFSET + number,
            TIMESTAMP + number,
            when,
        )

    def _converter(self, *, has_schema: bool) -> Any:
        converter = self._jvm.org.apache.kafka.connect.json.JsonConverter()
        settings = {"schemas.enable": str(has_schema).lower(), "decimal.format": "NUMERIC"}
        converter.configure(self._map(settings), False)
        return converter

    def _stage(self, step: Transformation) -> tuple[Any, bool, Any]:
        side = f"${step.side.capitalize()}" if step.side else ""
        predicate = None
        if step.predicate is not None:
            name = f"{_PACKAGE}.predicates.{step.predicate.kind}"
            predicate = self._made(name, step.predicate.settings)
        return predicate, step.negate, self._made(f"{_PACKAGE}.{step.kind}{side}", step.settings)

    def _made(self, name: str, settings: Any) -> Any:
        made = (
            self._jvm.java.lang.Class.forName(name)
            .getDeclaredConstructor(self._gateway.new_array(self._jvm.java.lang.Class, 0))
            .newInstance(self._gateway.new_array(self._jvm.java.lang.Object, 0))
        )
        made.configure(self._map(settings))
        return made

    def _map(self, settings: Any) -> Any:
        found = self._jvm.java.util.HashMap()
        for name, value in settings.items():
            found.put(name, value)
        return found


def _plain_errors() -> Any:
    """PySpark replaces how errors of any JVM are reported; it knows Spark's only."""
    return mock.patch.object(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
