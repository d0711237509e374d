"""The six agents that come with Assay, each as work for the server in `assay.contract.server`.

`apps` puts them together.
"""
