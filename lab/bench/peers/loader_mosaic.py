"""MosaicML Streaming: the tars' pairs in its own format, MDS, into which they are converted before training."""

import tarfile

from streaming import MDSWriter, StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from torch.utils.data import DataLoader

import common
import loaders


class Pairs(StreamingDataset):
    def __init__(self, folder, batch, pixels):
        super().__init__(local=folder, shuffle=False, batch_size=batch)
        self.pixels = pixels

    def __getitem__(self, index):
        pair = super().__getitem__(index)
        return self.pixels(pair["image"]), pair["caption"]


class Mosaic(loaders.Loader):
    def prepare(self):
        clean_stale_shared_memory()
        with MDSWriter(out=self.job.path("mds"), columns={"image": "bytes", "caption": "str"}) as out:
            for path in self.tars:
                with tarfile.open(path) as tar:
                    files = {m.name: tar.extractfile(m).read() for m in tar}
                for name in sorted(files):
                    if name.endswith(".jpg"):
                        out.write({"image": files[name], "caption": files[name[:-4] + ".txt"].decode()})
        self.pairs = Pairs(self.job.path("mds"), self.batch, self.pixels)

    def batches(self):
        yield from DataLoader(self.pairs, batch_size=self.batch, num_workers=self.workers)


if __name__ == "__main__":
    common.serve(Mosaic)
