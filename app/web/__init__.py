"""HTTP and what pages are made of: requests, answers, sessions, how figures are shown, templates and scripts."""
