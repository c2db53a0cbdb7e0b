"""What people and programs read: text and JSON objects of every answer. Nothing here prints or computes a score."""
