"""Microsoft Teams: questions as Adaptive Cards, answered in the card.

`channel` is the entry point; it needs `pip install "handraise[teams]"`. It is written by hand instead of using
`microsoft-teams-apps`, which brings its own web app, and we have one.
"""
