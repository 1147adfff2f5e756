"""The inbox: pages on which people read and answer questions. They show what the desk has and store nothing."""
