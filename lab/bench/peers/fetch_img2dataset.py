"""img2dataset: a list of addresses into tars, as its users run it, without resizing and without encoding again."""

import glob
import json
import os
import resource
import shutil
import sys

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # it would ask the internet
import img2dataset

import common


def processor():
    """The processor time of this process and of those that have ended."""
    return common.cpu_seconds() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


class Fetch:
    def __init__(self, job):
        self.job = job

    def run(self):
        out = self.job.path("img2dataset")
        before = processor()
        shutil.rmtree(out, ignore_errors=True)
        img2dataset.download(
            url_list=self.job.path("list.csv"), input_format="csv", url_col="url", caption_col="caption",
            output_folder=out, output_format="webdataset", number_sample_per_shard=self.job.option("per_shard"),
            processes_count=self.job.threads, thread_count=self.job.option("threads"),
            resize_mode="no", skip_reencode=True, compute_hash="sha256", timeout=30, retries=0, enable_wandb=False,
        )
        # What its processes take to start is not counted: the time is that from the first tar's begin to the last one's end.
        stats = [json.load(open(path)) for path in glob.glob(out + "/*_stats.json")]
        return {"cpu_seconds": processor() - before, "seconds": max(s["end_time"] for s in stats) - min(s["start_time"] for s in stats)}

    def check(self):
        return {}


if __name__ == "__main__":
    # Its processes print to the first descriptor, which is for answers alone.
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    common.serve(Fetch)
