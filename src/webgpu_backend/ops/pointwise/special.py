"""Special functions; the mathematics is in `kernels/lib/math_f32.wgsl`."""

from ..table import binary, choose, expression, unary

F = "int_to_float"

for _name in ("erf", "erfc", "erfinv", "lgamma", "digamma", "sinc", "i0"):
    unary(_name, f"{_name}(a)", promote=F)
for _name in (
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr",
    "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtri",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
):  # fmt: skip
    unary(f"special_{_name}", f"{_name}(a)", promote=F)
for _name in ("igamma", "igammac"):
    binary(_name, f"{_name}(a, b)", promote=F)
for _name in (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "xlog1py", "zeta",
):  # fmt: skip
    binary(f"special_{_name}", f"{_name}(a, b)", promote=F)

_POLYGAMMA = expression("polygamma", "polygamma(n, a)", scalars=("n",), promote=F, types={"n": "i32"})
_DIGAMMA = expression("digamma", "digamma(a)", promote=F)


@choose("polygamma")
def polygamma(n, self):
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return (_POLYGAMMA, (self,), (n,)) if n else (_DIGAMMA, (self,), ())


# A negative eps stands for None: the value is not bounded.
_LOGIT = expression("logit", "logit(a, eps)", scalars=("eps",), promote=F)
_LOGIT_BACKWARD = expression("logit_backward", "where(b < 0 or b > 1, nan, a / (b * (1 - b)))", 2)
_LOGIT_BACKWARD_EPS = expression(
    "logit_backward_eps", "where(b < eps or b > 1 - eps, 0, a / (b * (1 - b)))", 2, scalars=("eps",)
)


@choose("logit")
def logit(self, eps=None):
    return _LOGIT, (self,), (-1.0 if eps is None else eps,)


@choose("logit_backward")
def logit_backward(grad_output, self, eps=None):
    if eps is None or eps < 0:
        return _LOGIT_BACKWARD, (grad_output, self), ()
    return _LOGIT_BACKWARD_EPS, (grad_output, self), (eps,)
