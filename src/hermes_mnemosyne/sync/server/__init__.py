"""The sync server: other replicas' way to this store, over HTTP. Its parts need the extra `server`."""
