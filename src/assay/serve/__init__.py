"""Our own servers: thin applications over the layers below."""
