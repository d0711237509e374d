"""Documents as notes in a Nextcloud: put there, indexed, waited for, taken away again."""
