package experiments

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// worldSettings are those of the experiment on a folder of WebDataset tars. The JSON of every picture has `same`, an id
// that all pictures of one thing share: a caption of one is true of all.
type worldSettings struct {
	photographSettings
	Digest string `json:"digest,omitempty"` // of the folder
	Hold   int    `json:"hold"`             // things of which one picture each is kept back; at most a fifth of all
	// Versions is how many first models and Con-Ds there are, as in a regime. All seeds then keep the same things back; 0:
	// every seed makes its own.
	Versions int `json:"versions,omitempty"`
	Captions int `json:"captions,omitempty"` // published of each picture, drawn by the seed; 0: all
}

// NewWorld returns the plan of the experiment on a folder of tars.
func NewWorld(dir string, short bool) (Plan, error) {
	s := worldSettings{photographSettings: photographSizes(false), Hold: 500}
	none, all := trainer.ECMOptions{}, converting()
	eliminate := all
	eliminate.Eliminate = true
	s.Towers, s.Twins, s.FirstRate, s.Rate, s.Dropout, s.Candidates, s.CondCandidates = "", twinSizes{}, firstRate, rate, 0, 2, 4
	s.Sizes = Sizes{FirstSteps: 3000, CondSteps: 3000, FirstBatch: 48, Batch: 48, Space: 10, Epochs: 2}
	two := grit("grit, two candidates", 10, oneHot, all)
	two.Judge = judge{None: true}
	s.Arms = []arm{
		{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
		grit("grit", 10, oneHot, none), grit("ecm", 10, oneHot, all), grit("eliminate", 10, oneHot, eliminate), two,
		grit("coin", 10, oneHot, all), grit("oracle", 10, oneHot, all), grit("smoothed", 10, smoothed, none), grit("mafa", 10, smoothed, all),
	}
	s.Arms[5].Judge, s.Arms[6].Judge = judge{Coin: 0.5}, judge{Oracle: true}
	if short {
		s.Sizes, s.Hold = Sizes{FirstSteps: 5, CondSteps: 5, FirstBatch: 16, Batch: 8, Space: 3, Epochs: 1}, 10
	}
	var err error
	s.Digest, err = digestOf(dir)
	return Plan{"world", s, func(ctx context.Context, j Job) ([]evidence.Measure, error) { j.Photos = dir; return s.run(ctx, j) }}, err
}

// digestOf returns the digest of the names and sizes of a folder's tars.
func digestOf(dir string) (string, error) {
	tars, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err == nil && len(tars) == 0 {
		err = errors.New("there is no *.tar")
	}
	h := sha256.New()
	for _, name := range tars {
		info, statErr := os.Stat(name)
		if statErr != nil {
			err = statErr
			break
		}
		fmt.Fprintln(h, filepath.Base(name), info.Size())
	}
	if err != nil {
		return "", fmt.Errorf("reading the world %s: %w", dir, err)
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// world is the truth of a folder of tars.
type world struct {
	things map[schemas.ImageID]string   // `same` of a picture
	said   map[string][]string          // things of a caption
	of     map[string][]schemas.ImageID // pictures of a thing, in the order of the tars
	pairs  []*schemas.Pair
}

// readWorld reads which pictures show the same.
func readWorld(ctx context.Context, dir string) (*world, error) {
	w := &world{things: map[schemas.ImageID]string{}, said: map[string][]string{}, of: map[string][]schemas.ImageID{}}
	_, err := shard.Scan(ctx, []string{dir}, shard.Visitor{
		Example: func(ex shard.Example) error {
			same, err := sameOf(ex.Meta)
			if err != nil {
				return fmt.Errorf("reading what picture %q of %s shows: %w", ex.Key, dir, err)
			}
			w.things[ex.ImageID] = same
			w.of[same] = append(w.of[same], ex.ImageID)
			for _, c := range ex.Captions {
				if !slices.Contains(w.said[c], same) {
					w.said[c] = append(w.said[c], same)
				}
			}
			w.pairs = append(w.pairs, shard.Pairs(ex)...)
			return nil
		},
		Problem: func(p shard.Problem) error {
			if p.Reason == shard.ReasonJSON {
				return fmt.Errorf("reading the world %s: %s", dir, p)
			}
			return nil // a picture or a caption less
		},
	})
	if err == nil && len(w.of) < leastPhotographs {
		err = fmt.Errorf("%s shows %d things, want at least %d", dir, len(w.of), leastPhotographs)
	}
	return w, err
}

// sameOf returns the id of the thing in a picture's JSON: a string, or a number as it is written.
func sameOf(meta []byte) (string, error) {
	const want = "want an id, a string or a number, that all pictures of one thing share"
	var about struct {
		Same any `json:"same"`
	}
	if len(meta) == 0 {
		return "", fmt.Errorf("it has no JSON, and so no `same`: %s", want)
	}
	d := json.NewDecoder(bytes.NewReader(meta))
	d.UseNumber() // large ids differ in their last digits
	if err := d.Decode(&about); err != nil {
		return "", fmt.Errorf("its JSON is malformed: %w", err)
	}
	switch same := about.Same.(type) {
	case nil:
		return "", fmt.Errorf("its JSON has no `same`: %s", want)
	case string:
		if strings.TrimSpace(same) == "" {
			return "", fmt.Errorf("its `same` is empty: %s", want)
		}
		return same, nil
	case json.Number:
		return same.String(), nil
	default:
		return "", fmt.Errorf("its `same` is %.60v: %s", same, want)
	}
}

// fits reports whether a caption is true of a picture.
func (w *world) fits(image schemas.ImageID, caption string) bool {
	return slices.Contains(w.said[caption], w.things[image])
}

// hold draws things to keep back, of which one picture each is measured and none is published.
func (w *world) hold(n int, seed uint64) (measured, gone map[schemas.ImageID]bool) {
	var names []string
	for name := range w.of {
		names = append(names, name)
	}
	slices.Sort(names)
	draws := rng.New(seed, "experiments.world")
	draws.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	measured, gone = map[schemas.ImageID]bool{}, map[schemas.ImageID]bool{}
	for _, name := range names[:min(n, len(names)/5)] {
		measured[w.of[name][0]] = true
		for _, id := range w.of[name] {
			gone[id] = true
		}
	}
	return measured, gone
}

// data parts the pictures of a world.
func (s worldSettings) data(ctx context.Context, j Job, dir string) (*data, error) {
	w, err := readWorld(ctx, j.Photos)
	if err != nil {
		return nil, err
	}
	all, _, err := dataset.Read(ctx, []string{j.Photos}, 0)
	if err != nil {
		return nil, err
	}
	seed := j.Seed
	if s.Versions > 0 {
		seed = 1 // the models that seeds share must not have met what is kept back
	}
	measured, gone := w.hold(s.Hold, seed)
	d := &data{
		train: all.Without(func(id schemas.ImageID) bool { return gone[id] }), held: all.Without(func(id schemas.ImageID) bool { return !measured[id] }),
		fits: w.fits, dir: dir,
	}
	for _, p := range w.pairs {
		if !gone[p.ImageID] {
			d.pairs = append(d.pairs, p)
		}
	}
	d.vocab = token.BuildVocab(d.train.Captions, 4000, 2)
	d.images, d.closeImages, err = bootstrap.Images(ctx, []string{j.Photos}, s.Shape.ImageSize, 1<<30)
	return d, err
}

// parted is the data of a seed, and how a model begins.
type parted struct {
	*data
	// initial writes the weights with which a model of a seed begins; nil: it begins from nothing.
	initial func(seed uint64, path string) error
	known   bool // the truth about published pairs
}

// run trains the first model, Con-D and the arms on a world, and measures them on things that were kept back.
func (s worldSettings) run(ctx context.Context, j Job) ([]evidence.Measure, error) {
	return s.runOn(ctx, j, func(dir string) (*parted, error) {
		d, err := s.data(ctx, j, dir)
		return &parted{data: d, known: true}, err
	})
}

func (s worldSettings) runOn(ctx context.Context, j Job, part func(dir string) (*parted, error)) (out []evidence.Measure, err error) {
	dir, err := os.MkdirTemp(j.Dir, "experiment-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for weights: %w", err)
	}
	d, err := part(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	on := &setup{
		sizes: s.Sizes, seed: j.Seed, dir: dir, worker: j.Worker, data: d.data, preset: "micro",
		augment: dataset.Augmentation{MinScale: 1, Workers: 2}, rate: s.Rate, dropout: s.Dropout, log: j.Log,
	}
	defer func() { err = errors.Join(err, on.close()) }()
	on.choose(s.Captions)
	c, err := s.models(ctx, j, on, d)
	if err != nil {
		return nil, err
	}
	if c.group, err = on.group(ctx, c.start); err != nil {
		return nil, err
	}
	if d.known {
		if c.asked, err = on.judge(ctx, c.group, c.cond); err != nil {
			return nil, err
		}
		out = c.asked.measures()
		c.asked.Above = c.asked.Above[1:] // a coin takes MAFA's threshold
	}
	weights := []string{c.start}
	for i, a := range s.Arms {
		path := filepath.Join(dir, fmt.Sprintf("arm-%d.safetensors", i))
		taught, err := on.trainArm(ctx, c, a, path)
		if err != nil {
			return nil, fmt.Errorf("training %q: %w", a.Name, err)
		}
		if d.known {
			out = append(out, taught.negatives.measures(a.Name, 0)...)
		}
		weights = append(weights, path)
	}
	ask := reranked
	ask.AnyTrue, ask.Matches = true, on.heldMatches() // any caption of a thing is right
	if ask.Mining, err = on.hardestOfAll(ctx, cmp.Or(c.third, c.start)); err != nil {
		return nil, err
	}
	err = on.compareArms(ctx, s.Arms, weights, ask, func(name, _ string, r *eval.Report) error {
		out = append(out, matched(name, r)...)
		return nil
	})
	return out, err
}

// models trains the models that the arms share, or fetches them from the shelf.
func (s worldSettings) models(ctx context.Context, j Job, on *setup, d *parted) (c course, err error) {
	c = course{steps: on.steps(), start: filepath.Join(on.dir, "start.safetensors"), cond: filepath.Join(on.dir, "con-d.safetensors"), regime: &regime{Candidates: s.Candidates}}
	if s.Versions == 0 {
		if err = s.learn(ctx, on, "", s.Sizes.FirstSteps, bootstrap.Candidates, c.start); err == nil {
			err = s.learn(ctx, on, c.start, s.Sizes.CondSteps, s.CondCandidates, c.cond)
		}
		return c, err
	}
	first, cond := evidence.Versions(j.Seed, s.Versions)
	for _, m := range []struct {
		to         *string
		role       string
		seed       uint64
		steps      int64
		candidates int
	}{
		{&c.start, "first", firstSeed + 10*first, s.Sizes.FirstSteps, bootstrap.Candidates},
		{&c.cond, "con-d", condSeed + 10*cond, s.Sizes.CondSteps, s.CondCandidates},
		{&c.third, "first", thirdSeed, s.Sizes.FirstSteps, bootstrap.Candidates},
	} {
		if *m.to, err = s.shared(ctx, j, on, d, m.role, m.seed, m.steps, m.candidates); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Seeds of the models that seeds share, as in X14.
const firstSeed, condSeed, thirdSeed = 1101, 1201, 1301

// shared returns the weights of a model on the shelf. It trains the model if they are not there.
func (s worldSettings) shared(ctx context.Context, j Job, on *setup, d *parted, role string, seed uint64, steps int64, candidates int) (string, error) {
	settings, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding the settings of a world: %w", err)
	}
	h := sha256.Sum256(settings)
	path := filepath.Join(j.Shelf.Dir, fmt.Sprintf("%s-%d-of-world-%s.safetensors", role, seed, hex.EncodeToString(h[:6])))
	j.Shelf.mu.Lock()
	defer j.Shelf.mu.Unlock()
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	initial := ""
	if d.initial != nil {
		initial = filepath.Join(on.dir, "initial.safetensors")
		if err := d.initial(seed, initial); err != nil {
			return "", err
		}
	}
	with, made := *on, filepath.Join(on.dir, "made.safetensors")
	with.seed = seed
	if err := s.learn(ctx, &with, initial, steps, candidates, made); err != nil {
		return "", err
	}
	if err := errors.Join(os.MkdirAll(j.Shelf.Dir, 0o755), os.Rename(made, path)); err != nil {
		return "", fmt.Errorf("keeping a model of a world: %w", err)
	}
	return path, nil
}

// choose publishes so many captions of each picture, drawn by the seed; 0: all.
func (s *setup) choose(captions int) {
	if captions == 0 {
		return
	}
	draws, of := rng.New(s.seed, "experiments.world.captions"), map[schemas.ImageID]int{}
	draws.Shuffle(len(s.data.pairs), func(i, k int) { s.data.pairs[i], s.data.pairs[k] = s.data.pairs[k], s.data.pairs[i] })
	s.data.pairs = slices.DeleteFunc(s.data.pairs, func(p *schemas.Pair) bool {
		of[p.ImageID]++
		return of[p.ImageID] > captions
	})
}
