"""How much of the machine other processes use while something is measured. Imported by other scripts."""

import os
import resource
import time


def busy():
    """Seconds that all cores were busy so far."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, interrupts, soft, stolen = map(int, file.readline().split()[1:9])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def own():
    """Seconds of processor time of this process's children, which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def beside(measure):
    """What `measure()` returns, and the part of all cores that others used meanwhile.

    The processes that it starts have ended when it returns.
    """
    all_before, own_before, begin = busy(), own(), time.monotonic()
    found = measure()
    others = (busy() - all_before) - (own() - own_before)
    return found, max(0.0, others / (time.monotonic() - begin) / os.cpu_count())
