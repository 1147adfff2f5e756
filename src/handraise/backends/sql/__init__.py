"""What the SQL backends share: the ports on top of an executor, and the values in rows."""
