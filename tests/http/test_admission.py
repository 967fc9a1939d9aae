"""Which requests pass: by the host they name, the page that sent them, and their content type."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings, load
from headrace.http.admission import FORM, NO_TYPE, Admission, DoorRules, Refusal, check_media_type
from headrace.http.guarding import Guarded

EVIL = "http://evil.example"


def refusal(error: HeadraceError) -> Refusal:
    return Refusal(status=error.http_status, media_type="text/plain", body=str(error).encode())


STRICT = DoorRules(refusal=refusal)
LENIENT = DoorRules(
    refusal=refusal,
    media_types=frozenset({FORM, NO_TYPE, "application/x-rows"}),
    checked_by_route=frozenset({"/own"}),
)


def headers(**given: str) -> dict[bytes, bytes]:
    """`user_agent="x"` is the header `user-agent: x`."""
    return {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in given.items()}


def _failure(check: Callable[[], None]) -> HeadraceError | None:
    try:
        check()
    except HeadraceError as error:
        return error
    return None


def admits(admission: Admission, method: str = "GET", **given: str) -> str:
    """The code of the error; empty if the caller is admitted."""
    found = _failure(lambda: admission.check_caller(method, headers(**given)))
    assert found is None or (found.message and "allowed_" in found.remedy)
    return found.code if found else ""


def settings(**changes: Any) -> Settings:
    return Settings(**changes)


LOCAL = Admission.of(settings(), machine_name="box.corp.example")
OPEN = Admission.of(settings(host="0.0.0.0"), machine_name="box.corp.example")


class TestHosts:
    @pytest.mark.parametrize(
        "host",
        [
            "localhost",
            "localhost:9000",
            "LocalHost:1",
            "localhost.",
            "localhost.:80",
            "127.0.0.1:9000",
            "127.0.0.1",
            "10.1.2.3:8080",
            "[::1]:9000",
            "[::1]",
            "[2001:DB8::1]:80",
            "0.0.0.0:9000",
        ],
    )
    def test_addresses_and_localhost_are_always_known(self, host: str) -> None:
        assert admits(LOCAL, host=host) == ""
        assert admits(OPEN, host=host) == ""

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "evil.example:9000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil",
            "evil@localhost",
            "localhost@evil",
            "localhost evil",
            "localhost:80:80",
            "localhost/",
            "[localhost]",
            "::1",
            "127.1",
            "0x7f000001",
            "2130706433",
            "",
            "localhost\tx",
            ":9000",
            "[::1",
            ".localhost",
            "...",
        ],
    )
    def test_other_hosts_are_not(self, host: str) -> None:
        expected = "forbidden_host" if host else ""
        assert admits(LOCAL, host=host) == expected
        assert admits(OPEN, host=host) == expected

    def test_the_message_names_the_host_and_the_remedy_the_setting(self) -> None:
        with pytest.raises(HeadraceError) as raised:
            LOCAL.check_caller("GET", headers(host="evil.example:9000"))
        assert "evil.example:9000" in raised.value.message
        assert "`allowed_hosts`" in raised.value.remedy

    def test_a_client_without_a_host_is_no_browser(self) -> None:
        assert admits(LOCAL) == ""

    def test_the_machine_s_names_count_only_if_other_machines_can_connect(self) -> None:
        for name in ("box.corp.example:9000", "BOX:9000", "box"):
            assert admits(OPEN, host=name) == ""
            assert admits(LOCAL, host=name) == "forbidden_host"
            assert admits(Admission.of(settings(host="localhost"), machine_name="box"), host=name) != ""
            assert admits(Admission.of(settings(host="::1"), machine_name="box"), host=name) != ""
        outside = Admission.of(settings(host="192.0.2.7"), machine_name="box")
        assert admits(outside, host="box:1") == ""

    def test_the_names_in_the_settings_count(self) -> None:
        named = Admission.of(settings(host="log.test", advertised_host="kafka.test"), machine_name="box")
        for host in ("log.test", "kafka.test:9000", "localhost"):
            assert admits(named, host=host) == ""

    def test_the_setting_adds_hosts_and_subdomains(self) -> None:
        allowed = Admission.of(
            settings(allowed_hosts="Headrace.example , *.svc.cluster.local"), machine_name="box"
        )
        for host in (
            "headrace.example:80",
            "HEADRACE.example.",
            "a.svc.cluster.local",
            "a.b.svc.cluster.local:1",
        ):
            assert admits(allowed, host=host) == ""
        for host in ("x.headrace.example", "svc.cluster.local", "evilsvc.cluster.local", "evil.example"):
            assert admits(allowed, host=host) == "forbidden_host"

    def test_a_star_turns_the_check_of_hosts_off_and_no_other(self) -> None:
        anything = Admission.of(settings(allowed_hosts="*"), machine_name="box")
        assert admits(anything, host="whatever.example") == ""
        assert admits(anything, "POST", host="localhost", origin=EVIL) == "forbidden_origin"

    @given(st.binary(max_size=40))
    def test_no_host_makes_it_fail_otherwise(self, host: bytes) -> None:
        found = _failure(lambda: LOCAL.check_caller("GET", {b"host": host}))
        assert found is None or found.code == "forbidden_host"


class TestOrigins:
    @pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
    @pytest.mark.parametrize(
        ("host", "origin"),
        [
            ("localhost:9000", EVIL),
            ("localhost:9000", "null"),
            ("localhost:9000", ""),
            ("localhost:9000", "localhost:9000"),
            # Another program on this machine: the same site, but another origin.
            ("localhost:9000", "http://localhost:3000"),
            ("localhost:9000", "http://127.0.0.1:9000"),
            ("localhost:9000", "http://localhost"),
            ("localhost:9000", "http://localhost:9000.evil.example"),
            ("localhost:9000", "http://evil.example#localhost:9000"),
            ("", EVIL),
            ("", "http://"),
        ],
    )
    def test_pages_of_other_origins_are_refused(self, method: str, host: str, origin: str) -> None:
        assert admits(LOCAL, method, host=host, origin=origin) == "forbidden_origin"

    @pytest.mark.parametrize(
        ("host", "origin"),
        [
            ("localhost:9000", "http://localhost:9000"),
            ("127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("[::1]:9000", "http://[::1]:9000"),
            ("LOCALHOST:9000", "http://localhost:9000"),
            ("localhost:80", "http://localhost"),
            # Behind a proxy that speaks TLS.
            ("10.0.0.1", "https://10.0.0.1"),
            ("10.0.0.1:443", "https://10.0.0.1"),
        ],
    )
    def test_our_own_pages_are_admitted(self, host: str, origin: str) -> None:
        assert admits(LOCAL, "POST", host=host, origin=origin) == ""

    def test_a_page_behind_a_proxy_that_changes_the_host_is_known_by_what_its_browser_says(self) -> None:
        changed = {"host": "127.0.0.1:9000", "origin": "https://headrace.example"}
        assert admits(LOCAL, "POST", **changed, sec_fetch_site="same-origin") == ""
        assert admits(LOCAL, "POST", **changed, sec_fetch_site="cross-site") == "forbidden_origin"
        assert admits(LOCAL, "POST", **changed) == "forbidden_origin"

    def test_what_the_browser_says_does_not_make_a_host_known(self) -> None:
        evil = {"host": "evil.example", "origin": EVIL, "sec_fetch_site": "same-origin"}
        assert admits(LOCAL, "POST", **evil) == "forbidden_host"

    @pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new"])
    def test_without_an_origin_only_links_lead_here_from_other_sites(self, site: str) -> None:
        given = {"host": "localhost", "sec_fetch_site": site}
        assert admits(LOCAL, "GET", **given, sec_fetch_mode="navigate") == ""
        assert admits(LOCAL, "GET", **given, sec_fetch_mode="no-cors") == "forbidden_origin"
        assert admits(LOCAL, "GET", **given) == "forbidden_origin"
        assert admits(LOCAL, "POST", **given, sec_fetch_mode="navigate") == "forbidden_origin"

    def test_what_a_user_types_is_admitted(self) -> None:
        assert admits(LOCAL, host="localhost", sec_fetch_site="none", sec_fetch_mode="navigate") == ""

    def test_the_setting_adds_origins(self) -> None:
        trusting = Admission.of(settings(allowed_origins="https://App.example, http://localhost:3000"))
        for origin in ("https://app.example", "http://localhost:3000"):
            assert (
                admits(trusting, "POST", host="localhost:9000", origin=origin, sec_fetch_site="cross-site")
                == ""
            )
        for origin in ("http://app.example", "https://app.example:444", "https://x.app.example", "null"):
            assert admits(trusting, "POST", host="localhost:9000", origin=origin) == "forbidden_origin"

    @given(st.binary(max_size=40), st.binary(max_size=40))
    def test_no_origin_makes_it_fail_otherwise(self, host: bytes, origin: bytes) -> None:
        sent = {b"host": host, b"origin": origin}
        found = _failure(lambda: Admission(hosts=["*"]).check_caller("POST", sent))
        assert found is None or found.code == "forbidden_origin"


class TestSettings:
    @pytest.mark.parametrize("hosts", ["a.example:80", "http://a.example", "a b", "a,,b", "*a", "a.*", ","])
    def test_what_is_no_list_of_hosts_is_refused(self, tmp_path: Any, hosts: str) -> None:
        with pytest.raises(HeadraceError, match="without ports"):
            load({"allowed_hosts": hosts}, environ={}, folder=tmp_path)

    @pytest.mark.parametrize("origins", ["a.example", "https://a.example/", "*", "https://a b", "null"])
    def test_what_is_no_list_of_origins_is_refused(self, tmp_path: Any, origins: str) -> None:
        with pytest.raises(HeadraceError, match="origins such as"):
            load({"allowed_origins": origins}, environ={}, folder=tmp_path)

    @pytest.mark.parametrize("hosts", ["", "a", "a.example,b", "*.a.example , b", "*"])
    def test_lists_of_hosts(self, tmp_path: Any, hosts: str) -> None:
        assert load({"allowed_hosts": hosts}, environ={}, folder=tmp_path).allowed_hosts == hosts


def takes(rules: DoorRules, method: str = "POST", path: str = "/x", **given: str) -> bool:
    sent = headers(**{"content_length": "2", **given})
    found = _failure(lambda: check_media_type(method, path, sent, rules))
    assert found is None or (found.code == "unsupported_media_type" and "application/json" in found.remedy)
    return found is None


class TestContentTypes:
    @pytest.mark.parametrize(
        "content_type",
        [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.schemaregistry.v1+json",
            "application/vnd.ksql.v1+json ; q=1",
            "application/cloudevents+json",
        ],
    )
    def test_json_is_taken_from_everybody(self, content_type: str) -> None:
        assert takes(STRICT, content_type=content_type)
        assert takes(STRICT, content_type=content_type, user_agent="Mozilla/5.0", origin="http://localhost")

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
    @pytest.mark.parametrize(
        "content_type",
        [
            "text/plain",
            FORM,
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
            "text/x+json",
            "text/plain,application/x+json",
            "application/x-rows",
            "application/jsonx",
            "",
            "json",
        ],
    )
    def test_anything_else_is_not(self, method: str, content_type: str) -> None:
        assert not takes(STRICT, method, content_type=content_type)

    def test_a_body_needs_a_type(self) -> None:
        assert not takes(STRICT)
        assert not takes(STRICT, content_length="0", transfer_encoding="chunked")

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_without_a_body_there_is_nothing_to_declare(self, method: str) -> None:
        assert takes(STRICT, method, content_length="0")
        check_media_type(method, "/x", {}, STRICT)

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
    def test_requests_that_only_read_may_have_any(self, method: str) -> None:
        assert takes(STRICT, method, content_type="text/plain")

    @pytest.mark.parametrize("content_type", [FORM, NO_TYPE])
    @pytest.mark.parametrize(
        "browser",
        [
            {"user_agent": "Mozilla/5.0 (X11)"},
            {"origin": "http://localhost"},
            {"sec_fetch_site": "same-origin"},
        ],
    )
    def test_what_a_page_can_send_unasked_is_taken_only_from_others(
        self, content_type: str, browser: dict[str, str]
    ) -> None:
        assert takes(LENIENT, content_type=content_type, user_agent="curl/8.5.0")
        assert takes(LENIENT, content_type=content_type)
        assert not takes(LENIENT, content_type=content_type, **browser)

    def test_a_door_has_types_and_routes_of_its_own(self) -> None:
        assert takes(LENIENT, content_type="application/x-rows", origin="http://localhost")
        assert not takes(LENIENT, content_type="text/plain")
        assert takes(LENIENT, path="/own", content_type="text/plain")
        assert not takes(LENIENT, path="/own/", content_type="text/plain")


def ask(guarded: Guarded, kind: str = "http", method: str = "POST", **given: str) -> list[dict[str, Any]]:
    """What the server is told to send."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("a body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "path": "/x", "headers": list(headers(**given).items())}
    if kind == "http":
        scope["method"] = method
    asyncio.run(guarded(scope, receive, send))
    return sent


async def application(scope: Any, _: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
        await send({"type": "http.response.body", "body": b"reached"})
    else:
        await send({"type": f"{scope['type']}.reached"})


class TestInFrontOfAnApplication:
    guarded = Guarded(
        application,
        admission=Admission.of(Settings(allowed_origins="https://app.example")),
        rules=STRICT,
    )

    def test_a_refused_request_does_not_reach_it(self) -> None:
        start, body = ask(self.guarded, host="evil.example")
        assert start["status"] == 403
        assert (b"content-type", b"text/plain") in start["headers"]
        assert b"allowed_hosts" in body["body"]
        start, _ = ask(self.guarded, host="localhost", content_type="text/plain", content_length="1")
        assert start["status"] == 415
        start, _ = ask(self.guarded, method="OPTIONS", host="localhost", origin=EVIL)
        assert start["status"] == 403
        assert not any(name.startswith(b"access-control") for name, _ in start["headers"])

    def test_an_admitted_request_does_and_nothing_is_added(self) -> None:
        assert ask(self.guarded, host="localhost", origin="http://localhost") == [
            {"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]},
            {"type": "http.response.body", "body": b"reached"},
        ]

    def test_a_web_socket_is_checked_too(self) -> None:
        closed = [{"type": "websocket.close", "code": 1008}]
        assert ask(self.guarded, "websocket", host="localhost", origin=EVIL) == closed
        assert ask(self.guarded, "websocket", host="evil.example") == closed
        own = ask(self.guarded, "websocket", host="localhost", origin="http://localhost")
        assert own == [{"type": "websocket.reached"}]

    def test_the_life_of_the_server_is_not(self) -> None:
        assert ask(self.guarded, "lifespan") == [{"type": "lifespan.reached"}]

    def test_a_page_of_a_listed_origin_may_ask_send_and_read(self) -> None:
        listed = {"host": "localhost", "origin": "https://app.example", "sec_fetch_site": "cross-site"}
        asked = {"access_control_request_method": "PUT", "access_control_request_headers": "content-type"}
        start, _ = ask(self.guarded, method="OPTIONS", **listed, **asked)
        assert start["status"] == 204
        assert {
            (b"access-control-allow-origin", b"https://app.example"),
            (b"access-control-allow-methods", b"PUT"),
            (b"access-control-allow-headers", b"content-type"),
            (b"vary", b"origin"),
        } <= set(start["headers"])
        start, body = ask(self.guarded, **listed, content_type="application/json", content_length="2")
        assert (b"access-control-allow-origin", b"https://app.example") in start["headers"]
        assert (b"vary", b"origin") in start["headers"]
        assert body["body"] == b"reached"
        start, _ = ask(self.guarded, **listed, content_type="text/plain", content_length="2")
        assert start["status"] == 415
