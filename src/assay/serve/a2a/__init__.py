"""What both A2A agents share: card, routes, tasks."""
