"""Writes changes: a proposal, then what it leads to, then that it is done.

Invariants: what a proposal leads to is written only after all proposals before it have been retired, and
every record of it has the proposal's place in the log in a header. A change returns after its records have
been read back from the log. Proposals of registries that have died are carried out by the next one that
writes. Never decides anything: `decisions.py` does.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Final

from headrace.client.followed import CompactedLog
from headrace.core.errors import HTTP_STATUS, HeadraceError
from headrace.registry.changes import Change, Register
from headrace.registry.compatibility import incompatibility
from headrace.registry.decisions import Decision, decide
from headrace.registry.records import (
    OUTCOME_HEADER,
    PROPOSAL_HEADER,
    Effect,
    ProposalRecord,
    RetiredProposalRecord,
    encode_key,
    encode_value,
)
from headrace.registry.state import OpenProposal, RegistryState

_log = logging.getLogger(__name__)

# It usually takes milliseconds. If it takes longer, the proposal is retired once more.
_RETIRING_SECONDS: Final = 0.5
# What a topic takes unless it is told otherwise, less what surrounds a schema in its record.
_LARGEST_RECORD: Final = 990_000
_UNKNOWN: Final = Decision()


class ChangeWriter:
    """Carries out the changes of one registry. Safe for several threads."""

    def __init__(self, log: CompactedLog, state: RegistryState, *, timeout: float) -> None:
        self._log = log
        self._state = state
        self._timeout = timeout
        # Held during a change: one registry writes one change at a time.
        self._changing = threading.Lock()
        # Of our own proposals: what became of them, if another registry was faster.
        self._outcomes: dict[str, Decision | None] = {}
        # Our last proposal, which was retired without waiting for it.
        self._retiring = ""

    def change(self, change: Change) -> tuple[int, ...]:
        """What the client is told. Raises the refusal, or log_unavailable."""
        _check_size(change)
        self._prepare(change)
        with self._changing:
            try:
                decision = self._change(change)
            finally:
                self._outcomes.clear()
        if decision.refusal is not None:
            raise decision.refusal
        return decision.reply

    def _change(self, change: Change) -> Decision:
        deadline = time.monotonic() + self._timeout
        self._log.read_to_end()
        if self._retiring:
            self._log.wait_for(lambda: not self._state.is_open(self._retiring), _RETIRING_SECONDS)
            self._retiring = ""
        self._carry_out_until("", deadline)
        decision = self._decided(change)
        while decision.effects:
            proposal = self._proposed(change)
            if proposal:
                return self._carry_out_until(proposal, deadline)
            self._check_time(deadline)
            self._carry_out_until("", deadline)
            decision = self._decided(change)
        return decision

    def note_outcome(self, proposal: str, headers: Mapping[str, bytes]) -> None:
        """A proposal was retired. Runs in the reading thread."""
        if self._outcomes.get(proposal, _UNKNOWN) is None:
            self._outcomes[proposal] = _outcome(headers.get(OUTCOME_HEADER, b""))

    def repair(self, held: Effect, turn: int | None) -> None:
        """Write again what a late record has overwritten. Runs in the reading thread."""
        _log.info("a record in %s came too late; it is written over: %s", self._log.topic, held)
        self._log.append_later(encode_key(held), encode_value(held), _headers(turn))

    def _proposed(self, change: Change) -> str:
        """The proposal, once it is in the log; empty if it may not be there."""
        # A new one for each attempt: a lost one may still arrive, and is then carried out as well.
        record = ProposalRecord(proposal=uuid.uuid4().hex, change=change)
        self._outcomes[record.proposal] = None
        if self._log.append(encode_key(record), encode_value(record)):
            return record.proposal
        self._log.read_to_end()
        with self._log.progress:
            if self._state.is_open(record.proposal) or self._outcomes[record.proposal] is not None:
                return record.proposal
        return ""

    def _carry_out_until(self, own: str, deadline: float) -> Decision:
        """Carries out open proposals in turn: all, or up to our own, whose decision it returns."""
        decisions: dict[str, Decision] = {}
        while True:
            with self._log.progress:
                first = self._state.first_open()
                is_done = first is None if not own else not self._state.is_open(own)
            if is_done or first is None:
                return self._final(own, decisions)
            self._check_time(deadline)
            proposal = first.record.proposal
            decision = self._decided(first.record.change)
            decisions.setdefault(proposal, decision)
            if decision.effects:
                self._write(decision.effects, first)
            elif proposal == own:
                self._retire(own, decisions[own], waits=False)
                return self._final(own, decisions)
            else:
                self._retire(proposal, decisions[proposal], waits=True)

    def _final(self, own: str, decisions: Mapping[str, Decision]) -> Decision:
        outcome = self._outcomes.pop(own, None)
        return decisions.get(own) or outcome or Decision()

    def _write(self, effects: tuple[Effect, ...], first: OpenProposal) -> None:
        """Returns when the log has been read, whether or not it has them: the caller decides again."""
        headers = _headers(first.turn)
        for effect in effects[:-1]:
            self._log.append_later(encode_key(effect), encode_value(effect), headers)
        if not self._log.append(encode_key(effects[-1]), encode_value(effects[-1]), headers):
            self._log.read_to_end()

    def _retire(self, proposal: str, decision: Decision, *, waits: bool) -> None:
        record = RetiredProposalRecord(proposal=proposal)
        headers = ((OUTCOME_HEADER, _encoded(decision)),)
        if not waits:
            self._retiring = proposal
            self._log.append_later(encode_key(record), encode_value(record), headers)
        elif not self._log.append(encode_key(record), encode_value(record), headers):
            self._log.read_to_end()

    def _decided(self, change: Change) -> Decision:
        self._prepare(change)
        with self._log.progress:
            return decide(self._state, change)

    def _prepare(self, change: Change) -> None:
        """Does the work of a decision that takes time, so that nobody waits for the state meanwhile.

        What it finds is remembered where it is computed. Raises nothing: the decision does.
        """
        if not isinstance(change, Register):
            return
        with self._log.progress:
            level, versions = self._state.level(change.subject), self._state.versions(change.subject)
        try:
            schema = self._state.read_new(change.schema_type, change.schema, change.references)
            incompatibility(level, schema, versions, self._state.read)
        except HeadraceError:
            return

    def _check_time(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            raise self._log.late("write the change")


def _check_size(change: Change) -> None:
    """Raises schema_too_large."""
    size = len(encode_value(ProposalRecord(proposal="", change=change)) or b"")
    if size > _LARGEST_RECORD:
        raise HeadraceError(
            "schema_too_large",
            f"The schema takes {size} bytes in the log, in which quotes and other characters take more than "
            f"one; {_LARGEST_RECORD} are allowed.",
        )


def _headers(turn: int | None) -> tuple[tuple[str, bytes], ...]:
    return () if turn is None else ((PROPOSAL_HEADER, str(turn).encode("ascii")),)


def _encoded(decision: Decision) -> bytes:
    refusal = decision.refusal
    content: dict[str, object] = {"reply": decision.reply}
    if refusal is not None:
        content = {"code": refusal.code, "message": refusal.message, "remedy": refusal.remedy}
    return json.dumps(content).encode("utf-8")


def _outcome(content: bytes) -> Decision:
    try:
        outcome = json.loads(content)
        if "reply" in outcome:
            return Decision(reply=tuple(int(each) for each in outcome["reply"]))
        code = outcome["code"] if outcome["code"] in HTTP_STATUS else "change_not_permitted"
        return Decision(refusal=HeadraceError(code, outcome["message"], remedy=outcome["remedy"]))
    except (ValueError, KeyError, TypeError):
        return Decision()
