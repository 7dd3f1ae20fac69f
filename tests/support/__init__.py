"""What tests share: builders and strategies of values, in-memory worlds, and what starts lanes, jobs and commands."""
