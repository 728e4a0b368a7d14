"""What people note on runs and studies: tags, a note, a star, and whether they are archived."""
