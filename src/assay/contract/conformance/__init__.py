"""Named checks of an agent, and what they found."""
