"""Memory and layout: new tensors, copies, views, joining and rearranging."""
