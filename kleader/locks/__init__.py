"""Keep the leader election record: one kind of object each."""
