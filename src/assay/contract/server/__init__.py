"""An agent as a web app that keeps the contract."""
