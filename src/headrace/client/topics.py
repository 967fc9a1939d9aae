"""Topics as a flow needs to know them: does it exist, which incarnation is it, how many partitions has it.

A topic's *id* and not its name tells incarnations apart: deleted and made again it is another source. Every
answer comes fresh from the cluster; nothing is cached here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

_REQUEST_SECONDS = 10.0
_BESIDE_THE_EVENT = 1024 * 1024


def largest_message(settings: Settings) -> str:
    """How large a message of a derived topic may be, as Kafka's settings take it.

    A dead letter holds the whole event, its key is a part of it once more, and headers come on top.
    """
    return str(2 * settings.max_event_bytes + _BESIDE_THE_EVENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """One incarnation of a topic with its number of partitions."""

    name: str
    topic_id: str
    partitions: int

    @property
    def layout(self) -> str:
        """Changes whenever a key may come out at another partition (see `lake/marks.py`)."""
        return f"{self.topic_id}:{self.partitions}"


class TopicDirectory:
    """Looks topics up and makes those that a flow writes to."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def lookup(self, names: Iterable[str]) -> Mapping[str, TopicIdentity]:
        """The topics among `names` that exist. Raises log_unavailable when the cluster does not answer."""
        wanted = list(names)
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=_REQUEST_SECONDS)
        found: dict[str, TopicIdentity] = {}
        for name, future in futures.items():
            try:
                description = future.result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._unavailable(f"describe topic `{name}`", error) from error
            found[name] = TopicIdentity(
                name=name, topic_id=_topic_id(description.topic_id), partitions=len(description.partitions)
            )
        return found

    def ensure(self, name: str, *, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Make the topic unless it is there (then it stays as it is)."""
        # -1: the cluster's own default replication factor, right for one broker and for many.
        topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
        future = self._admin.create_topics([topic], request_timeout=_REQUEST_SECONDS)[name]
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._unavailable(f"create topic `{name}`", error) from error

    def _unavailable(self, action: str, error: KafkaException) -> HeadraceError:
        return HeadraceError(
            "log_unavailable",
            f"The log at {self._bootstrap} could not {action}: {error.args[0].str()}.",
            remedy="Check that the log is running (`headrace status`).",
        )


def _topic_id(identifier: object) -> str:
    """The id as Kafka's own tools print it.

    librdkafka uses the base64 alphabet with `+` and `/`; a slash would break coordinates and folder names.
    """
    return str(identifier).replace("+", "-").replace("/", "_")
