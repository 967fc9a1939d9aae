"""ApiVersions (key 18), versions 0 to 4: what this broker understands.

Behaviour: the table of `broker/apis`, as data. The ranges are those of Apache Kafka 4.3; keys that are not
served are not named, so clients say themselves what they cannot do here.

Version notes: 3 is flexible and names the client's software (KIP-511), checked as Kafka does; 3 and 4 can
carry features (KIP-584): none are offered. The reply's header never has tagged fields.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker

# What Kafka allows for the name and the version of a client's software.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(_broker: Broker, request: Any, context: Context) -> Any:
    """Everything that `broker/apis` lists."""
    from headrace.broker.apis import ALL  # noqa: PLC0415 - this module is one of them

    name = getattr(request, "client_software_name", "headrace")
    version = getattr(request, "client_software_version", "0")
    if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
        return context.reply(error_code=ErrorCode.invalid_request, api_keys=())
    keys = tuple(
        context.make("ApiVersion", api_key=api.key, min_version=api.versions[0], max_version=api.versions[1])
        for api in ALL.values()
    )
    return context.reply(error_code=ErrorCode.none, api_keys=keys)


API = Api(key=18, name="ApiVersions", versions=(0, 4), handle=handle)
