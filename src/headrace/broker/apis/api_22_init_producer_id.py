"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer.

Behaviour: a new id with epoch 0, whatever the producer had before: it raises its epoch on its own and
comes back only when there is none left (KIP-360). One of id and epoch without the other is an
INVALID_REQUEST. Transactions are not served: a transactional id is refused with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one code at which both Java's client and librdkafka give up at
once in place of trying again until a timeout; the version range stays Kafka's, so that idempotent
producers choose the versions they are used to.

Version notes: 2 is flexible; 3 carries the id and the epoch that the producer has (KIP-360); 4 may be
answered with PRODUCER_FENCED (KIP-588), 5 with TRANSACTION_ABORTABLE (KIP-890): only transactions are.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.log.errors import LogError

_log = logging.getLogger(__name__)
_NONE: Final = -1


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """A new id, or why not."""
    code, producer_id, epoch = ErrorCode.none, _NONE, _NONE
    try:
        _check(request)
        producer_id, epoch = broker.producer_ids.take(), 0
    except (ApiError, LogError) as error:
        code = kafka_code(error)
    return context.reply(error_code=code, producer_id=producer_id, producer_epoch=epoch)


def _check(request: Any) -> None:
    """Raises ApiError."""
    has_id = getattr(request, "producer_id", _NONE) != _NONE
    has_epoch = getattr(request, "producer_epoch", _NONE) != _NONE
    if has_id != has_epoch or request.transactional_id == "":
        raise ApiError(ErrorCode.invalid_request)
    if request.transactional_id is not None:
        # The code says little and the reply has no room for more: whoever looks for the reason finds it here.
        _log.warning("transactions are not served: %s is refused", request.transactional_id)
        raise ApiError(ErrorCode.transactional_id_authorization_failed)


API = Api(key=22, name="InitProducerId", versions=(0, 5), handle=handle)
