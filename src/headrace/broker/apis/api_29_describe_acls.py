"""DescribeAcls (key 29), versions 1 to 3: access control lists.

Behaviour: always SECURITY_DISABLED, as in Apache Kafka without an authorizer: everyone may do everything.

Version notes: 1 has pattern types (KIP-290), 2 is flexible, 3 knows resources of type user (KIP-373).
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_acls.v3 import request as requests
from kio.schema.describe_acls.v3 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.wire.messages import NO_THROTTLE

DISABLED: Final = "No Authorizer is configured on the broker"


def handle(
    _broker: Broker, _request: requests.DescribeAclsRequest, _context: Context
) -> responses.DescribeAclsResponse:
    """Always the same answer."""
    return responses.DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.security_disabled,
        error_message=DISABLED,
        resources=(),
    )


HANDLER = Typed(requests.DescribeAclsRequest, responses.DescribeAclsResponse, handle)
