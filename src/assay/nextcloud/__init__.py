"""Documents as notes in a Nextcloud: upload, wait for its index, clean up."""
