"""Functions of real numbers for schemes: the same bits on every machine, and in the interpreted core.

Made of additions, multiplications and divisions alone, which IEEE 754 rounds alike everywhere, unlike a C library's exp and log.
Polynomials and constants are those of fdlibm (Sun Microsystems, 1993), whose error is below one unit of the last place.
"""

import cython

if not cython.compiled:
    from math import sqrt as root

    from penstock_net.fabric.state import whole

LN2_HIGH = 6.93147180369123816490e-01  # log(2) in two parts
LN2_LOW = 1.90821492927058770002e-10
SQRT_2 = 1.4142135623730951


def sqrt(x):
    """The square root of a number that is not negative."""
    return root(x)


def two_to(n):
    """2 to the power n, for n in -1074..1023; exact."""
    return multiplied(2.0 if n > 0 else 0.5, -n if n < 0 else n)


def multiplied(x, n):
    """The product of n factors x."""
    product = 1.0
    while n > 0:
        if n & 1:
            product *= x
        n >>= 1
        if n:  # one more square could be too large
            x *= x
    return product


def exp(x):
    """e to the power x; 0 where that is too small for a number, infinite where it is too large."""
    if x < -745.0:
        return 0.0
    if x > 710.0:
        x = 710.0
    k = floor(x / (LN2_HIGH + LN2_LOW) + 0.5)
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    t = r * r
    c = 4.13813679705723846039e-08
    c = c * t - 1.65339022054652515390e-06
    c = c * t + 6.61375632143793436117e-05
    c = c * t - 2.77777777770155933842e-03
    c = c * t + 1.66666666666666019037e-01
    c = r - t * c
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    half = k // 2 if k > 0 else -(-k // 2)  # in two steps: 2 to the power k alone may be too large or too small
    return y * two_to(half) * two_to(k - half)


def log(x):
    """The natural logarithm of a positive number."""
    k = 0
    step = 512
    if x < 2.3e-308:  # subnormal
        x *= two_to(54)
        k = -54
    if x < 1.0:
        while step:
            if x < two_to(1 - step):
                x *= two_to(step)
                k -= step
            step >>= 1
    else:
        while step:
            if x >= two_to(step):
                x *= two_to(-step)
                k += step
            step >>= 1
    if x > SQRT_2:
        x *= 0.5
        k += 1
    f = x - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = z * (
        6.666666666666735130e-01 + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + even + odd) + k * LN2_LOW)) - f)


def power(x, y):
    """x to the power y, for x that is not negative; by multiplication where y is a whole number up to 64."""
    n = whole(y) if 0.0 <= y <= 64.0 else -1
    if n == y:
        return multiplied(x, n)
    if x == 0.0:
        return 0.0
    return exp(y * log(x))


def floor(x):
    """The largest whole number that is not above x."""
    n = whole(x)
    if n > x:
        n -= 1
    return n


def ceil(x):
    """The smallest whole number that is not below x."""
    n = whole(x)
    if n < x:
        n += 1
    return n
