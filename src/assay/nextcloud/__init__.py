"""Documents as notes in a Nextcloud: upload, sync, wait for its index, clean up."""
