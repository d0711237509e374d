"""Assay's servers: thin applications over the layers below."""

import os

# Where OpenTelemetry is installed, the A2A SDK wraps every call in spans, which costs time and
# fills the log with its own complaints. Read when the SDK is imported; who sets it keeps it.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
