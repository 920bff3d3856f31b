"""How samples follow the parameters of their distribution: what reparametrized sampling differentiates by."""

from ..table import binary, ternary

binary("_standard_gamma_grad", "standard_gamma_grad(a, b)")
ternary("_dirichlet_grad", "dirichlet_grad(a, b, c)")
