package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/duplicates"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/models/partial"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/schemas"
)

const (
	demoBatch     = 48
	demoVocab     = 2000
	demoSlice     = 0.5 // share of the images that the first model is trained on
	demoFirstRate = 1.5e-3
	demoLanes     = 2
)

// plan holds the settings for a kind of data.
type plan struct {
	boot     int64 // steps of the first model; 0: the data bring a model
	epochs   int
	matching float64 // weight of ITM in the training of the first model, which is also the connection discriminator (Con-D)
	rate     float64 // highest learning rate of the trainer
	groups   int     // of each lane
	space    int     // search space of GRIT (M), in mini-batches
	scenes   scenes.Options
	first    []byte // weights that come with the scenes; nil: the data bring none
	cond     []byte // Con-D's
	settings map[string]string
}

// onScenes trains on drawings of three objects, as experiment X2 does: few captions are true of other pictures, and
// many nearly are. Images are neither cropped nor flipped, because captions mention counts, left and right. There is no
// dropout, because no drawing is seen often enough to be memorised, and no MLM, because the vocabulary is known. With
// omitting, captions omit things, as in experiment X14, and the models are of that world.
func onScenes(seed uint64, omitting bool) plan {
	o, first, cond := models.Scenes(seed), models.First, models.ConD
	if omitting {
		o, first, cond = partial.Scenes(seed), partial.First, partial.ConD
	}
	o.Scenes, o.Side = 6000+sceneHoldOut, 96
	return plan{
		epochs: 8, rate: 5e-4, groups: 1, space: 10, scenes: o, first: first, cond: cond,
		settings: map[string]string{
			"AUGMENT_FLIP": "0", "AUGMENT_MIN_SCALE": "1", "DROPOUT": "0", "ITM_WEIGHT": "1", "MLM_WEIGHT": "0", "ITC_TARGETS": "onehot",
		},
	}
}

// sceneHoldOut is the default of --holdout for scenes.
const sceneHoldOut = 400

// onPhotographs trains on few and varied pictures. Dropout and small crops keep the model from memorising them.
func onPhotographs() plan {
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Kinds = 1200, 3, scenes.Kinds{Shapes: 4, Colours: 4, Objects: 2, Large: true, Plain: true}
	return plan{
		boot: 800, epochs: 6, matching: 0.3, rate: 1e-3, groups: 2, space: 4, scenes: o,
		settings: map[string]string{"AUGMENT_MIN_SCALE": "0.35", "ECM_HIGH": "0.95"},
	}
}

// begin checks --data and then empties --dir. If either is wrong, it changes nothing.
func (d *demo) begin(ctx context.Context) (err error) {
	dir := ownedfolder.Folder{Setting: "--dir", Path: d.Dir, Kind: "pairstream demo"}
	if err = errors.Join(dir.Check(), dir.Without(pipeline.Places(config.Environ())...)); err != nil {
		return err
	}
	if d.Data == "" {
		return dir.Empty()
	}
	if !shard.IsRemote(d.Data) {
		if err = dir.Apart(ownedfolder.Place{Setting: "--data", Path: shard.LocalPath(d.Data)}); err != nil {
			return err
		}
	}
	if d.own, _, err = dataset.Read(ctx, []string{d.Data}, 0); err != nil {
		return fmt.Errorf("--data is %q: %w", d.Data, err)
	}
	if _, _, err = d.own.HoldOut(d.HeldOut); err != nil {
		return fmt.Errorf("--holdout is %d: %w", d.HeldOut, err)
	}
	return dir.Empty()
}

// prepare generates or reads the data and parses the settings.
func (d *demo) prepare(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	d.drawn = filepath.Join(d.Dir, "scenes")
	generated := d.Data == ""
	d.plan = onPhotographs()
	if generated {
		d.plan, d.Data = onScenes(d.Seed, d.Partial), d.drawn
		d.HeldOut = cmp.Or(d.HeldOut, sceneHoldOut)
	}
	d.lengths()
	o := d.plan.scenes
	fmt.Fprintf(d.out, "drawing %d captioned scenes in %s\n", o.Scenes, d.drawn)
	if err := scenes.WriteDir(ctx, d.drawn, o, nil); err != nil {
		return err
	}
	if err := d.read(ctx, generated); err != nil {
		return err
	}
	if d.Boot > 0 {
		if err := d.learn(ctx, generated); err != nil {
			return err
		}
	}
	return d.settle()
}

// read splits the pairs into training and evaluation, and reads the truth about the pictures.
func (d *demo) read(ctx context.Context, generated bool) (err error) {
	all := d.own
	if all == nil {
		if all, _, err = dataset.Read(ctx, []string{d.Data}, 0); err != nil {
			return err
		}
	}
	producer.PrintPassedOver(d.out, all.Totals())
	if d.HeldOut == 0 {
		d.HeldOut = min(100, all.Images()/7)
	}
	if d.train, d.held, err = all.HoldOut(d.HeldOut); err != nil {
		return err
	}
	d.source = d.Data
	if generated {
		d.known, err = ofScenes(ctx, d.Data)
		return err
	}
	return d.multiply(ctx)
}

// learn chooses the data and the vocabulary of the first model.
func (d *demo) learn(ctx context.Context, generated bool) (err error) {
	drawings := new(dataset.Corpus)
	if !generated {
		// The papers' encoders have seen millions of pictures. This one also learns colours and counts from drawings.
		// After cropping and flipping, some captions of drawings are wrong, but most of their words are right.
		if drawings, _, err = dataset.Read(ctx, []string{d.drawn}, 0); err != nil {
			return err
		}
	}
	d.first = dataset.Join(drawings, d.train.Slice(demoSlice))
	d.vocab = token.BuildVocab(dataset.Join(drawings, d.train).Captions, demoVocab, 2)
	return nil
}

// lengths sets the numbers of steps and epochs.
func (d *demo) lengths() {
	if d.Boot == 0 {
		d.Boot = d.plan.boot
	}
	if d.Epochs == 0 {
		d.Epochs = d.plan.epochs
	}
	if d.Short {
		d.Boot, d.Epochs = (d.Boot+1)/2, max(d.Epochs/2, 1)
	}
}

// settle parses the settings of all runs. The environment takes precedence over the demo's settings, and these over the
// recipe's.
func (d *demo) settle() error {
	settings, err := d.environ()
	if err != nil {
		return err
	}
	own, err := config.Parse[pipeline.Settings](settings)
	if err != nil {
		return err
	}
	others := rivals(own)
	names := slices.DeleteFunc([]string{"random", "grit"}, func(name string) bool { return others[name] == nil })
	settings["CONSOLE_NAMESPACES"] = cmp.Or(settings["CONSOLE_NAMESPACES"], strings.Join(names, ","))
	if d.arm, err = d.newArm("", settings, nil); err != nil {
		return err
	}
	for _, name := range names {
		a, err := d.newArm(name, settings, others[name])
		if err != nil {
			return err
		}
		d.rivals = append(d.rivals, a)
	}
	return nil
}

// environ returns the variables of the demo's own run.
func (d *demo) environ() (map[string]string, error) {
	perLane := d.train.Pairs() / demoLanes
	perGroup := perLane/d.plan.groups + perLane/4
	batches := int64(d.Epochs * d.train.Pairs() / demoBatch)
	roots, err := shard.Roots([]string{d.source})
	if err != nil {
		return nil, err
	}
	seed := strconv.FormatUint(d.Seed, 10)
	settings := map[string]string{
		"LOG_LEVEL": "warn", "LANES": strconv.Itoa(demoLanes), "SEED": seed, "BUCKET_ROOTS": roots[0],
		"ENCODER_CHECKPOINT": d.weights(), "COND_CHECKPOINT": d.cond(), "TRAIN_INIT": d.weights(),
		"CHECKPOINT_DIR": filepath.Join(d.Dir, "checkpoints"), "TRAIN_EXIT_AT_END": "true", "CHECKPOINT_EVERY": "500",
		"GROUP_SIZE": strconv.Itoa(max(perGroup, 2)), "CLUSTERS": "32", "NEIGHBORS_K2": "100", "NOUN_MIN_COUNT": "5",
		"EPOCHS": strconv.Itoa(d.Epochs), "BATCH_SIZE": strconv.Itoa(demoBatch), "STEP_BATCHES": "1",
		"QUEUE_SIZE": strconv.Itoa(2 * d.plan.space * demoBatch), "SEARCH_SPACE": strconv.Itoa(d.plan.space * demoBatch),
		"GNS_CLUSTERS": strconv.Itoa(demoBatch / 4 / 3), "LR": fmt.Sprint(d.plan.rate), "LR_MIN": fmt.Sprint(d.plan.rate / 20),
		"LR_WARMUP": fmt.Sprint(d.plan.rate / 10), "LR_WARMUP_STEPS": "20",
		"LR_TOTAL_STEPS": strconv.FormatInt(max(batches, 21), 10), "MLM_PROBABILITY": "0.15", "AUGMENT_COLOR": "0.1", "AUGMENT_OPS": "0",
		// Captions mention colours.
		"AUGMENT_DISTORT": "false",
		// A model of this size learns alignment first. With equal weights, MLM would take most of the gradient.
		"ITM_WEIGHT": "0.3", "MLM_WEIGHT": "0.05", "TORCH_THREADS": "1",
		// Targets stay sharp because training is short.
		"ITC_ALPHA": "0.1",
	}
	maps.Copy(settings, d.plan.settings)
	environ := config.Environ()
	if environ["RECIPE"] != "" {
		maps.DeleteFunc(settings, func(name, _ string) bool { return slices.Contains(lossSettings, name) })
	}
	maps.Copy(settings, environ)
	return settings, nil
}

// lossSettings are those of the demo's losses. A run with RECIPE has the recipe's.
var lossSettings = []string{"ITM_WEIGHT", "MLM_WEIGHT", "MLM_PROBABILITY", "ITC_TARGETS", "ITC_ALPHA"}

// cropSide is the least length of a photograph's shorter side after it is shrunk for cropping. The length is less than
// twice that. Models of the demo see fewer pixels.
const cropSide = 96

// knowledge is the truth about pictures. The pipeline does not have it.
type knowledge struct {
	fits func(image schemas.ImageID, caption string) bool
	says string // how a fitting caption relates to its picture, for the table
	held bool   // it includes the pictures that are held out
}

// multiply pairs every caption of a photograph with its own crop, if photographs have two captions or more on average.
// The other captions of a photograph are then known false negatives. Photographs with one caption, and those that
// cannot be decoded, stay as they are.
func (d *demo) multiply(ctx context.Context) error {
	if d.train.Pairs() < 2*d.train.Images() {
		return nil
	}
	held := map[schemas.ImageID]bool{}
	for i := range d.held.Images() {
		_, id := d.held.Image(i)
		held[id] = true
	}
	draws, numbers := rng.New(1, "demo.twins"), map[schemas.ImageID]int{}
	w := duplicates.New(d.Dir)
	w.Folder("crops")
	_, err := shard.Scan(ctx, []string{d.Data}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if _, known := numbers[ex.ImageID]; held[ex.ImageID] || known {
				return nil
			}
			numbers[ex.ImageID] = len(numbers)
			return addCrops(w, numbers[ex.ImageID], ex, draws)
		},
		Problem: func(shard.Problem) error { return nil }, // counted when the pairs were read
	})
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("making crops of photographs: %w", err)
	}
	d.source = filepath.Join(d.Dir, "crops")
	if d.train, _, err = dataset.Read(ctx, []string{d.source}, 0); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%d captions of %d photographs are published, those of one photograph each with a crop of its own\n"+
		"  the other captions of a photograph are false negatives that the demo knows, and the pipeline does not\n", d.train.Pairs(), len(numbers))
	d.known = &knowledge{fits: w.Fits, says: "of the same photograph"}
	return nil
}

// addCrops writes the crops of one photograph.
func addCrops(w *duplicates.Writer, number int, ex shard.Example, draws *rand.Rand) error {
	if len(ex.Captions) == 1 {
		w.Add(number, ex.Encoded, ex.Captions...)
		return nil
	}
	im, err := imaging.DecodeShrunk(ex.Encoded, cropSide)
	if err != nil {
		w.Add(number, ex.Encoded, ex.Captions...)
		return nil //nolint:nilerr // the encoder sets it aside and says why
	}
	rgba := image.NewRGBA(image.Rect(0, 0, im.W, im.H))
	for i := range im.W * im.H {
		copy(rgba.Pix[4*i:], im.Pix[3*i:3*i+3])
		rgba.Pix[4*i+3] = 0xff
	}
	for _, caption := range ex.Captions {
		encoded, err := duplicates.Crop(rgba, draws)
		if err != nil {
			return err
		}
		w.Add(number, encoded, caption)
	}
	return nil
}
