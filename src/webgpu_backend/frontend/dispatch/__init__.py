"""The table registered with torch, and what happens where it has no kernel."""
