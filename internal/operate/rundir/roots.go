package rundir

import "errors"

// Roots holds the setting BUCKET_ROOTS, for commands that read images.
type Roots struct {
	Roots []string `env:"BUCKET_ROOTS" desc:"places that image references may name"`
}

// Validate refuses settings without a place to read from.
func (b Roots) Validate() error {
	if len(b.Roots) == 0 {
		return errors.New("BUCKET_ROOTS is empty, want the places where the run's images are, such as file:///data")
	}
	return nil
}
