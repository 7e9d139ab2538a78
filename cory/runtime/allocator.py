"""The C library's memory allocator, as training wants it."""

import ctypes

# names and numbers of malloc.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# older versions of glibc take no larger one; with 2 GiB, passes over an output head of 49,152
# tokens took 0.9 of the time and three times the memory
MMAP_THRESHOLD = 32 * 2**20


def keep_freed_memory() -> None:
    """Let freed memory stay with the process, for the next tensor.

    By default glibc gives large pieces back, and the kernel clears every page of them again at the
    next pass: a tenth of an update's time on two cores. Other C libraries do not have the setting,
    and keep their own ways.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
