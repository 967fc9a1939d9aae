"""The outcomes of proposals: the rule by which several registries agree without locks or messages.

A registration is first written as a proposal, under a key that nobody else uses; its place in the log is its
turn. Every registry computes the same outcome and writes it as a schema record; then the proposal is retired.
The rule: a schema that has an id keeps it; any other gets the lowest free id, counting from the proposed one.
Its version is the proposed one. If that version is taken, the proposal is void: its registry had checked
compatibility with the versions before that one only, and must check again. Earlier proposals choose first.

Invariant: the outcome of a proposal is fixed once it is in the log, whatever follows it, in whatever order
schema records are written, and whatever compaction removes. This holds because later schema records belong to
other proposals, whose outcomes do not use this one's id or version; and because a proposal that compaction
removed has its schema record in the log, which occupies the same id and version. So all schema records with
one key are equal, whoever writes them and however often. No I/O, no locks, no time.
"""

from __future__ import annotations

from headrace.registry.avro import AvroSchema
from headrace.registry.records import ProposalRecord, SchemaRecord
from headrace.registry.state import RegistryState, decide_registration


def propose(state: RegistryState, proposal: str, subject: str, schema: AvroSchema) -> ProposalRecord | None:
    """The proposal to write, or None if the subject has the schema already."""
    wanted = decide_registration(state, subject, schema)
    if wanted is None:
        return None
    return ProposalRecord(
        proposal=proposal, subject=subject, version=wanted.version, id=wanted.id, schema=schema.text
    )


def outcomes(state: RegistryState) -> dict[str, SchemaRecord]:
    """The schema record of each open proposal that is not void, in the order of the log.

    The outcome of a proposal is right once the log has been read to its end after the proposal. Before that,
    an earlier proposal may have been compacted away while its schema record has not been read yet.
    """
    found: dict[str, SchemaRecord] = {}
    by_subject: dict[tuple[str, str], SchemaRecord] = {}
    by_identity: dict[str, SchemaRecord] = {}
    taken_ids: set[int] = set()
    taken_versions: set[tuple[str, int]] = set()
    for proposal, identity in state.open_proposals():
        record = by_subject.get((proposal.subject, identity))
        if record is None:
            version = (proposal.subject, proposal.version)
            if version in taken_versions or state.version_is_taken(*version):
                continue
            schema_id, text = _id_and_text(state, proposal, identity, by_identity, taken_ids)
            record = SchemaRecord(
                subject=proposal.subject, version=proposal.version, id=schema_id, schema=text
            )
            by_subject[proposal.subject, identity] = record
            by_identity.setdefault(identity, record)
            taken_ids.add(schema_id)
            taken_versions.add(version)
        found[proposal.proposal] = record
    return found


def _id_and_text(
    state: RegistryState,
    proposal: ProposalRecord,
    identity: str,
    by_identity: dict[str, SchemaRecord],
    taken_ids: set[int],
) -> tuple[int, str]:
    # One id, one text, even if another spelling of the same schema is registered.
    known_id = state.id_of(identity)
    known = state.schema(known_id) if known_id is not None else by_identity.get(identity)
    if known is not None:
        return known.id, known.schema
    schema_id = proposal.id
    while schema_id in taken_ids or state.id_is_taken(schema_id):
        schema_id += 1
    return schema_id, proposal.schema
