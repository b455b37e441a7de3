"""What every other package stands on: errors, files, artefacts, processes, progress."""
