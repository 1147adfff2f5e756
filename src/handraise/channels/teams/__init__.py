"""Microsoft Teams: questions as Adaptive Cards, answered in the card.

`channel` is the door; it needs `pip install "handraise[teams]"`. By hand rather than with `microsoft-teams-apps`: that
one brings a web app of its own, and we have one.
"""
