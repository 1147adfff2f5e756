"""What people read, for all places: an agent's Markdown, answers, and how a question ended. Pure functions."""
