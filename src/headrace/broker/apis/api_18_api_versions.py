"""ApiVersions (key 18), versions 0 to 4: the APIs and versions that this broker supports.

Behaviour: returns the list in `broker/apis/__init__.py`. The version ranges are those of Apache Kafka 4.3;
unsupported keys are left out, so clients know what they cannot do. Of Kafka's features it lists those that
apply here: consumer groups of the new protocol (`group.version`, KIP-848) and transactions with an epoch each
(`transaction.version`, KIP-890), by which Java producers decide how to end one. Features of a cluster's
metadata (`metadata.version`, `kraft.version`) are not listed, because there is no such metadata.

Version notes: 3 is flexible, names the client's software (KIP-511), which is checked as in Kafka, and has
features (KIP-584). In 4 features that can be off are listed as supported too (KIP-1022). The header of the
reply never has tagged fields.
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

# Kafka's pattern for the name and version of a client's software.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
# Names and levels. Clients accept a list only if its epoch is higher than the last one they saw: if you
# change a level, raise the epoch.
FEATURES: Final = {"group.version": 1, "transaction.version": 2}
FEATURES_EPOCH: Final = 1
_SOFTWARE_FROM: Final = 3
_LISTS_WHAT_CAN_BE_OFF: Final = 4


def handle(
    _broker: Broker, request: requests.ApiVersionsRequest, context: Context
) -> responses.ApiVersionsResponse:
    """All APIs in the list."""
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
