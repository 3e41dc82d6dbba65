"""`input()` in a pod kernel: a question is asked once, and the answer goes to all hosts. No I/O."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from .host_names import host_ranges


class SharedInput:
    """The questions of one cell.

    Parameters
    ----------
    leader: the host whose questions the user sees while it runs the cell.
    ask: shows a question, the content of an input_request.
    answer: sends a host the content of an input_reply.
    """

    def __init__(
        self,
        leader: int,
        ask: Callable[[Dict[str, Any]], None],
        answer: Callable[[int, Dict[str, Any]], None],
    ) -> None:
        self._leader = leader
        self._leader_runs = True
        self._ask, self._answer = ask, answer
        self._answers: List[Dict[str, Any]] = []
        self._asked: Dict[int, int] = {}  # how often each host has asked
        self._waiting: Dict[int, Dict[str, Any]] = {}  # hosts, and their questions

    def requested(self, host: int, question: Dict[str, Any]) -> None:
        """A host asks."""
        number = self._asked.get(host, 0)
        self._asked[host] = number + 1
        if number < len(self._answers):
            self._answer(host, self._answers[number])
            return
        self._waiting[host] = question
        if host == self._leader:
            self._ask(question)
        elif not self._leader_runs:
            self._ask_for(host)

    def answered(self, content: Dict[str, Any]) -> None:
        """The user has answered: all hosts that have asked, or will ask, the same question."""
        self._answers.append(content)
        for host in list(self._waiting):
            number = self._asked[host] - 1
            if number < len(self._answers):
                del self._waiting[host]
                self._answer(host, self._answers[number])

    def ended(self, host: int) -> None:
        """A host has ended the cell. After the leader, the user sees what others ask."""
        self._waiting.pop(host, None)
        if host == self._leader:
            self._leader_runs = False
            for other in self._waiting:
                self._ask_for(other)
                break

    def _ask_for(self, host: int) -> None:
        question = self._waiting[host]
        prompt = "[%s] %s" % (host_ranges([host]), question.get("prompt", ""))
        self._ask({**question, "prompt": prompt})
