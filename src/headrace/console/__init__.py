"""The console: server-rendered pages, live over server-sent events, and the JSON doors of `http/query` on
the same port."""
