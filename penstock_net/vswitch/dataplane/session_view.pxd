"""The protocol for Python; session_view.py describes it."""
from penstock_net.vswitch.dataplane.path_search cimport search_row, set_most
from penstock_net.vswitch.dataplane.session cimport *

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)
    char* PyBytes_AS_STRING(object text)
    char* PyByteArray_AS_STRING(object block)

cdef dict session_row(Session* s, int64_t now)

cdef class Endpoint:
    cdef Session session
    cdef object scratch
