"""What is done now and then to the repository itself."""
