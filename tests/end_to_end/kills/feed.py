"""What goes into the topics while the platform is killed, and the memory of it.

Records are made by a seeded generator, a burst at a time, and each is in its topic once: the producer is
idempotent, a killed log knows it again, and the feed rests while the power is cut. Their times go on by
themselves, a few seconds with each burst whatever the clock says; some records are late, none of them later
than the grace period of the statements.

Within a burst the tables are written before the streams, and acknowledged: a row of a stream must find the
table as it was then, or newer.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Producer

from tests.end_to_end.kills.statements import CITIES, CUSTOMERS, ORDERS, PARTITIONS, PAYMENTS

BURST_MS: Final = 10_000
LATEST_MS: Final = 20_000
# Times begin so long ago and end so much later, for the log refuses what is an hour ahead of its clock.
_AGO_MS: Final = 20 * 3_600_000
_CLOSING_MS: Final = 19 * 3_600_000
# Records of these customers only move the time on; there is one for each partition.
CLOSING: Final = "closing-"
NOWHERE: Final = "Nowhere"
MOVING: Final = "Moving"
_CITIES: Final = ("Bern", "Oslo", "Rome", MOVING, NOWHERE)
_CUSTOMERS: Final = tuple(f"customer-{number}" for number in range(12))
# Seconds between bursts; with less the queries of a small machine do nothing but begin new batches.
_PAUSES: Final = (0.3, 1.5)
# A log that stands still goes on when the next driver has started.
_PATIENCE_SECONDS: Final = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    customer: str
    number: int
    city: str
    amount: int
    items: tuple[str, ...]
    time: int
    # That of the customer when the order was sent.
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    customer: str
    number: int
    time: int


@dataclass(slots=True, kw_only=True)
class Sent:
    orders: list[Order] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    # The newest version of each customer; versions count up from 1.
    versions: dict[str, int] = field(default_factory=dict)
    countries: dict[str, str] = field(default_factory=dict)
    # All that the city that moves has ever been in.
    countries_of_moving: set[str] = field(default_factory=set)


class Feed:
    """Bursts in the background, from `start` to `finish`."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.sent = Sent()
        self._random = random.Random(seed)
        self._began = (time.time_ns() // 1_000_000 - _AGO_MS) // 60_000 * 60_000
        self._bursts = 0
        self._bootstrap = bootstrap
        self._producer = self._new_producer()
        # Held while a burst is written.
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._failures: list[BaseException] = []

    def start(self) -> None:
        for city in _CITIES:
            if city != NOWHERE:
                self._set_country(city, f"country of {city}")
        for customer in (*_CUSTOMERS, *(f"{CLOSING}{number}" for number in range(PARTITIONS))):
            self._set_version(customer, 1)
        self._flush()
        self._thread.start()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Everything is acknowledged and nothing is sent; afterwards by another producer."""
        with self._writing:
            self.check()
            yield
            self._producer = self._new_producer()

    def check(self) -> None:
        """Raises what has ended the feed before its time."""
        if self._failures:
            raise self._failures[0]

    def finish(self) -> Sent:
        """The last records, which close every window, and what was sent in all."""
        self._stopping.set()
        self._thread.join()
        self.check()
        end = self._began + _CLOSING_MS
        assert self._now() + LATEST_MS < end, "the bursts have come to the time of the closing records"
        for partition in range(PARTITIONS):
            customer = f"{CLOSING}{partition}"
            self._order(customer, end, partition)
            self._payment(customer, end, partition)
        self._flush()
        return self.sent

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._random.uniform(*_PAUSES)):
                with self._writing:
                    self._burst()
        except BaseException as error:
            self._failures.append(error)

    def _new_producer(self) -> Any:
        return Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 2})

    def _burst(self) -> None:
        self._bursts += 1
        customer = self._random.choice(_CUSTOMERS)
        self._set_version(customer, self.sent.versions[customer] + 1)
        if self._bursts % 10 == 0:
            self._set_country(MOVING, f"country {self._bursts} of {MOVING}")
        self._flush()
        for _ in range(20):
            self._order(self._random.choice(_CUSTOMERS), self._time())
        for _ in range(10):
            self._payment(self._random.choice(_CUSTOMERS), self._time())
        self._flush()

    def _now(self) -> int:
        return self._began + self._bursts * BURST_MS

    def _time(self) -> int:
        late = self._random.randrange(LATEST_MS) if self._random.random() < 0.1 else 0
        return self._now() + self._random.randrange(BURST_MS) - late

    def _order(self, customer: str, at: int, partition: int = -1) -> None:
        order = Order(
            customer=customer,
            number=len(self.sent.orders),
            city=self._random.choice(_CITIES),
            amount=self._random.randrange(100),
            items=tuple(f"item-{self._random.randrange(9)}" for _ in range(self._random.randrange(4))),
            time=at,
            version=self.sent.versions[customer],
        )
        self.sent.orders.append(order)
        content = {"number": order.number, "city": order.city, "amount": order.amount, "items": order.items}
        self._send(ORDERS, customer, json.dumps(content), at, partition)

    def _payment(self, customer: str, at: int, partition: int = -1) -> None:
        payment = Payment(customer=customer, number=len(self.sent.payments), time=at)
        self.sent.payments.append(payment)
        self._send(PAYMENTS, customer, str(payment.number), at, partition)

    def _set_version(self, customer: str, version: int) -> None:
        self.sent.versions[customer] = version
        self._send(CUSTOMERS, customer, str(version), self._now())

    def _set_country(self, city: str, country: str) -> None:
        self.sent.countries[city] = country
        if city == MOVING:
            self.sent.countries_of_moving.add(country)
        self._send(CITIES, city, country, self._now())

    def _send(self, topic: str, key: str, content: str, at: int, partition: int = -1) -> None:
        self._producer.produce(topic, content.encode(), key.encode(), partition, self._heard, timestamp=at)

    def _heard(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failures.append(AssertionError(f"the log did not take a record: {error}"))

    def _flush(self) -> None:
        left = self._producer.flush(_PATIENCE_SECONDS)
        assert left == 0, f"the log did not acknowledge {left} records"
        self.check()
