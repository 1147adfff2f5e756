"""The inbox: pages on which people see what they are asked, and answer. A view of the desk, with no truth of its own."""
