"""Processes that take turns: each measures one thing when it is asked to, so that what else the machine does hits all.

A child reads one JSON request a line and answers with one JSON line behind a mark; anything else it prints is its own.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable

MARK = "\x1e"


class Child:
    """A process that answers requests. One that dies or hangs says so in each answer after that."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None):
        environment = {**os.environ, **(env or {})}
        self.lost = ""
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.answers: queue.Queue = queue.Queue()
        self.last_words: list[str] = []
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._listen, self._overhear)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            if line.startswith(MARK):
                self.answers.put(json.loads(line[1:]))
        self._threads[1].join(2)
        words = next((w for w in reversed(self.last_words) if w.strip()), "")
        self.answers.put({"error": f"the process ended with status {self.process.wait()}: {words.strip()[:160]}"})

    def _overhear(self) -> None:
        for line in self.process.stderr:
            self.last_words = [*self.last_words[-20:], line]

    def send(self, **request) -> None:
        if not self.lost:
            try:
                self.process.stdin.write(json.dumps(request) + "\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                pass  # the reason is among the answers

    def receive(self, timeout: float = 120.0) -> dict:
        if self.lost:
            return {"error": self.lost}
        try:
            answer = self.answers.get(timeout=timeout)
        except queue.Empty:
            self.process.kill()
            answer = {"error": f"no answer within {timeout:.0f} s"}
        if "error" in answer and not answer.get("alive"):
            self.lost = answer["error"]
        return answer

    def ask(self, timeout: float = 120.0, **request) -> dict:
        self.send(**request)
        return self.receive(timeout)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()


def serve(answer: Callable[[dict], dict]) -> None:
    """The child's side: answers until its input ends. What fails is an answer too."""
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as error:
            first = (str(error).strip() or "no message").splitlines()[0]
            found = {"error": f"{type(error).__name__}: {first[:160]}", "alive": True}
        print(MARK + json.dumps(found), flush=True)
    sys.stdout.flush()
    os._exit(0)  # some runtimes fault when their objects are torn down in the interpreter's order
