"""DescribeAcls (key 29), versions 1 to 3: which access control lists there are.

Behaviour: SECURITY_DISABLED, whatever is asked for, as Apache Kafka without an authorizer says: everybody may
do everything.

Version notes: 1 has types of patterns (KIP-290), 2 is flexible, 3 knows resources of type user (KIP-373).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker

DISABLED: Final = "No Authorizer is configured on the broker"


def handle(_broker: Broker, _request: Any, context: Context) -> Any:
    """Always the same."""
    return context.reply(error_code=ErrorCode.security_disabled, error_message=DISABLED, resources=())


API = Api(key=29, name="DescribeAcls", versions=(1, 3), handle=handle)
