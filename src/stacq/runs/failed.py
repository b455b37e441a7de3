"""How a training run ends badly; apart from the rest, so that the command line can name it without loading JAX."""

from pathlib import Path


class TrainingFailed(RuntimeError):
    """No seed is left to train; the run directory shows how it came to that."""

    def __init__(self, message: str, directory: Path) -> None:
        super().__init__(message)
        self.directory = directory


class StudyFailed(RuntimeError):
    """Some cells of a study failed; the others are done."""
