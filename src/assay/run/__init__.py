"""A run on disk: its settings, its files, the typed values that write and read them."""
