package fetch

import (
	"context"
	"fmt"
)

// complete reports whether the store has a shard, and refuses one of other rows.
func complete(ctx context.Context, store Store, number int, mark string) (bool, error) {
	found, err := store.Has(ctx, Name(number, "_stats.json"))
	if err != nil || !found {
		return false, err
	}
	same, err := store.Has(ctx, mark)
	if err == nil && !same {
		err = fmt.Errorf("shard %05d is there already, of other rows: want the list and the --per-shard that it was made from, or another --out", number)
	}
	return same, err
}

// unclaimed refuses a shard of which the store has files that no run over these rows has begun.
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
			return fmt.Errorf("%s is there already, and is not of these rows: want another --out, or remove the file", Name(number, suffix))
		}
	}
	return nil
}
