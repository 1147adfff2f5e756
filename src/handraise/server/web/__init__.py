"""The pages for people: inbox, sign-in and embedded questions. Templates and static files are here too."""
