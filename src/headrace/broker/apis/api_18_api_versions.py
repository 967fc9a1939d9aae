"""ApiVersions (key 18), versions 0 to 4: what this broker understands.

Behaviour: the table of `broker/apis`, as data. The ranges are those of Apache Kafka 4.3; keys that are not
served are not named, so clients say themselves what they cannot do here. Of Kafka's features those are
listed that are true of this broker: consumer groups of the new protocol (`group.version`, KIP-848) and
transactions with an epoch each (`transaction.version`, KIP-890), by which Java's producers decide how to
end one. Features of a cluster's metadata (`metadata.version`, `kraft.version`) are not: there is none.

Version notes: 3 is flexible and names the client's software (KIP-511), checked as Kafka does, and has
features (KIP-584); in 4 features are listed as supported also if they can be off (KIP-1022). The reply's
header never has tagged fields.
"""

from __future__ import annotations

import re
from typing import Final

from kio.schema.api_versions.v4 import request as requests
from kio.schema.api_versions.v4 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.apis import ALL
from headrace.broker.broker import Broker
from headrace.wire.messages import NO_THROTTLE

# What Kafka allows for the name and the version of a client's software.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
# Names and levels. Clients take over a list only if its epoch is higher than the last one they saw: whoever
# changes a level raises the epoch.
FEATURES: Final = {"group.version": 1, "transaction.version": 2}
FEATURES_EPOCH: Final = 1
_SOFTWARE_FROM: Final = 3
_LISTS_WHAT_CAN_BE_OFF: Final = 4


def handle(
    _broker: Broker, request: requests.ApiVersionsRequest, context: Context
) -> responses.ApiVersionsResponse:
    """Everything that `broker/apis` lists."""
    software = (request.client_software_name, request.client_software_version)
    if context.version >= _SOFTWARE_FROM and not all(map(_SOFTWARE.fullmatch, software)):
        return responses.ApiVersionsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.invalid_request, api_keys=()
        )
    keys = tuple(
        responses.ApiVersion(api_key=api.key, min_version=api.versions[0], max_version=api.versions[1])
        for api in ALL.values()
    )
    supported = FEATURES if context.version >= _LISTS_WHAT_CAN_BE_OFF else {}
    return responses.ApiVersionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        api_keys=keys,
        supported_features=tuple(
            responses.SupportedFeatureKey(name=feature, min_version=0, max_version=level)
            for feature, level in supported.items()
        ),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=tuple(
            responses.FinalizedFeatureKey(name=feature, max_version_level=level, min_version_level=level)
            for feature, level in FEATURES.items()
        ),
    )


HANDLER = Typed(requests.ApiVersionsRequest, responses.ApiVersionsResponse, handle)
