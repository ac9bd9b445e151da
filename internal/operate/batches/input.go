package batches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// input holds the data of a plan: tars, or Parquet files whose images are packed into tars of the plan.
type input struct {
	tars   []string
	tables []string
	share  portion.Share // of the tables' rows
	roots  []string      // of the tars
}

// findInput sorts paths into tars and Parquet files. A folder without tars stands for its Parquet files.
func findInput(paths []string, images string) (in input, err error) {
	for i, p := range paths {
		place, share, err := portion.Cut(p)
		if err != nil {
			place = p // a JSON list, or what opens it refuses it
		}
		tables, err := parquetFiles(place)
		if err != nil {
			return in, err
		}
		if in.tables = append(in.tables, tables...); len(tables) == 0 {
			in.tars = append(in.tars, p)
		} else if i > 0 && share != in.share {
			return in, fmt.Errorf("%s has another sample than %s: want the same one for all Parquet files of a plan", p, paths[0])
		}
		in.share = share
	}
	if len(in.tables) == 0 {
		in.roots, err = shard.Roots(in.tars)
		return in, err
	}
	if len(in.tars) > 0 {
		return in, fmt.Errorf("%s is no Parquet file, and %s is: want one kind for a plan, as rows are counted through all files", in.tars[0], in.tables[0])
	}
	images, err = ownedfolder.Resolve(images) // as in references
	in.tars, in.roots = []string{images + in.share.String()}, []string{shard.FileURI(images)}
	return in, err
}

// parquetFiles returns the Parquet files of a path in lexical order, or none.
func parquetFiles(path string) ([]string, error) {
	table := strings.EqualFold(filepath.Ext(path), ".parquet")
	switch {
	case shard.IsRemote(path) && table:
		return nil, fmt.Errorf("%s: Parquet files are read from disks: copy them first", path)
	case shard.IsRemote(path):
		return nil, nil
	case table:
		_, err := os.Stat(path)
		return []string{path}, err
	}
	tars, err := shard.Tars([]string{path})
	if err != nil && !errors.Is(err, shard.ErrNoTars) || slices.ContainsFunc(tars, notOfAPlan) {
		return nil, nil // tars, or a path that the producer refuses
	}
	return filepath.Glob(filepath.Join(path, "*.parquet"))
}

// notOfAPlan reports whether a tar is not one that a plan has packed from Parquet files. Such a plan may be in their
// folder.
func notOfAPlan(tar string) bool {
	images := filepath.Dir(tar)
	_, err := os.Stat(filepath.Join(filepath.Dir(images), ownedfolder.Marker))
	return filepath.Base(images) != imagesFolder || err != nil
}

// errNoBatches means that no pair was usable.
var errNoBatches = errors.New("there is no mini-batch, as no pair is usable")

// tellAside prints the number of dead letters by reason. If there is no mini-batch, it returns them as an error.
func (p *planning) tellAside(ctx context.Context, log *stream.Log) error {
	count, first := map[string]int{}, map[string]string{}
	for d, err := range log.DeadLetters(ctx) {
		if err != nil {
			return fmt.Errorf("counting dead letters: %w", err)
		}
		kind, _, _ := strings.Cut(d.Reason, ":")
		count[kind]++
		first[kind] = cmp.Or(first[kind], d.Reason)
	}
	said := []string{}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		said = append(said, fmt.Sprintf("set aside %d, the first by: %s", count[kind], first[kind]))
	}
	if p.batches.Load() == 0 {
		return fmt.Errorf("%w: %s", errNoBatches, strings.Join(said, "; "))
	}
	for _, line := range said {
		fmt.Fprintln(p.w, line)
	}
	return nil
}

// readKeys returns the key of each image in its tar.
func (p *planning) readKeys(ctx context.Context) (plans.Keys, error) {
	keys := map[plans.Place]string{}
	why := ""
	totals, err := shard.Scan(ctx, p.tars, shard.Visitor{
		Example: func(ex shard.Example) error {
			keys[plans.Place{URI: ex.Image.URI, Offset: ex.Image.Offset}] = ex.Key
			p.pairs.Add(int64(len(ex.Captions)))
			return nil
		},
		Problem: func(problem shard.Problem) error {
			why = cmp.Or(why, ": "+problem.String())
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if totals.Pairs == 0 {
		return nil, fmt.Errorf("%s has no pairs%s; %s", strings.Join(p.sources, ", "), why, strings.Join(totals.UnreadLines(), "; "))
	}
	producer.PrintUnread(p.w, totals)
	return func(at plans.Place) string { return keys[at] }, nil
}

// modelsAreThere refuses missing models before anything is written. Without candidates Con-D is not loaded.
func modelsAreThere(environ map[string]string, candidates int) error {
	for _, name := range planModels {
		if path := environ[name]; path != "" && (name != "COND_CHECKPOINT" || candidates > 0) {
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("%s is %q (--weights sets it): %w; `pairstream bootstrap` trains a first model", name, path, err)
			}
		}
	}
	return nil
}

// planModels are the settings that name the models.
var planModels = []string{"ENCODER_CHECKPOINT", "COND_CHECKPOINT"}

// closesLoop reports whether the features of a model that is trained elsewhere group the epochs after the first. A run
// then writes one epoch more than it has files of features.
func (p *planning) closesLoop() bool {
	return p.settings.Grouper.Options().NeedsFeatures()
}

// target returns the number of epochs that are written.
func (p *planning) target() int {
	epochs := p.settings.Grouper.Options().Epochs
	if p.closesLoop() {
		return min(epochs, len(p.features)+1)
	}
	return epochs
}

func (p *planning) validateLoop(files int) error {
	o := p.settings.Grouper.Options()
	switch {
	case o.Features == grouper.SourceCurrent:
		return errors.New("GRIT_FEATURES is current, want encoder, or training with --features: no trainer runs beside a plan")
	case files > 0 && !p.closesLoop():
		return fmt.Errorf("--features have no effect with STRATEGY=%s and GRIT_FEATURES=%s: want jest, or grit and training or unshuffled",
			o.Strategy, o.Features)
	case files > 0 && files >= o.Epochs:
		return fmt.Errorf("--features names %d files, and %d EPOCHS are planned: want one file for each epoch before the last", files, o.Epochs)
	}
	return nil
}

// readFeatures reads the files of features, one for each epoch.
func (p *planning) readFeatures(ctx context.Context, files []string) error {
	for _, path := range files {
		f, err := plans.ReadFeatures(ctx, path)
		if err != nil {
			return err
		}
		p.features = append(p.features, f)
	}
	return nil
}

// digests returns the digests of the files of features.
func (p *planning) digests() (all []string) {
	for _, f := range p.features {
		all = append(all, f.SHA256)
	}
	return all
}

// continues reports whether one list of digests starts with the other.
func continues(before, now []string) bool {
	n := min(len(before), len(now))
	return slices.Equal(before[:n], now[:n])
}

// closing publishes the features of a lane's mini-batches in the place of a trainer, and detects the end of the run.
type closing struct {
	p         *planning
	lane      int
	keys      plans.Keys
	publisher *stream.Publisher
	has       int64 // seq of the last feature block in the log
	seq       int64 // of the next mini-batch
	last      int64 // group; -1: there is none
}

func (p *planning) newClosing(ctx context.Context, log *stream.Log, lane int, keys plans.Keys) (*closing, error) {
	c := &closing{p: p, lane: lane, keys: keys}
	var err error
	if c.last, err = p.lastGroup(ctx, log, lane); err != nil {
		return nil, err
	}
	if c.has, err = log.LastSeq(ctx, schemas.Features, lane); err != nil {
		return nil, err
	}
	c.publisher = log.NewPublisher(stream.PublisherOptions{Name: "features"})
	return c, nil
}

// lastGroup waits for the end of a lane's groups and returns the last one. All groups must go through their epochs
// together, because a group that waits for the features of its last epoch would keep the next group from starting.
func (p *planning) lastGroup(ctx context.Context, log *stream.Log, lane int) (last int64, err error) {
	r := log.OpenReader(schemas.Groups, lane, stream.Position{}, stream.ReaderOptions{})
	defer r.Close()
	last, groups := -1, 0
	for {
		rec, err := r.Next(ctx)
		if err != nil {
			return 0, fmt.Errorf("reading lane %d of %s: %w", lane, schemas.Groups, err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			return 0, err
		}
		switch v := value.(type) {
		case *schemas.Group:
			last = v.Group.Seq
			groups++
		case *schemas.Seal:
			if !v.Final {
				continue
			}
			if groups > max(1, p.settings.Grouper.Options().EpochGroups) {
				return 0, fmt.Errorf("lane %d has %d groups, which must go through their epochs together with --features: want EPOCH_GROUPS=%d, or a larger GROUP_SIZE", lane, groups, groups)
			}
			return last, nil
		}
	}
}

// add publishes the features of a mini-batch, if a file has them, and reports whether it is the last one of the run.
func (c *closing) add(ctx context.Context, b *schemas.ScoredBatch) (ended bool, err error) {
	seq := c.seq
	c.seq++
	if int(b.Epoch) < len(c.p.features) && seq > c.has {
		block, err := c.p.features[b.Epoch].Block(b, c.keys, seq)
		if err != nil {
			return false, err
		}
		if err := c.publisher.PublishSeq(ctx, schemas.Features, c.lane, seq, stream.Mark{}, block); err != nil {
			return false, err
		}
	}
	target := c.p.target()
	return target < c.p.settings.Grouper.Options().Epochs && b.Group.Seq == c.last && int(b.Epoch) == target-1 && b.Sequence == b.Batches-1, nil
}
