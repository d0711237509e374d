"""The HTTP agent contract: its models, a client, a server for any agent, and conformance checks."""
