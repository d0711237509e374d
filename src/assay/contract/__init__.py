"""The HTTP agent contract: envelope models, SSE framing, serving, conformance checks, client."""
