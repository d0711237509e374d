"""The server of the contract: any agent's work behind its endpoints. It needs no other layer.

`assay.serve.contract_agents` has the six agents that come with Assay.
"""
