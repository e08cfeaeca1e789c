"""What a request may ask for, and the one form of every refusal."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Limits:
    """The most that a request may ask for.

    Attributes:
        body_bytes: Bytes of its body.
        pairs: Pairs, or candidates to rank.
        characters: Characters of a sentence.
        read_seconds: Seconds until the whole request has come.
        answer_seconds: Seconds until it is answered.
    """

    body_bytes: int = 1 << 20
    pairs: int = 1024
    characters: int = 2000
    read_seconds: float = 10.0
    answer_seconds: float = 30.0


class Refused(Exception):
    """A request that is not answered.

    Args:
        status: Its HTTP status.
        message: What came, what was expected and how to mend it.
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def error_body(status: int, message: str) -> dict[str, Any]:
    """Every error has this form."""
    return {"error": {"status": status, "message": message}}


def as_json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
