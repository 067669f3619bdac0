"""Calls of functions that may end the process."""

import io
import json
import os
import pathlib
import resource
import signal
import sys
import tempfile
import time
import traceback

import torch

SECONDS = 60  # of CPU time: a machine that does other things meanwhile does not count


def limit(seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def call(function, *arguments):
    """The function's value, computed in a process of its own; a RuntimeError with its message if it raises that, a ChildProcessError that says
    how the process ended otherwise."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        limit(SECONDS)
        try:
            answer = function(*arguments)
        except RuntimeError as error:
            answer = RuntimeError(str(error))
        except BaseException:
            answer = RuntimeError(traceback.format_exc(limit=-2)[-300:])
        with os.fdopen(writer, "wb") as stream:
            torch.save(answer, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    if status or not data:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        raise ChildProcessError(signal.Signals(number).name if number else f"status {status}")
    answer = torch.load(io.BytesIO(data), weights_only=False)
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def silence():
    """Nothing that this process prints is seen from here on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def report_each(items, report, jobs, seconds):
    """Yields (item, its report, seconds that it took) as they come, `jobs` at once. `report(item, folder)` gives what JSON can hold, in a process of its
    own, which ends with all that it has started after so many `seconds`; in its place there is an Ending if the process has ended without."""
    running, waiting = {}, list(reversed(items))
    with tempfile.TemporaryDirectory(prefix="kiln-reports-") as folder:
        try:
            while running or waiting:
                while waiting and len(running) < jobs:
                    item = waiting.pop()
                    path = pathlib.Path(folder) / f"{len(waiting)}.json"
                    sys.stdout.flush()
                    child = os.fork()
                    if child == 0:
                        os.setsid()  # what runs too long is ended with all that it started
                        _write(path, report(item, path.parent))
                        os._exit(0)
                    running[child] = item, path, time.monotonic()
                child, status, is_late = _wait(running, seconds)
                item, path, start = running.pop(child)
                answer = json.loads(path.read_text()) if path.exists() else Ending(status, is_late)
                yield item, answer, time.monotonic() - start
        finally:
            for child in running:
                os.killpg(child, signal.SIGKILL)


class Ending:
    """How a process has ended without a report."""

    def __init__(self, status, is_late):
        self.status, self.is_late = status, is_late


def _write(path, report):
    """The file is there when it is whole."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(report))
    temporary.rename(path)


def _wait(running, seconds):
    """A child of `running` ({process: (..., start)}) that has ended, its status and whether it was ended for taking too long."""
    while True:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            return child, status, False
        for child, (*_, start) in running.items():
            if time.monotonic() - start > seconds:
                os.killpg(child, signal.SIGKILL)
                return *os.waitpid(child, 0), True
        time.sleep(0.02)
