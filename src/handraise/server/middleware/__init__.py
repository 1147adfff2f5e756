"""What every request passes: limits, security headers, idempotency, and errors as problem documents."""
