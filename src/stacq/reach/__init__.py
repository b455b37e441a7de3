"""Which states of the data one step can reach: box ranges, the exact box join and reachable sets."""
