"""Language models behind one interface: services, and files that run in this process."""
