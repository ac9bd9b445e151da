"""WebDataset: the tars, read from their beginnings."""

import webdataset
from torch.utils.data import DataLoader, default_collate

import common
import loaders


class WebDataset(loaders.Loader):
    def batches(self):
        data = webdataset.WebDataset(self.tars, shardshuffle=False).decode("pilrgb").to_tuple("jpg", "txt")
        # Its own collation makes mini-batches that are copied once more on their way to the trainer.
        data = data.map_tuple(self.pixels, str).batched(self.batch, collation_fn=default_collate)
        yield from DataLoader(data, batch_size=None, num_workers=self.workers)


if __name__ == "__main__":
    common.serve(WebDataset)
