"""WebDataset: the tars, read from their beginnings."""

import webdataset
from torch.utils.data import DataLoader

import common
import loaders


class WebDataset(loaders.Loader):
    def batches(self):
        data = webdataset.WebDataset(self.tars, shardshuffle=False).decode("pilrgb").to_tuple("jpg", "txt")
        data = data.map_tuple(self.pixels, str).batched(self.batch)
        yield from DataLoader(data, batch_size=None, num_workers=self.workers)


if __name__ == "__main__":
    common.serve(WebDataset)
