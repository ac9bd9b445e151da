package fetch

import (
	"context"
	"fmt"
)

// complete reports whether the store has a shard of these rows, and refuses a shard of other rows.
func complete(ctx context.Context, store Store, number int, mark string) (bool, error) {
	found, err := store.Has(ctx, Name(number, "_stats.json"))
	if err != nil || !found {
		return false, err
	}
	same, err := store.Has(ctx, mark)
	if err == nil && !same {
		err = fmt.Errorf("shard %05d exists already, with other rows: use the list and the --per-shard that it was made with, or another --out", number)
	}
	return same, err
}

// unclaimed refuses a shard when the store has files of its name that no run over these rows began.
func unclaimed(ctx context.Context, store Store, number int, mark string) error {
	begun, err := store.Has(ctx, mark)
	if err != nil || begun {
		return err
	}
	for _, suffix := range []string{".tar", ".parquet"} {
		found, err := store.Has(ctx, Name(number, suffix))
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("%s exists already, and is not of these rows: use another --out, or remove the file", Name(number, suffix))
		}
	}
	return nil
}
