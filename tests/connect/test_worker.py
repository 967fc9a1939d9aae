"""The worker: connectors and tasks start, pause, stop and fail, and take nothing else with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.connect.state.configs import TOPIC as CONFIGS
from headrace.connect.state.configs import ConfigLog, ConnectorWish
from headrace.connect.state.logs import compacted_log
from headrace.connect.state.statuses import TOPIC as STATUSES
from headrace.connect.state.statuses import Status, StatusLog
from headrace.core.errors import HeadraceError
from headrace.testing import EmbeddedBroker
from tests.connect.worker_harness import (
    SECONDS,
    Scripted,
    harness,
    scripted_sink,
    scripted_source,
    text_record,
)
from tests.gateway_process import eventually

SOURCE = "test.ScriptedSourceConnector"
SINK = "ScriptedSink"


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class TestFailures:
    @pytest.mark.parametrize("where", ["start", "poll", "stop"])
    def test_a_task_that_raises_fails_with_its_trace(
        self, broker: EmbeddedBroker, tmp_path: Path, where: str
    ) -> None:
        script, other = Scripted(), Scripted()
        script.on[where] = raising(ValueError("no luck"))
        others = scripted_source(other, class_name="test.OtherSource")
        with harness(broker.bootstrap, tmp_path, scripted_source(script), others) as it:
            it.create("other", connector_class="OtherSource")
            it.create("bad", connector_class=SOURCE)
            if where == "stop":
                it.wait_states("bad", "RUNNING", "RUNNING")
                it.service.set_target("bad", "STOPPED")
                it.wait_states("bad", "STOPPED")
            else:
                it.wait_states("bad", "RUNNING", "FAILED")
                assert "ValueError: no luck" in it.trace("bad")
            assert "stop" in script.events
            it.wait_states("other", "RUNNING", "RUNNING")

    def test_not_even_an_exit_ends_more_than_the_task(self, broker: EmbeddedBroker, tmp_path: Path) -> None:
        script = Scripted()
        script.on["start"] = raising(SystemExit(3))
        with harness(broker.bootstrap, tmp_path, scripted_source(script)) as it:
            it.create("exits", connector_class=SOURCE)
            it.wait_states("exits", "RUNNING", "FAILED")
            assert "SystemExit" in it.trace("exits")

    def test_a_connector_that_cannot_plan_its_tasks_fails(
        self, broker: EmbeddedBroker, tmp_path: Path
    ) -> None:
        def plan(_config: object, _most: int) -> list[dict[str, str]]:
            raise OSError("no database")

        plugin = scripted_source(Scripted(), task_configs=plan)
        with harness(broker.bootstrap, tmp_path, plugin) as it:
            it.create("unplanned", connector_class=SOURCE)
            it.wait_states("unplanned", "FAILED")
            assert "no database" in it.service.status("unplanned")["connector"]["trace"]

    def test_more_tasks_than_allowed_are_refused(self, broker: EmbeddedBroker, tmp_path: Path) -> None:
        plugin = scripted_source(Scripted(), task_configs=lambda config, most: [config] * (most + 1))
        with harness(broker.bootstrap, tmp_path, plugin) as it:
            it.create("many", connector_class=SOURCE, tasks_max="2")
            it.wait_states("many", "FAILED")
            assert "generated 3 tasks" in it.service.status("many")["connector"]["trace"]

    def test_a_task_that_does_not_stop_is_abandoned_and_writes_nothing_more(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script, release = Scripted(), threading.Event()

        def hang() -> None:
            release.wait(SECONDS)

        script.on["poll"] = hang
        script.to_give = [[text_record(topic_name, "late", 1)]]
        with harness(broker.bootstrap, tmp_path, scripted_source(script), graceful_seconds=0.2) as it:
            it.create("hangs", connector_class=SOURCE)
            it.wait_states("hangs", "RUNNING", "RUNNING")
            it.service.delete("hangs")
            assert it.service.names() == []
            release.set()
            eventually(lambda: "stop" in script.events, "the task came back", SECONDS)
            assert it.parts.offsets.offsets("hangs") == []

    def test_restarting_only_what_failed(self, broker: EmbeddedBroker, tmp_path: Path) -> None:
        script = Scripted()
        script.on["start"] = raising(ValueError("at first"))
        with harness(broker.bootstrap, tmp_path, scripted_source(script)) as it:
            it.create("bad", connector_class=SOURCE)
            it.wait_states("bad", "RUNNING", "FAILED")
            script.on.clear()
            plan = it.service.restart("bad", include_tasks=True, only_failed=True)
            assert (plan["connector"]["state"], plan["tasks"][0]["state"]) == ("RUNNING", "RESTARTING")
            it.wait_states("bad", "RUNNING", "RUNNING")
            assert script.events.count("start") == 2
            it.service.restart("bad", include_tasks=True, only_failed=True)
            it.service.restart_task("bad", 0)
            eventually(lambda: script.events.count("start") == 3, "only the task's own restart", SECONDS)


class TestChanges:
    def test_a_new_configuration_restarts_the_tasks_with_it(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            it.wait_states(topic_name, "RUNNING", "RUNNING")
            it.service.patch_config(topic_name, {"tasks.max": "3"})
            it.wait_states(topic_name, "RUNNING", "RUNNING", "RUNNING", "RUNNING")
            assert len(it.service.tasks(topic_name)) == 3
            it.service.patch_config(topic_name, {"tasks.max": "1"})
            it.wait_states(topic_name, "RUNNING", "RUNNING")
            eventually(
                lambda: (script.events.count("start"), script.events.count("stop")) == (1 + 3 + 1, 1 + 3),
                "each task was started and stopped once",
                SECONDS,
            )

    def test_a_connector_of_the_same_name_waits_for_the_one_before(
        self, broker: EmbeddedBroker, tmp_path: Path
    ) -> None:
        script = Scripted()
        with harness(broker.bootstrap, tmp_path, scripted_source(script)) as it:
            for _ in range(5):
                it.create("again", connector_class=SOURCE)
                it.wait_states("again", "RUNNING", "RUNNING")
                it.service.delete("again")
            assert [each for each in script.events if each != "commit"] == ["start", "stop"] * 5

    def test_a_stopped_connector_stays_stopped_after_a_restart(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        plugin = scripted_source(Scripted())
        with harness(broker.bootstrap, tmp_path, plugin, topics=topic_name) as it:
            it.create("stopped", connector_class=SOURCE)
            it.create("paused", connector_class=SOURCE)
            it.wait_states("paused", "RUNNING", "RUNNING")
            it.service.set_target("stopped", "STOPPED")
            it.service.set_target("paused", "PAUSED")
            it.wait_states("stopped", "STOPPED")
            it.wait_states("paused", "PAUSED", "PAUSED")
        script = Scripted()
        with harness(broker.bootstrap, tmp_path, scripted_source(script), topics=topic_name) as it:
            assert sorted(it.service.names()) == ["paused", "stopped"]
            it.wait_states("paused", "PAUSED", "PAUSED")
            it.wait_states("stopped", "STOPPED")
            assert script.events == []
            it.service.set_target("stopped", "STARTED")
            it.wait_states("stopped", "RUNNING", "RUNNING")

    def test_two_at_once_with_one_name(self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str) -> None:
        outcomes: list[str] = []
        plugin = scripted_source(Scripted())
        with harness(broker.bootstrap, tmp_path, plugin, topics=topic_name) as it:

            def create() -> None:
                try:
                    it.create("one", connector_class=SOURCE)
                    outcomes.append("created")
                except HeadraceError as error:
                    outcomes.append(error.code)

            threads = [threading.Thread(target=create) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(outcomes) == ["connector_exists"] * 7 + ["created"]

    @pytest.mark.long
    def test_a_change_while_the_log_is_away_is_refused_and_works_later(self, tmp_path: Path) -> None:
        plugin = scripted_source(Scripted())
        with (
            EmbeddedBroker(tmp_path / "broker") as own,
            harness(own.bootstrap, tmp_path, plugin, topics="away") as it,
        ):
            it.create("before", connector_class=SOURCE)
            it.wait_states("before", "RUNNING", "RUNNING")
            own.kill()
            with pytest.raises(HeadraceError) as refused:
                it.create("during", connector_class=SOURCE)
            assert refused.value.code == "log_unavailable"
            own.start()
            it.create("after", connector_class=SOURCE)
            it.wait_states("after", "RUNNING", "RUNNING")
            assert it.states("before") == ["RUNNING", "RUNNING"]


class TestPluginsThatRunElsewhere:
    """What the seam promises to the process that runs such plugins."""

    def test_the_worker_stores_the_wish_and_shows_what_the_other_process_writes(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        plugin = scripted_sink(
            Scripted(), new_task=None, runs_in="pipeline", refuses_unknown=True, offsets_in_group=False
        )
        # What the other process has: the same topics, and nothing else.
        configs = ConfigLog(compacted_log(broker.bootstrap, f"{topic_name}{CONFIGS}"))
        statuses = StatusLog(compacted_log(broker.bootstrap, f"{topic_name}{STATUSES}"))
        with harness(broker.bootstrap, tmp_path, plugin, topics=topic_name) as it:
            configs.start()
            statuses.start()
            try:
                with pytest.raises(HeadraceError, match="The connector has no setting levle"):
                    it.create("lake", connector_class=SINK, topics="t", levle="3")
                it.create("lake", connector_class=SINK, topics="t", level="3")
                assert it.states("lake") == ["UNASSIGNED", "UNASSIGNED"]

                eventually(lambda: configs.wish("lake") is not None, "the wish arrives", SECONDS)
                eventually(lambda: len(_wish(configs).tasks) == 1, "and its task", SECONDS)
                assert _wish(configs).target == "STARTED"
                assert _wish(configs).config["level"] == "3"
                running = Status(state="RUNNING", worker_id="pipeline", version="1")
                statuses.put_connector("lake", running)
                statuses.put_task("lake", 0, running)
                it.wait_states("lake", "RUNNING", "RUNNING")
                statuses.put_task("lake", 0, Status(state="FAILED", worker_id="pipeline", trace="no bucket"))
                it.wait_states("lake", "RUNNING", "FAILED")
                assert it.trace("lake") == "no bucket"

                before = _wish(configs)
                it.service.restart("lake", include_tasks=True, only_failed=True)
                eventually(lambda: _wish(configs).restart.version > before.restart.version, "asked", SECONDS)
                assert _wish(configs).restart.only_failed
                it.service.restart_task("lake", 0)
                it.service.patch_config("lake", {"level": "4"})
                eventually(lambda: _wish(configs).config_version > before.config_version, "new", SECONDS)

                it.service.set_target("lake", "STOPPED")
                eventually(lambda: _wish(configs).target == "STOPPED", "stopped", SECONDS)
                eventually(lambda: _wish(configs).tasks == (), "without tasks", SECONDS)
                with pytest.raises(HeadraceError, match="kept by the connector itself"):
                    it.offsets.reset("lake")
                it.service.delete("lake")
                eventually(lambda: configs.wish("lake") is None, "deleted", SECONDS)
                eventually(lambda: statuses.connector("lake") is None, "and forgotten", SECONDS)
            finally:
                configs.stop()
                statuses.stop()


def _wish(configs: ConfigLog) -> ConnectorWish:
    found = configs.wish("lake")
    assert found is not None
    return found
