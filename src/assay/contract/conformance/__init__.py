"""Conformance checks: `probes` calls an agent, the checks judge it, `report` lists the results."""
