"""The web process: HTTP, how figures are shown, templates, and the application that joins the domains."""
