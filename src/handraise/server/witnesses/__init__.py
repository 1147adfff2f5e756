"""Witnesses of the audit trail: heads are sent to them, and `handraise audit verify` reads what they kept."""
