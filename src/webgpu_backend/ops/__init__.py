"""The operator table: every entry says what an aten operator computes, in an expression or a plan of its own."""
