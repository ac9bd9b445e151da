"""No loader: a DataLoader over images that are in memory, to know what PIL's decoding and resizing leave."""

import tarfile

from torch.utils.data import DataLoader, Dataset

import common
import loaders


class Files(Dataset):
    def __init__(self, images, captions, pixels):
        self.images, self.captions, self.pixels = images, captions, pixels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.pixels(self.images[i]), self.captions[i]


class Memory(loaders.Loader):
    def prepare(self):
        images, captions = [], []
        for path in self.tars:
            with tarfile.open(path) as tar:
                files = {m.name: tar.extractfile(m).read() for m in tar}
            for name in sorted(files):
                if name.endswith(".jpg"):
                    images.append(files[name])
                    captions.append(files[name[:-4] + ".txt"].decode())
        self.files = Files(images, captions, self.pixels)

    def batches(self):
        yield from DataLoader(self.files, batch_size=self.batch, num_workers=self.workers)


if __name__ == "__main__":
    common.serve(Memory)
