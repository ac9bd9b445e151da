package ingest

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/schemas"
)

// linkTime is the time for which the image of a URL is remembered.
const linkTime = time.Hour

// known remembers the most recently acknowledged pairs, and the URLs that gave them. A pair counts while the log still
// holds the records that it held before the pair was published.
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
	sum := sha256.Sum256([]byte(url + "\x00" + caption)) // a downloaded URL has no zero byte
	copy(key[:], sum[:])
	return key
}

// newKnown makes a memory of the given number of pairs.
func newKnown(most int) (*known, error) {
	pairs, err := simplelru.NewLRU[schemas.PairID, *onlog.Era](most, nil)
	if err != nil {
		return nil, err
	}
	links, err := simplelru.NewLRU[linkKey, linked](most, nil)
	return &known{pairs: pairs, links: links}, err
}

// add remembers a pair that is on the log. The era was read before the pair was published.
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

// era returns the log's era before a pair was published, or nil for an unknown pair.
func (k *known) era(id schemas.PairID) *onlog.Era {
	k.mu.Lock()
	defer k.mu.Unlock()
	era, _ := k.pairs.Get(id)
	return era
}

// linked returns the pair that a URL has recently given.
func (k *known) linked(link linkKey, now time.Time) (linked, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, found := k.links.Get(link)
	return l, found && now.Sub(l.at) < linkTime
}
