"""Classic groups under random schedules of requests, delays, restarts and failed writes.

Clients behave as clients may: they join, ask for assignments, send heartbeats, commit, leave, come back under
their instance id, forget who they were, send things twice and late. After every step these hold:

1. In a generation a partition has one owner, also across restarts.
2. A restart gives the state that was there before it: generation, members, assignments, offsets.
3. Whoever waits is in exactly one place where it will be answered from; nobody is answered twice (the runtime
   checks that), and when all clients fall silent everybody is answered, and the group is empty in the end.
4. Only members of the current generation may commit or are told that all is well.
5. The group's own rules: joins wait while a rebalance is prepared, syncs while it is completed; there is a
   leader exactly when there are members; whatever can take too long has a timer.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from kio.schema.errors import ErrorCode

from headrace.coordination.classic.group import ClassicGroup, join_timer, session_timer, sync_timer
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.classic.states import State
from headrace.coordination.replies import JoinReply, SyncReply
from headrace.coordination.requests import LeavingMember, OffsetToCommit
from tests.coordination.runtime import GROUP, REBALANCE_MS, SESSION_MS, Runtime, offers

PARTITIONS = 4
NUMBER_OF_CLIENTS = 7
PROTOCOLS = (("range",), ("range",), ("range", "sticky"), ("sticky", "range"), ("other",))


class Client:
    """One consumer: what it believes about itself, and what it waits for."""

    def __init__(self, number: int, instance_id: str | None) -> None:
        self.number = number
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.members: tuple[str, ...] = ()
        self.leads = False
        self.join: int | None = None
        self.sync: int | None = None

    @property
    def identity(self) -> str:
        """The owner of its partitions: a static member is the same one under any member id."""
        return self.instance_id or self.member_id

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.join = self.sync = None


def durable(runtime: Runtime) -> dict[str, Any]:
    """What must survive a restart. Protocols besides the chosen one do not."""
    state: dict[str, Any] = {}
    for group_id, group in runtime.groups.items():
        assert isinstance(group, ClassicGroup)
        settled = group.settled
        state[group_id] = (
            settled.generation,
            settled.protocol_type,
            settled.protocol,
            settled.leader,
            settled.state_since_ms,
            settled.topics,
            [
                (one.member_id, one.instance_id, one.assignment, one.metadata(settled.protocol))
                for one in settled.members.values()
            ],
            runtime.offsets.committed(group_id),
        )
    return state


class ClassicGroupMachine(RuleBasedStateMachine):
    clients = Bundle("clients")

    @initialize(target=clients, delay_ms=st.sampled_from([0, 3_000]), max_size=st.sampled_from([3, 100, 100]))
    def start(self, delay_ms: int, max_size: int) -> Any:
        self.runtime = Runtime(
            classic=ClassicSettings(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        )
        self.owners: dict[tuple[int, int], str] = {}
        self.all = [Client(number, None) for number in range(4)]
        # Two with the same instance id: one fences the other.
        self.all += [Client(4, "a"), Client(5, "a"), Client(6, "b")]
        return multiple(*self.all)

    # What clients do.

    def _hear(self) -> None:
        """Clients process the replies since the last step."""
        if GROUP not in self.runtime.groups:
            # A new group of the same name is another group: its generations start over.
            self.owners.clear()
            for client in self.all:
                client.generation = -1
        for client in self.all:
            if client.join is not None and client.join in self.runtime.answers:
                self._hear_join(client, self.runtime.joined(client.join))
                client.join = None
            if client.sync is not None and client.sync in self.runtime.answers:
                self._hear_sync(client, self.runtime.synced(client.sync))
                client.sync = None

    def _hear_join(self, client: Client, reply: JoinReply) -> None:
        if reply.error is ErrorCode.none:
            client.member_id = reply.member_id
            client.generation = reply.generation
            client.members = tuple(one.member_id for one in reply.members)
            client.leads = reply.leader == reply.member_id and not reply.skip_assignment
            assert not client.members or reply.leader == reply.member_id
        elif reply.error is ErrorCode.member_id_required:
            client.member_id = reply.member_id
        elif reply.error is not ErrorCode.rebalance_in_progress:
            client.forget()

    def _hear_sync(self, client: Client, reply: SyncReply) -> None:
        if reply.error is not ErrorCode.none:
            assert reply.assignment == b""
            return
        for partition in reply.assignment:
            owner = self.owners.setdefault((client.generation, partition), client.identity)
            assert owner == client.identity, f"{partition} has two owners in {client.generation}"

    @rule(client=clients, names=st.sampled_from(PROTOCOLS), topics=st.sampled_from([("a",), ("a", "b")]))
    def joins(self, client: Client, names: tuple[str, ...], topics: tuple[str, ...]) -> None:
        client.join = self.runtime.ask_join(
            member_id=client.member_id,
            instance_id=client.instance_id,
            client_id=f"client-{client.number}",
            protocols=offers(*names, topics=topics),
        )
        self._hear()

    @rule(client=clients)
    def joins_properly(self, client: Client) -> None:
        """With the id that it got, like a real client."""
        for _ in range(2):
            self.joins(client=client, names=("range",), topics=("a",))
            if client.join is not None or client.generation >= 0:
                return

    @rule(client=clients)
    def asks_for_its_assignment(self, client: Client) -> None:
        if not client.member_id or client.generation < 0:
            return
        assignments: dict[str, bytes] = {}
        if client.leads and client.members:
            for partition in range(PARTITIONS):
                member_id = client.members[partition % len(client.members)]
                assignments[member_id] = assignments.get(member_id, b"") + bytes((partition,))
        client.sync = self.runtime.ask_sync(
            client.member_id, client.generation, assignments, instance_id=client.instance_id
        )
        self._hear()

    @rule(numbers=st.sets(st.integers(0, NUMBER_OF_CLIENTS - 1), min_size=1), in_order=st.booleans())
    def they_settle(self, numbers: set[int], in_order: bool) -> None:
        """These clients and all current members do what is necessary, like clients without any trouble."""
        group = self.runtime.classic.group(GROUP)
        members = {} if group is None else dict(group.members)
        taking_part = [one for one in self.all if one.number in numbers or one.member_id in members]
        for client in taking_part:
            self.joins_properly(client=client)
        self.time_passes(by_ms=3_000)
        self.time_passes(by_ms=3_000)
        for client in taking_part if in_order else reversed(taking_part):
            self.asks_for_its_assignment(client=client)

    @rule(client=clients, behind=st.sampled_from([0, 0, 0, 1]))
    def sends_a_heartbeat(self, client: Client, behind: int) -> None:
        generation = client.generation - behind
        error = self.runtime.heartbeat(client.member_id, generation, instance_id=client.instance_id)
        if error in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            assert generation == self.runtime.group().generation
            assert client.member_id in self.runtime.group().members

    @rule(client=clients, behind=st.sampled_from([0, 0, 0, 1]), partition=st.integers(0, PARTITIONS - 1))
    def commits(self, client: Client, behind: int, partition: int) -> None:
        generation = max(client.generation - behind, 0)
        before = self.runtime.fetched()
        (error,) = self.runtime.commit(
            OffsetToCommit(topic="a", partition=partition, offset=len(self.runtime.log)),
            member_id=client.member_id,
            instance_id=client.instance_id,
            generation=generation,
        )
        if error is ErrorCode.none:
            assert generation == self.runtime.group().generation
            assert client.member_id in self.runtime.group().members
        else:
            assert self.runtime.fetched() == before

    @rule(client=clients, by_name=st.booleans())
    def leaves(self, client: Client, by_name: bool) -> None:
        member_id = "" if by_name and client.instance_id is not None else client.member_id
        self.runtime.leave(LeavingMember(member_id=member_id, instance_id=client.instance_id))
        self._hear()
        client.forget()

    @rule(client=clients)
    def starts_again(self, client: Client) -> None:
        client.forget()

    # What happens to them.

    @rule(by_ms=st.sampled_from([0, 1, 1_000, 3_000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS, 300_000]))
    def time_passes(self, by_ms: int) -> None:
        self.runtime.advance(by_ms)
        self._hear()

    @rule()
    def all_that_live_show_it(self) -> None:
        """Lets time pass without everybody timing out."""
        group = self.runtime.classic.group(GROUP)
        if group is not None:
            for member in tuple(group.members.values()):
                self.runtime.heartbeat(member.member_id, group.generation, instance_id=member.instance_id)
        self.runtime.advance(SESSION_MS - 1)
        self._hear()

    @rule()
    def the_broker_restarts(self) -> None:
        before = durable(self.runtime)
        self.runtime.reload()
        assert durable(self.runtime) == before
        for client in self.all:
            client.join = client.sync = None

    @rule()
    def the_next_write_fails(self) -> None:
        self.runtime.fail_next_write = True

    @rule()
    def the_group_is_deleted(self) -> None:
        known = GROUP in self.runtime.groups
        empty = known and self.runtime.group().state is State.EMPTY
        error = self.runtime.delete_group()
        if error is ErrorCode.none:
            assert empty
            self._hear()

    # What holds at all times.

    @invariant()
    def whoever_waits_is_known(self) -> None:
        known: list[int] = []
        for group in self.runtime.groups.values():
            assert isinstance(group, ClassicGroup)
            if group.rebalance is not None:
                known += [*group.rebalance.joins.values(), *group.rebalance.syncs.values()]
        assert sorted(known) == sorted(self.runtime.waiting)

    @invariant()
    def the_group_keeps_its_rules(self) -> None:
        group = self.runtime.classic.group(GROUP)
        if group is None:
            return
        assert group.written
        assert (group.leader in group.members) == bool(group.members)
        assert not group.pending_joins & set(group.members)
        assert group.pending_syncs <= set(group.members)
        instances = [one.instance_id for one in group.members.values() if one.instance_id is not None]
        assert len(instances) == len(set(instances))
        rebalance = group.rebalance
        waiting: set[str] = set()
        if rebalance is not None:
            assert rebalance.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)
            assert not rebalance.joins or rebalance.state is State.PREPARING_REBALANCE
            assert not rebalance.syncs or rebalance.state is State.COMPLETING_REBALANCE
            waiting = {*rebalance.joins, *rebalance.syncs}
            assert waiting <= set(rebalance.members)
            assert rebalance.generation >= group.settled.generation
        timers = self.runtime.timers
        for member_id in {*group.members, *group.pending_joins} - waiting:
            assert session_timer(GROUP, member_id) in timers
        preparing = group.state is State.PREPARING_REBALANCE
        assert (join_timer(GROUP) in timers) == preparing
        assert (sync_timer(GROUP) in timers) == bool(group.pending_syncs)

    def teardown(self) -> None:
        if not hasattr(self, "runtime"):
            return
        self.runtime.fail_next_write = False
        # Everybody falls silent, for longer than any session, rebalance or first join may take.
        self.runtime.advance(3_600_000)
        assert not self.runtime.waiting
        if GROUP in self.runtime.groups:
            assert self.runtime.group().state is State.EMPTY
            assert not self.runtime.group().pending_joins
        before = durable(self.runtime)
        self.runtime.reload()
        assert durable(self.runtime) == before


TestClassicGroups = ClassicGroupMachine.TestCase
TestClassicGroups.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
