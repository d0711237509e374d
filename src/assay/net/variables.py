"""Environment variables that several packages know by name; quick to import."""

SERVER_TOKEN_VARIABLE = "ASSAY_TOKEN"
"""The token that callers of Assay's servers send."""

ADMIN_TOKEN_VARIABLE = "ASSAY_ADMIN_TOKEN"
"""The token of those who may change what a server holds."""

AGENT_TOKEN_VARIABLE = "AGENT_TOKEN"
"""The token that an agent under test asks for."""

MCP_TOKEN_VARIABLE = "MCP_SERVER_TOKEN"
"""The same of an MCP server."""

OWN_SECRETS = (SERVER_TOKEN_VARIABLE, ADMIN_TOKEN_VARIABLE)
"""Secrets of Assay's servers, which no process that is under test gets."""

POLICY_VARIABLE = "ASSAY_OUTBOUND_POLICY"
"""How a server hands its policy to a process that it starts: the allowed hosts, if restricted."""
