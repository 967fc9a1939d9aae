"""The one error type that users see, and the one table that maps its codes to HTTP statuses.

Invariants: every code in use is in `HTTP_STATUS`; a message names the thing and the reason, and the remedy
says what to do about it. Never contains a stack trace or a secret: the text is shown to whoever made the
request.
"""

from __future__ import annotations

from typing import Final

HTTP_STATUS: Final[dict[str, int]] = {
    "after_timed_out": 504,
    "answer_too_large": 400,
    "artifact_damaged": 500,
    "artifact_unknown_group": 404,
    "artifacts_unreachable": 503,
    "assets_not_built": 500,
    "bad_event": 400,
    "bad_request": 400,
    "bad_statement": 400,
    "bucket_unavailable": 503,
    "change_not_permitted": 422,
    "connector_busy": 409,
    "connector_exists": 409,
    "connector_failed": 500,
    "connector_invalid": 400,
    "connector_not_found": 404,
    "data_dir_damaged": 500,
    "data_dir_in_use": 409,
    "event_expired": 410,
    "event_not_found": 404,
    "event_too_large": 413,
    "forbidden_host": 403,
    "forbidden_origin": 403,
    "incompatible_schema": 409,
    "invalid_schema": 422,
    "invalid_setting": 400,
    "invalid_subject": 422,
    "java_missing": 500,
    "java_too_old": 500,
    "lake_damaged": 500,
    "lake_unsupported": 500,
    "log_unavailable": 503,
    "method_not_allowed": 405,
    "no_such_page": 404,
    "no_such_table": 404,
    "no_such_topic": 404,
    "not_running": 409,
    "path_not_allowed": 400,
    "pipeline_failed": 500,
    "plugin_not_found": 404,
    "port_in_use": 409,
    "process_failed": 500,
    "query_cancelled": 409,
    "query_failed": 400,
    "query_out_of_memory": 400,
    "query_timed_out": 504,
    "query_unavailable": 503,
    "question_not_found": 404,
    "reference_exists": 422,
    "request_too_large": 413,
    "schema_not_found": 404,
    "schema_too_large": 422,
    "storage_failed": 500,
    "subject_deleted": 404,
    "subject_not_deleted": 404,
    "subject_not_found": 404,
    "too_many_questions": 429,
    "too_many_waiting": 429,
    "unknown_setting": 400,
    "unsupported_media_type": 415,
    "version_deleted": 404,
    "version_not_deleted": 404,
    "version_not_found": 404,
}


class HeadraceError(Exception):
    """A failure with a stable code, a message that names the thing and the reason, and a remedy."""

    def __init__(self, code: str, message: str, *, remedy: str = "") -> None:
        if code not in HTTP_STATUS:
            raise KeyError(f"error code {code!r} is not in the table")
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy

    @property
    def http_status(self) -> int:
        return HTTP_STATUS[self.code]

    def as_json(self) -> dict[str, str]:
        """The JSON error format of every HTTP interface that does not have to follow another."""
        return {"error": self.code, "message": self.message, "remedy": self.remedy}

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()
