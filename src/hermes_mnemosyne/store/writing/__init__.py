"""The rules of writing, the same for every store: operations as functions over an open write transaction."""
