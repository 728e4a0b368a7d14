"""Background work: one table of jobs, with one claim, lease, fence, reaper, cancel and retry rule."""
