"""Run directories: written while a run goes on, read when it is over or was stopped."""
