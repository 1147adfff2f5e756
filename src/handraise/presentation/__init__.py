"""What people read, for all places: an agent's Markdown, forms, answers, events and how a question ended. Pure functions."""
