"""Places for the bytes of files besides the database: a folder, or object storage."""
