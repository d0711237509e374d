"""The network layer: bounded HTTP, retries, circuit breaker, outbound policy, redaction."""
