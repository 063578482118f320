from penstock_net.fabric.state cimport whole

cdef extern from "math.h" nogil:
    double root "sqrt"(double x)

cdef double LN2_HIGH, LN2_LOW, SQRT_2

cdef double sqrt(double x) noexcept nogil
cdef double exp(double x) noexcept nogil
cdef double log(double x) noexcept nogil
cdef double power(double x, double y) noexcept nogil
cdef double two_to(long n) noexcept nogil
cdef double multiplied(double x, long n) noexcept nogil
cdef long floor(double x) noexcept nogil
cdef long ceil(double x) noexcept nogil
