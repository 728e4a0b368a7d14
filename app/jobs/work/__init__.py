"""The steps of a job: prepare, decode, grade."""
