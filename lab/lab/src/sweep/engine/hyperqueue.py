"""The part of `hq submit` that `comity-lab sweep` uses, over HyperQueue's Python package."""
import argparse
import os
import sys

# Its progress is for people.
if not sys.stderr.isatty():
    os.environ.setdefault("TQDM_DISABLE", "1")
import hyperqueue
from hyperqueue.task.task import ResourceRequest


def shards(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


words = argparse.ArgumentParser(prog="HyperQueue's Python package", allow_abbrev=False)
words.add_argument("--server-dir")
words.add_argument("verb", choices=["submit"])
words.add_argument("--wait", action="store_true", required=True)
words.add_argument("--directives", choices=["off"])
words.add_argument("--stderr", choices=["none"])
words.add_argument("--name")
words.add_argument("--array", type=shards)
words.add_argument("--cpus", type=int)
words.add_argument("--crash-limit", type=int)
words.add_argument("--cwd")
words.add_argument("--stdout")
words.add_argument("command", nargs="+")
told = words.parse_args()

job = hyperqueue.Job(name=told.name, default_workdir=told.cwd, max_fails=None)
for shard in told.array:
    task = job.program(
        told.command,
        stdout=told.stdout,
        stderr=None,
        resources=ResourceRequest(cpus=told.cpus),
        crash_limit=told.crash_limit,
    )
    # What the task finds in HQ_TASK_ID.
    task.task_id = shard
try:
    client = hyperqueue.Client(told.server_dir)
    is_well = client.wait_for_jobs([client.submit(job)], raise_on_error=False)
except Exception as error:
    sys.exit(f"HyperQueue: {error}")
sys.exit(0 if is_well else 1)
