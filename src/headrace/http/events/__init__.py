"""`POST /events`: JSON events over HTTP into the log, answered when the log has acknowledged them."""
