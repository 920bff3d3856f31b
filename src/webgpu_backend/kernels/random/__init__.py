"""What each distribution makes of Philox's words."""
