"""Names of the arithmetic that a guarantee covers; each law of noise determines its own."""

# Sums of integers, discrete Gaussian noise: the guarantee is about the program.
INTEGERS = "exact integers"
# Laplace noise, and that of pure class sums and second moments.
PLAIN = "floating-point noise on an exact total"
# Means in curved spaces, unless gradients are what is released.
ITERATED = "floating-point noise on a mean that may be iterated in floating point"
# Root moments.
MATRIX = "floating-point noise on a floating-point matrix"
# Riemannian laws.
LAW = "a floating-point draw from a law about a floating-point statistic"
