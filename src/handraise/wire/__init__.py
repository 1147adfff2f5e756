"""What crosses a process: requests, records, events, problems and credentials, the same for both ends."""
