"""What can go wrong between a client and the server."""

from .types import Code, Problem


class PesError(Exception):
    """The server refused. `code` is one word of a closed list; `problem` is all that it said (RFC 9457)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem['title']}: {problem['detail']} ({problem['code']})")
        self.problem = problem
        self.code: Code = problem["code"]
        self.status: int = problem["status"]


class PesUnreachable(Exception):
    """The server could not be reached for so long that the client gave up, or what answered is another program."""
