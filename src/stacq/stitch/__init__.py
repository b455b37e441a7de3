"""Model-based trajectory stitching: new datasets whose episodes are joined from pieces of others."""
