"""How a training run ends badly; apart from the rest, so that the command line can name it without loading JAX."""


class TrainingFailed(RuntimeError):
    """No seed is left to train."""


class StudyFailed(RuntimeError):
    """Some cells of a study failed; the others are done."""
