"""One process under supervision: started, watched, restarted when it dies, ended.

Driven by `step` (keep it running) and `drain` (end it), which the supervisor calls repeatedly from one
thread; both check, act and return, so nothing here waits for a process. Invariants: a successor starts only
once the whole family of its predecessor is gone (two Spark drivers on one lake would break exactly once);
`running` means that this very pid announced `ready` and gives signs of life; one that gives none is `stuck`,
and killed if that lasts. A process is restarted for ever. Never decides about other processes: the caller
says whether this one may start or end.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.assembly import announcements
from headrace.assembly.platform_state import Phase, ProcessState
from headrace.assembly.process_family import MARK, kill_family, mark, stopped_members
from headrace.assembly.process_specs import ProcessSpec
from headrace.assembly.restarts import DeathRecord, RestartPolicy
from headrace.assembly.run_process import EXIT_HOPELESS
from headrace.assembly.signs_of_life import Watch
from headrace.core.settings import ENVIRONMENT_PREFIX, Settings, to_environment

_log = logging.getLogger(__name__)
# A process that announced `failed` exits by itself; if it hangs instead, it is killed after this time.
_FAILED_SECONDS: Final = 5.0
# A killed process ends at once, unless the kernel holds it (on a dead network disk, say).
_KILL_SECONDS: Final = 2.0
_LONGEST_REASON: Final = 400
_LARGEST_LOG_BYTES: Final = 16 * 1024 * 1024
_LAST_LINES_BYTES: Final = 16 * 1024


class SupervisedProcess:
    """The life of one process, across all its restarts."""

    def __init__(
        self,
        spec: ProcessSpec,
        settings: Settings,
        *,
        policy: RestartPolicy,
        pipe: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = spec
        self.deaths = DeathRecord()
        # Set when it ended in a way that only a change of the machine or the settings can fix.
        self.hopeless = False
        self.was_ready = False
        # Why it last died.
        self.reason = ""
        self.retry_at = 0.0
        self._settings = settings
        self._policy = policy
        self._pipe = pipe
        self._clock = clock
        self._popen: subprocess.Popen[bytes] | None = None
        self._mark = mark(settings.data_dir, spec.name)
        self._ready_at: float | None = None
        self._deadline = 0.0
        self._grace = spec.grace(settings)
        self._failed_at: float | None = None
        self._signs = Watch(settings, spec.name)
        self._stuck_since: float | None = None
        # The pid of a predecessor whose family could not be killed yet.
        self._remains_of: int | None = None
        self._phase: Phase = "waiting"
        self._detail = self._waiting_for()
        self._since = time.time()

    @property
    def state(self) -> ProcessState:
        return ProcessState(
            name=self.spec.name,
            state=self._phase,
            pid=self._popen.pid if self._popen is not None else None,
            restarts=self.deaths.ever,
            since=self._since,
            detail=self._detail,
        )

    @property
    def broken(self) -> bool:
        """Whether it is beyond a bad start: it cannot run here, or died again and again."""
        return self.hopeless or self.deaths.in_a_row >= self._policy.attempts

    @property
    def log_path(self) -> Path:
        return self._settings.log_dir / f"{self.spec.name}.log"

    def step(self, *, may_start: bool) -> None:
        """Keep it running: watch it, and start it if it is due and `may_start`."""
        if self._popen is not None:
            self._look(self._popen)
        elif self._clock() >= self.retry_at:
            if may_start:
                self._start()
            else:
                self._enter("waiting", self._waiting_for())

    def drain(self, *, may_end: bool) -> None:
        """End it: ask it to stop once `may_end`, and kill its family when the grace period is over."""
        if self._popen is None:
            self._enter("stopped", self._detail if self._phase == "restarting" else "")
        elif self._popen.poll() is not None:
            self._ended(self._popen.returncode)
        elif self._phase != "stopping":
            if may_end:
                self._popen.send_signal(signal.SIGTERM)
                # One that was stopped would not notice.
                self._popen.send_signal(signal.SIGCONT)
                self._deadline = self._clock() + self._grace
                self._enter("stopping", f"has {self._grace:g} s")
        elif self._clock() >= self._deadline:
            _log.warning("%s did not end within %g s; killing it", self.spec.name, self._grace)
            self.kill()

    def kill(self) -> None:
        """Kill it and everything it started, at once."""
        popen = self._popen
        if popen is None:
            self._enter("stopped", "")
            return
        popen.kill()
        popen.wait()
        self._ended(popen.returncode)

    def last_lines(self, count: int = 12) -> list[str]:
        """The end of its log file."""
        try:
            with self.log_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LAST_LINES_BYTES))
                return file.read().decode(errors="replace").splitlines()[-count:]
        except FileNotFoundError:
            return []

    def _start(self) -> None:
        if self._remains_of is not None and not self._clean_up(self._remains_of):
            self.retry_at = self._clock() + self._policy.longest_delay
            self._enter("restarting", f"cannot end processes started by pid {self._remains_of}; trying again")
            return
        try:
            self._popen = self._spawn()
        except OSError as error:
            self._died(f"cannot be started: {error.strerror}")
            return
        self._ready_at = self._failed_at = self._stuck_since = None
        self._deadline = self._clock() + self.spec.start_seconds
        _log.info("%s started as pid %d", self.spec.name, self._popen.pid)
        self._enter("starting", self._with_failures(""))

    def _spawn(self) -> subprocess.Popen[bytes]:
        announcements.forget(self._settings, self.spec.name)
        self._signs.forget()
        self._settings.log_dir.mkdir(parents=True, exist_ok=True)
        if self.log_path.exists() and self.log_path.stat().st_size > _LARGEST_LOG_BYTES:
            self.log_path.replace(self.log_path.with_name(self.log_path.name + ".1"))
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
        }
        environment |= to_environment(self._settings) | {MARK: self._mark}
        with self.log_path.open("ab") as output:
            return subprocess.Popen(
                self._command(),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(self._pipe,),
                # Ctrl-C in the terminal reaches only the supervisor, which then drains in order.
                start_new_session=True,
            )

    def _command(self) -> list[str]:
        entry = [sys.executable, "-m", "headrace.assembly.run_process", self.spec.name]
        return [*entry, "--module", self.spec.module, "--supervisor-pipe", str(self._pipe)]

    def _look(self, popen: subprocess.Popen[bytes]) -> None:
        # First, so that the last announcement of a process is known when its end is reported.
        word = announcements.latest(self._settings, self.spec.name)
        own_word = word if word is not None and word.pid == popen.pid else None
        code = popen.poll()
        now = self._clock()
        if code is not None:
            self._clean_up(popen.pid)
            said = own_word.detail if own_word is not None and own_word.state == "failed" else ""
            self.hopeless = code == EXIT_HOPELESS
            self._died(said or _exit_reason(code))
        elif own_word is None or own_word.state == "starting":
            if now >= self._deadline and self._ready_at is None:
                self._kill_useless(popen, f"not ready after {self.spec.start_seconds:g} s")
            elif own_word is not None:
                self._enter("starting", self._with_failures(own_word.detail))
        elif own_word.state == "ready":
            self._ready_at = self._ready_at if self._ready_at is not None else now
            self._failed_at = None
            self.was_ready = True
            self._listen(popen, own_word.detail, now)
        elif self._failed_at is None:
            self._failed_at = now
            self._enter("failing", own_word.detail)
        elif now - self._failed_at >= _FAILED_SECONDS:
            self._kill_useless(popen, own_word.detail)

    def _listen(self, popen: subprocess.Popen[bytes], detail: str, now: float) -> None:
        """It runs if it gives signs of life. One that gives none is killed in the end."""
        limit = self.spec.silent_seconds
        silent = self._signs.silent_for(popen.pid, now) if limit else 0.0
        if silent <= limit:
            self._stuck_since = None
            self.hopeless = False
            self._enter("running", detail)
        elif self._stuck_since is None:
            self._stuck_since = now
            _log.warning("%s (pid %d) has not answered for %d s", self.spec.name, popen.pid, silent)
            self._enter("stuck", f"does not answer{_hint(popen.pid, self._mark)}; {self._patience()}")
        elif now - self._stuck_since >= self._policy.stuck_seconds:
            self._kill_useless(popen, f"did not answer for {silent:.0f} s")

    def _patience(self) -> str:
        return f"killed and restarted if that lasts {self._policy.stuck_seconds:g} s"

    def _kill_useless(self, popen: subprocess.Popen[bytes], reason: str) -> None:
        """Kill a process that is alive but useless."""
        popen.kill()
        try:
            popen.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._enter(self._phase, f"{reason}; was killed, but has not ended yet")
            return
        self.hopeless = False
        self._clean_up(popen.pid)
        self._died(reason)

    def _died(self, reason: str) -> None:
        ready_for = self._clock() - self._ready_at if self._ready_at is not None else 0.0
        self.deaths = self.deaths.after_death(self._policy, ready_for=ready_for)
        # Trying more often does not help one that cannot run here.
        longest = min(self._policy.longest_delay, self.spec.longest_delay)
        delay = longest if self.hopeless else min(longest, self._policy.delay(self.deaths.in_a_row))
        self.reason = reason = _first_line(reason)
        self._popen = None
        self._ready_at = None
        self.retry_at = self._clock() + delay
        _log.warning("%s died (%s); restarting it in %g s", self.spec.name, reason, delay)
        self._enter("restarting", self._with_failures(f"again in {delay:g} s", reason))

    def _with_failures(self, detail: str, reason: str = "") -> str:
        """What it says or does, and for one that is broken why: also while it is started again."""
        known = reason
        if self.broken:
            times = f"failed {self.deaths.in_a_row} times in a row" if self.deaths.in_a_row > 1 else "failed"
            known = f"{times}: {self.reason}; its log is {self.log_path}"
        return "; ".join(text for text in (known, detail) if text)

    def _ended(self, code: int) -> None:
        if self._popen is not None:
            self._clean_up(self._popen.pid)
        self._popen = None
        _log.info("%s ended: %s", self.spec.name, _exit_reason(code))
        self._enter("stopped", "" if code == 0 else _exit_reason(code))

    def _clean_up(self, pid: int) -> bool:
        # Immediately after its end was noticed: until then no other process can have got this pid.
        gone = kill_family(pid, self._mark)
        self._remains_of = None if gone else pid
        if not gone:
            _log.error("cannot end a process that %s (pid %d) started", self.spec.name, pid)
        return gone

    def _enter(self, phase: Phase, detail: str) -> None:
        if phase != self._phase:
            self._since = time.time()
        self._phase, self._detail = phase, detail

    def _waiting_for(self) -> str:
        return "for " + ", ".join(self.spec.needs) if self.spec.needs else ""


def _first_line(reason: str) -> str:
    """Without a backtrace: the log has all of it."""
    line = next(iter(reason.splitlines()), "")
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"


def _hint(pid: int, family_mark: str) -> str:
    stopped = stopped_members(pid, family_mark)
    if not stopped:
        return ""
    pids = " ".join(str(each) for each in stopped)
    return f": stopped by a signal, `kill -CONT {pids}` lets it go on"


def _exit_reason(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
