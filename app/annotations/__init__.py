"""What people note on runs and studies: a note, and whether they are archived."""
