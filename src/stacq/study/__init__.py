"""Studies: many trainings from one file, on this machine or on many, and the tables that come out."""
