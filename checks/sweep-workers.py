"""A HyperQueue server and workers of one core each, from the package of PyPI: `sweep-workers.py FOLDER WORKERS`.

Writes the workers' process numbers to FOLDER/workers, and stays until it is ended. A worker looks in FOLDER
for its server, so each can be a process of its own, which the package by itself does not offer.
"""
import os
import signal
import sys

from hyperqueue import LocalCluster
from hyperqueue.cluster import WorkerConfig

server = LocalCluster(sys.argv[1])
workers = []
for _ in range(int(sys.argv[2])):
    worker = os.fork()
    if worker == 0:
        server.start_worker(WorkerConfig(cores=1))
        # The worker has taken the signal for itself, and would stop without ending its process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while True:
            signal.pause()
    workers.append(worker)
told = os.path.join(sys.argv[1], "workers")
with open(told + ".new", "w") as file:
    print(*workers, file=file)
os.rename(told + ".new", told)
signal.pause()
