"""Policies in forms that run without Python: an ONNX graph, or a C header."""
