"""What the backends that speak SQL share: the ports over an executor, and the values in rows."""
