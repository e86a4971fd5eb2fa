"""A client of PES Agent Server: ask an agent, watch what it does, decide what it asks."""

from .client import Pes, Question
from .errors import PesError, PesUnreachable

__all__ = ["Pes", "PesError", "PesUnreachable", "Question"]
