"""Sync: replicas that hold the same rows, over plain HTTP. An adapter above the engine: no SQL, no driver."""
