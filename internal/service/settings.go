package service

// Run is what the stages of a run have in common.
type Run struct {
	Seed uint64 `env:"SEED" envDefault:"0" desc:"seed of the run: keys every shuffle, mask, augmentation and initial weight"`
}
