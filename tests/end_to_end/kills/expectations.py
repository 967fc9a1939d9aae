"""What the statements must have given for what was sent, worked out without the pipeline, and the comparison.

Three promises, each with its own check. A stream has every row once and no other row. A table has the right
last value for each key, and no other keys. What is final (EMIT FINAL) is said once, so it is compared as a
stream. Where a row depends on a table that changes, all answers are right that the table has had since the
row was sent.

Never raises: problems are returned, as texts.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.end_to_end.kills.feed import CLOSING, MOVING, Order, Sent
from tests.end_to_end.kills.statements import SESSION_GAP_MS, WINDOW_MS, WITHIN_MS

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record of an output topic. `window` is its start, for sessions start and end."""

    key: Any
    window: tuple[int, ...]
    value: dict[str, Any] | None


Check = Callable[[Iterable[Found]], list[str]]


def checks(sent: Sent) -> dict[str, Check]:
    """By the name of the output topic."""
    orders = [order for order in sent.orders if not order.customer.startswith(CLOSING)]
    counts = _sums([((order.customer, ()), order) for order in sent.orders])
    minutes = _sums([((order.customer, (_start(order),)), order) for order in orders])
    pairs = _pairs(sent)
    paid = {number for number, _ in pairs}
    without = {(order.number, None) for order in orders if order.number not in paid}
    joined = {number: order.customer for number, order in enumerate(sent.orders)}
    return {
        "ORDERS_AVRO": as_stream(
            (order.customer, (), {"NUMBER": order.number, "AMOUNT": order.amount}) for order in sent.orders
        ),
        "LINES": as_stream(
            (order.customer, (), {"NUMBER": order.number, "ITEM": item})
            for order in sent.orders
            if order.amount >= 50
            for item in order.items
        ),
        "BIG_ORDERS": as_stream(
            (order.customer, (), {"NUMBER": order.number}) for order in sent.orders if order.amount >= 50
        ),
        "AVRO_COUNTS": as_table(counts),
        "LINE_COUNTS": as_table(
            {
                (customer, ()): {"N": number}
                for customer, number in Counter(
                    order.customer for order in sent.orders if order.amount >= 50 for _ in order.items
                ).items()
            }
        ),
        "OF_CUSTOMER_COUNTS": as_table({place: {"N": count["N"]} for place, count in counts.items()}),
        "BY_CITY": as_stream((order.city, (), {"NUMBER": order.number}) for order in sent.orders),
        "EVERYTHING": as_stream(
            (each.customer, (), {"KIND": kind, "NUMBER": each.number})
            for kind, every in (("order", sent.orders), ("payment", sent.payments))
            for each in every
        ),
        "IN_COUNTRY": as_choice(
            {
                order.number: (order.city, "COUNTRY", _countries(order, sent))
                for order in sent.orders
                if order.city in sent.countries
            }
        ),
        "OF_CUSTOMER": as_choice(
            {
                order.number: (
                    order.customer,
                    "VERSION",
                    set(range(order.version, sent.versions[order.customer] + 1)),
                )
                for order in sent.orders
            }
        ),
        "COUNTS": as_table(counts),
        "CUSTOMERS_BY_COUNT": as_table(
            {
                (number, ()): {"CUSTOMERS": customers}
                for number, customers in Counter(each["N"] for each in counts.values()).items()
            },
            # A group that has lost all its rows may be gone or be empty; which ones there were in between is
            # up to the batches.
            is_nothing=lambda value: value == {"CUSTOMERS": 0},
        ),
        "CUSTOMER_COUNTS": as_table(
            {
                (customer, ()): {"N": count["N"], "VERSION": sent.versions[customer]}
                for (customer, _), count in counts.items()
            }
        ),
        "MINUTES": as_table(minutes),
        "FINAL_MINUTES": as_stream((key, window, value) for (key, window), value in minutes.items()),
        "SESSIONS": as_stream(_sessions(orders)),
        "PAID": as_stream(_joined(pairs, joined)),
        "PAID_OR_NOT": as_stream(_joined(pairs | without, joined)),
    }


def as_stream(rows: Iterable[tuple[Any, tuple[int, ...], dict[str, Any]]]) -> Check:
    """Every row as often as it is expected, and no other."""
    expected = Counter(_text(key, window, value) for key, window, value in rows if not is_closing(key))

    def check(found: Iterable[Found]) -> list[str]:
        there = Counter(
            _text(each.key, each.window, each.value) for each in found if not is_closing(each.key)
        )
        return _compared(expected, there)

    return check


def as_table(
    rows: Mapping[tuple[Any, tuple[int, ...]], dict[str, Any]],
    *,
    is_nothing: Callable[[dict[str, Any]], bool] = lambda _: False,
) -> Check:
    """The last value of each key, and no other keys."""
    expected = {_text(*place, value) for place, value in rows.items() if not is_closing(place[0])}

    def check(found: Iterable[Found]) -> list[str]:
        last = {(each.key, each.window): each.value for each in found if not is_closing(each.key)}
        there = {
            _text(*place, value)
            for place, value in last.items()
            if value is not None and not is_nothing(value)
        }
        return _problems("is missing", expected - there) + _problems("is wrong", there - expected)

    return check


def as_choice(rows: Mapping[int, tuple[str, str, set[Any]]]) -> Check:
    """Each number once, with its key and one of the values that are right for it."""

    def check(found: Iterable[Found]) -> list[str]:
        numbers: Counter[str] = Counter()
        wrong = set()
        for each in found:
            value = each.value or {}
            number = value.get("NUMBER")
            key, name, choice = rows.get(number, (None, "", set()))  # type: ignore[arg-type]
            if each.key == key and value.keys() == {"NUMBER", name} and value[name] in choice:
                numbers[str(number)] += 1
            else:
                wrong.add(_text(each.key, each.window, each.value))
        return _compared(Counter(map(str, rows)), numbers) + _problems("is wrong", wrong)

    return check


def once_each(expected: Iterable[str], rows: Mapping[str, int]) -> list[str]:
    """The lake, or a topic: how many rows each event has."""
    return _compared(Counter(expected), Counter(rows))


def _compared(expected: Counter[str], there: Counter[str]) -> list[str]:
    often = (
        f"{text} ({there[text]} times instead of {number})"
        for text, number in expected.items()
        if text in there and there[text] != number
    )
    return (
        _problems("is missing", expected.keys() - there.keys())
        + _problems("is wrong", there.keys() - expected.keys())
        + _problems("is there too often or too seldom", often)
    )


def _sums(orders: Iterable[tuple[tuple[str, tuple[int, ...]], Order]]) -> dict[Any, dict[str, Any]]:
    groups: dict[Any, list[Order]] = defaultdict(list)
    for place, order in orders:
        groups[place].append(order)
    return {place: _sum(group) for place, group in groups.items()}


def _sum(orders: list[Order]) -> dict[str, Any]:
    return {"N": len(orders), "TOTAL": sum(order.amount for order in orders)}


def _start(order: Order) -> int:
    return order.time // WINDOW_MS * WINDOW_MS


def _sessions(orders: list[Order]) -> Iterable[tuple[str, tuple[int, ...], dict[str, Any]]]:
    groups: dict[str, list[Order]] = defaultdict(list)
    for order in sorted(orders, key=lambda each: each.time):
        groups[order.customer].append(order)
    for customer, group in groups.items():
        session: list[Order] = []
        for order in group:
            if session and order.time - session[-1].time > SESSION_GAP_MS:
                yield customer, (session[0].time, session[-1].time), _sum(session)
                session = []
            session.append(order)
        yield customer, (session[0].time, session[-1].time), _sum(session)


def _pairs(sent: Sent) -> set[tuple[int, int | None]]:
    payments: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for payment in sorted(sent.payments, key=lambda each: each.time):
        payments[payment.customer].append((payment.time, payment.number))
    found: set[tuple[int, int | None]] = set()
    for order in sent.orders:
        near = payments[order.customer]
        first = bisect_left(near, (order.time - WITHIN_MS, -1))
        behind = bisect_left(near, (order.time + WITHIN_MS + 1, -1))
        found |= {(order.number, number) for _, number in near[first:behind]}
    return found


def _joined(
    pairs: Iterable[tuple[int, int | None]], customers: Mapping[int, str]
) -> Iterable[tuple[str, tuple[int, ...], dict[str, Any]]]:
    for number, payment in pairs:
        yield customers[number], (), {"ORDERED": number, "PAYMENT": payment}


def _countries(order: Order, sent: Sent) -> set[Any]:
    return sent.countries_of_moving if order.city == MOVING else {sent.countries[order.city]}


def is_closing(key: Any) -> bool:
    return isinstance(key, str) and key.startswith(CLOSING)


def _text(key: Any, window: tuple[int, ...], value: dict[str, Any] | None) -> str:
    return f"{key} {window or ''} {json.dumps(value, sort_keys=True)}"


def _problems(what: str, which: Iterable[str]) -> list[str]:
    texts = sorted(which)
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return [f"{what}: {text}" for text in texts[:_SHOWN]] + more
