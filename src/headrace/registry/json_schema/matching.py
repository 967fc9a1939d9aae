"""Pairs the parts of two unions: whether each part of the smaller one can have a partner of its own."""

from __future__ import annotations

from collections.abc import Sequence


def can_match_all(edges: Sequence[Sequence[bool]]) -> bool:
    """`edges[i][j]` says whether row i and column j may be partners."""
    rows, columns = len(edges), len(edges[0]) if edges else 0
    if rows > columns:
        return can_match_all([[edges[row][column] for row in range(rows)] for column in range(columns)])
    partner_of: dict[int, int] = {}
    return all(_found_partner(edges, row, partner_of) for row in range(rows))


def _found_partner(edges: Sequence[Sequence[bool]], row: int, partner_of: dict[int, int]) -> bool:
    """Finds a column for the row, by a chain in which each row gives up its column for another (Berge)."""
    reached_from: dict[int, int] = {}
    ahead = [row]
    while ahead:
        current = ahead.pop()
        for column, may in enumerate(edges[current]):
            if not may or column in reached_from:
                continue
            reached_from[column] = current
            if column in partner_of:
                ahead.append(partner_of[column])
                continue
            _hand_over(column, row, reached_from, partner_of)
            return True
    return False


def _hand_over(free: int, row: int, reached_from: dict[int, int], partner_of: dict[int, int]) -> None:
    column_of = {owner: column for column, owner in partner_of.items()}
    column = free
    while True:
        owner = reached_from[column]
        partner_of[column] = owner
        if owner == row:
            return
        column = column_of[owner]
