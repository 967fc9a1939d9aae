"""Versions of tables and freshness through PostgreSQL's protocol, with psycopg."""

from __future__ import annotations

import psycopg
import pytest

from tests.query.postgres.conftest import Door


def test_a_table_at_a_version(door: Door) -> None:
    with psycopg.connect(door.conninfo, autocommit=True) as connection:
        (number,) = connection.execute("SELECT count(*) FROM events").fetchone() or (0,)
        at_first = connection.execute("SELECT count(events.user_id) FROM events AS OF VERSION 0").fetchone()
        assert at_first == (number,)
        joined = (
            "SELECT count(*) FROM events AS OF VERSION 0 a JOIN events FOR VERSION AS OF 0 b "
            "ON a.user_id = b.user_id WHERE a.user_id <> %s"
        )
        assert connection.execute(joined, ["nobody"]).fetchone() is not None
        with pytest.raises(psycopg.Error, match="no version 7 yet"):
            connection.execute("SELECT * FROM events AS OF VERSION 7")
        assert connection.execute("SELECT count(*) FROM events WITH (freshness = lake)").fetchone() == (
            number,
        )
        with pytest.raises(psycopg.Error, match="no freshness `later`"):
            connection.execute("SELECT count(*) FROM events WITH (freshness = later)")


def test_division_knows_the_columns_of_a_version(door: Door) -> None:
    """PostgreSQL divides integers without a rest: which columns are integers is asked of that version."""
    with psycopg.connect(door.conninfo, autocommit=True) as connection:
        columns = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'kinds' "
            "AND data_type = 'integer'"
        ).fetchall()
        name = columns[0][0]
        now = connection.execute(f'SELECT "{name}" / 2 FROM kinds').fetchall()
        then = connection.execute(f'SELECT "{name}" / 2 FROM kinds AS OF VERSION 0').fetchall()
        assert then == now
        assert all(value is None or isinstance(value, int) for (value,) in then)


def test_a_topic_needs_a_running_platform(door: Door) -> None:
    with (
        psycopg.connect(door.conninfo, autocommit=True) as connection,
        pytest.raises(psycopg.Error, match="Topics cannot be asked here"),
    ):
        connection.execute('SELECT _offset FROM topic."events"')
