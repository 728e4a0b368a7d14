"""What is being decoded: a request, its rows, its clock and its texts."""
