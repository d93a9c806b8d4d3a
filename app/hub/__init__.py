"""The Hugging Face Hub: search, download, what is on disk. No Qt, no torch; the only place with a network."""
