"""E-mail: questions go out over SMTP, and what people reply comes back over IMAP or is posted here as it came.

`channel.py` opens it. Needs `pip install "handraise[email]"`.
"""
