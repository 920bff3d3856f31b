"""Inductor's code generator for the device: `torch.compile` makes WGSL.

printer    indices, which are expressions of sympy's, as WGSL
values     operations on values: the expressions of the operator table, and Inductor's own few
kernel     a kernel's text, while Inductor walks its nodes
pieces     parts of that text
draws      random words in it
reductions how a loop's elements are gathered
passes     what is done to a graph before it is lowered
nodes      how they add to it
rows       among that, products of one row
epilogues  what products of several rows take in
convolutions, attention  and those
random     operators that draw, as kernels
products   among that, what products with quantised weights take in
schedule   what may be one kernel, the wrapper around them, and the registration
tuning     tiles of matrix products, measured where that is asked for
launch     what the generated Python calls: kernels as steps of plans
compiling  the entry, the configuration, and what happens to graphs that are refused
"""
