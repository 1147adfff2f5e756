-- What SQLite does with policies in its own way.

