"""Models with weights of few bits: modules over them, and files of them."""
