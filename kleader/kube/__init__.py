"""The Kubernetes API: connections, credentials, calls, watches, and what the answers mean."""
