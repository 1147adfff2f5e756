"""Pages with which administrators run a workspace in the browser. Every form works without scripts."""
