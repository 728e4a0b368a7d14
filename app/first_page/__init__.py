"""The first page: which model answers how much right within a time, and how sure that is."""
