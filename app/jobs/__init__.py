"""How runs are worked: claims, leases, turns, the reaper and the steps of a job."""
