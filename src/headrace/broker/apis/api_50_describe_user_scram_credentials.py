"""DescribeUserScramCredentials (key 50), version 0: the SCRAM credentials of users (KIP-554).

Behaviour: there are none. A user named in the request gets RESOURCE_NOT_FOUND, one named twice
DUPLICATE_RESOURCE, with the messages of Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kio.schema.describe_user_scram_credentials.v0 import request as requests
from kio.schema.describe_user_scram_credentials.v0 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.wire.messages import NO_THROTTLE

_TWICE: Final = "Cannot describe SCRAM credentials for the same user twice in a single request: "
_UNKNOWN: Final = "Attempt to describe a user credential that does not exist: "


def handle(
    _broker: Broker, request: requests.DescribeUserScramCredentialsRequest, _context: Context
) -> responses.DescribeUserScramCredentialsResponse:
    """One error for each name."""
    named = Counter(user.name for user in request.users or ())
    results = tuple(
        responses.DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.duplicate_resource if count > 1 else ErrorCode.resource_not_found,
            error_message=f"{_TWICE if count > 1 else _UNKNOWN}{name}",
            credential_infos=(),
        )
        for name, count in named.items()
    )
    return responses.DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="", results=results
    )


HANDLER = Typed(
    requests.DescribeUserScramCredentialsRequest, responses.DescribeUserScramCredentialsResponse, handle
)
