"""Embedders: text into vectors, from an endpoint, a local model directory or packaged weights."""
