package shard

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// DeniedFor is how long objects that may not be read are tried again, as credentials may be renewed. It is enough that
// another object of the root was read after the first refusal: then the credentials are good, and the object is kept
// from us.
const DeniedFor = 2 * time.Minute

// denials tells objects of one root that are kept from us from credentials that have run out.
type denials struct {
	mu    sync.Mutex
	first time.Time // refusal of the current series; zero: there is none
	last  time.Time // refusal
	read  bool      // another object was read since first
}

// judge returns the error of a read as it is when it is final, or is no refusal. A refusal that may pass loses its mark.
func (d *denials) judge(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if !d.first.IsZero() && now.Sub(d.last) >= DeniedFor+time.Minute {
		d.first = time.Time{} // a refusal after so long a time begins another series
	}
	switch {
	case err == nil:
		d.read = true
		return nil
	case !errors.Is(err, ErrDenied):
		return err
	case d.first.IsZero():
		d.first, d.read = now, false
	}
	d.last = now
	if d.read || now.Sub(d.first) >= DeniedFor {
		return err
	}
	return fmt.Errorf("trying again for %v: %s", DeniedFor-now.Sub(d.first), err.Error())
}
