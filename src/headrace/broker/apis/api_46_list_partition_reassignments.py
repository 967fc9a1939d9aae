"""ListPartitionReassignments (key 46), version 0: partitions that are on their way to other brokers.

Behaviour: none ever are: there is one node.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker


def handle(_broker: Broker, _request: Any, context: Context) -> Any:
    """An empty list, whichever topics were asked for."""
    return context.reply(error_code=ErrorCode.none, error_message=None, topics=())


API = Api(key=46, name="ListPartitionReassignments", versions=(0, 0), handle=handle)
