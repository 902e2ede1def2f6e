"""The process that holds the lock for the supervisor, by the network; kills where the supervisor does not."""
