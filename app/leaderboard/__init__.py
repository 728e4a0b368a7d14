"""The leaderboard: all ended runs, ranked at a budget."""
