"""The command line that all these benchmarks share, and the engines it selects."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from side_by_side.engines import FORMER, NO_PROPERTIES, ApacheKafka, Broker, EmbeddedBroker

CONTROL_NAME = "Kafka (control)"


def parser(description: str | None, *, rounds: int = 5, warm_up: int = 1) -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--rounds", type=int, default=rounds, help=f"measured rounds (default {rounds})")
    result.add_argument("--warm-up", type=int, default=warm_up, help=f"rounds before (default {warm_up})")
    result.add_argument("--json", type=Path, metavar="FILE", help="write settings, rounds and verdicts here")
    result.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a new folder)")
    which = result.add_mutually_exclusive_group()
    which.add_argument("--only", choices=("embedded", "kafka"), help="omit the other engine")
    which.add_argument(
        "--control", action="store_true", help="Apache Kafka against itself: how far chance alone is from 1"
    )
    which.add_argument(
        "--former",
        metavar="COMMAND",
        help="compare with `headrace broker` of another checkout: has a change made it slower?",
    )
    result.add_argument(
        "--embedded-command", default="", help="a program to run instead of `headrace broker`"
    )
    result.add_argument("--kafka-heap", default="1g", help="heap of Apache Kafka (default: its script's 1g)")
    result.add_argument(
        "--kafka-property", action="append", default=[], metavar="NAME=VALUE", help="change its properties"
    )
    return result


@contextmanager
def engines(
    arguments: argparse.Namespace, properties: Mapping[str, str] = NO_PROPERTIES
) -> Iterator[Sequence[Broker]]:
    """The selected engines, not started; stopped at the end, with their folders removed, on SIGTERM too.

    `properties` are broker configs for both.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with ExitStack() as stack:
        if arguments.dir is not None:
            arguments.dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="headrace-benchmark-", dir=arguments.dir))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        kafka_properties = {**properties, **dict(each.split("=", 1) for each in arguments.kafka_property)}
        brokers: list[Broker] = []
        if arguments.control:
            brokers.append(
                ApacheKafka(
                    folder / "control",
                    name=CONTROL_NAME,
                    heap=arguments.kafka_heap,
                    properties=kafka_properties,
                )
            )
        elif arguments.only != "kafka":
            brokers.append(
                EmbeddedBroker(folder / "embedded", command=arguments.embedded_command, properties=properties)
            )
        if arguments.former:
            brokers.append(
                EmbeddedBroker(
                    folder / "former", name=FORMER, command=arguments.former, properties=properties
                )
            )
        elif arguments.only != "embedded":
            brokers.append(
                ApacheKafka(folder / "kafka", heap=arguments.kafka_heap, properties=kafka_properties)
            )
        for broker in brokers:
            stack.callback(broker.kill)
        yield brokers


@contextmanager
def started_engines(
    arguments: argparse.Namespace, properties: Mapping[str, str] = NO_PROPERTIES
) -> Iterator[Sequence[Broker]]:
    """The selected engines, all serving."""
    with engines(arguments, properties) as brokers:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.wait_ready()
        yield brokers
