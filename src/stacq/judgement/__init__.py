"""What a policy is worth, from recorded data alone: values with intervals, verdicts, a recommendation."""
