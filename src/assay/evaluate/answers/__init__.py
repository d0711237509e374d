"""What `--answers` adds to an evaluation: answers held against references, and their diagnosis."""
