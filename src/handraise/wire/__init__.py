"""What client and server exchange: requests, records, events, problems and credentials."""
