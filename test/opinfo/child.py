"""Calls of functions that may end the process."""

import io
import os
import resource
import signal
import sys
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


def ended(running, seconds):
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
