"""DescribeClientQuotas (key 48), versions 0 to 1: quotas of users, clients and addresses (KIP-546).

Behaviour: always empty. Requests are checked as in Apache Kafka.

Version notes: 1 is flexible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kio.schema.describe_client_quotas.v1 import request as requests
from kio.schema.describe_client_quotas.v1 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.wire.messages import NO_THROTTLE

_TYPES: Final = ("ip", "user", "client-id")
# The match types, with the names of Kafka's constants, which its messages use.
_EXACT: Final = 0
_MATCHES: Final = {_EXACT: "MATCH_TYPE_EXACT", 1: "MATCH_TYPE_DEFAULT", 2: "MATCH_TYPE_SPECIFIED"}


def handle(
    _broker: Broker, request: requests.DescribeClientQuotasRequest, _context: Context
) -> responses.DescribeClientQuotasResponse:
    """An empty list, if the request is valid."""
    try:
        _check(request.components)
    except ApiError as refusal:
        return responses.DescribeClientQuotasResponse(
            throttle_time=NO_THROTTLE, error_code=refusal.code, error_message=refusal.message, entries=None
        )
    return responses.DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="", entries=()
    )


def _check(components: Iterable[requests.ComponentData]) -> None:
    """Raises ApiError."""
    invalid = ErrorCode.invalid_request
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            raise ApiError(invalid, "Invalid empty entity type.")
        if kind in seen:
            raise ApiError(invalid, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise ApiError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        match = _MATCHES.get(each.match_type)
        if match is None:
            raise ApiError(invalid, f"Unknown match type {each.match_type}")
        if each.match_type == _EXACT and each.match is None:
            raise ApiError(invalid, f"Request specified {match}, but set match string to null.")
        if each.match_type != _EXACT and each.match is not None:
            raise ApiError(invalid, f"Request specified {match}, but also specified a match string.")
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        raise ApiError(
            invalid,
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component.",
        )


HANDLER = Typed(requests.DescribeClientQuotasRequest, responses.DescribeClientQuotasResponse, handle)
