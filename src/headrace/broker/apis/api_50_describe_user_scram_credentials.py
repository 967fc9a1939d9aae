"""DescribeUserScramCredentials (key 50), version 0: who has which SCRAM credentials (KIP-554).

Behaviour: nobody has any. A user who is asked for by name is answered with RESOURCE_NOT_FOUND, one who is
asked for twice with DUPLICATE_RESOURCE, in the words of Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker

_TWICE: Final = "Cannot describe SCRAM credentials for the same user twice in a single request: "
_UNKNOWN: Final = "Attempt to describe a user credential that does not exist: "


def handle(_broker: Broker, request: Any, context: Context) -> Any:
    """One refusal for each name."""
    named = Counter(user.name for user in request.users or ())
    results = tuple(
        context.make(
            "DescribeUserScramCredentialsResult",
            user=name,
            error_code=ErrorCode.duplicate_resource if count > 1 else ErrorCode.resource_not_found,
            error_message=f"{_TWICE if count > 1 else _UNKNOWN}{name}",
            credential_infos=(),
        )
        for name, count in named.items()
    )
    return context.reply(error_code=ErrorCode.none, error_message="", results=results)


API = Api(key=50, name="DescribeUserScramCredentials", versions=(0, 0), handle=handle)
