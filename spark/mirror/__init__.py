"""The mirror job: leases lanes to Spark tasks, which copy records between clusters. Importing it does nothing."""
