package ingest

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/schemas"
)

// linkTime is how long the image of a URL counts as the one that the URL gives.
const linkTime = time.Hour

// known remembers the pairs that were acknowledged last, and which URLs have given them. A pair counts while the log
// holds what it held before the pair was published.
type known struct {
	mu    sync.Mutex
	pairs *simplelru.LRU[schemas.PairID, *onlog.Era]
	links *simplelru.LRU[linkKey, linked]
}

// linkKey is a hash of a URL and a caption.
type linkKey [16]byte

// linked is the pair that a URL has given.
type linked struct {
	pair  schemas.PairID
	image schemas.ImageID
	at    time.Time
}

func linkOf(url, caption string) (key linkKey) {
	sum := sha256.Sum256([]byte(url + "\x00" + caption)) // no URL that is downloaded has a zero
	copy(key[:], sum[:])
	return key
}

// newKnown makes the memory of so many pairs.
func newKnown(most int) (*known, error) {
	pairs, err := simplelru.NewLRU[schemas.PairID, *onlog.Era](most, nil)
	if err != nil {
		return nil, err
	}
	links, err := simplelru.NewLRU[linkKey, linked](most, nil)
	return &known{pairs: pairs, links: links}, err
}

// add remembers a pair that is on the log. The era was seen before the pair was published.
func (k *known) add(p taken, era *onlog.Era, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !p.repeated {
		k.pairs.Add(p.id, era)
	}
	if p.link != nil {
		k.links.Add(*p.link, linked{p.id, p.image, now})
	}
}

// era returns what the log held before a pair was published, or nil for a pair that is not remembered.
func (k *known) era(id schemas.PairID) *onlog.Era {
	k.mu.Lock()
	defer k.mu.Unlock()
	era, _ := k.pairs.Get(id)
	return era
}

// linked returns the pair that a URL has given lately.
func (k *known) linked(link linkKey, now time.Time) (linked, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, found := k.links.Get(link)
	return l, found && now.Sub(l.at) < linkTime
}
