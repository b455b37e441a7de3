"""Networks as pytrees of arrays: one example in, one out; ensembles are a leading axis."""
