"""Work on runs: claims, leases, turns, the reaper and the steps of a job."""
