"""The five agents that come with Assay; `apps` puts them together."""
