"""From a dataset to trained and scored policies, stage by stage."""
