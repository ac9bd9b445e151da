package stream

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// EnsureTopics creates the topics of the catalogue that are missing. It refuses topics whose number of partitions
// differs from the configuration, or with a setting that would lose records. If this process may not list all topics,
// it looks at the named ones, if there are any. A new namespace takes over the tombstones of all others.
func (l *Log) EnsureTopics(ctx context.Context, least ...schemas.Topic) error {
	err := l.ensureTopics(ctx)
	if kafka.NotAllowed(err) && len(least) > 0 {
		return l.ensureTopics(ctx, least...)
	}
	return err
}

// EnsureTopicsWithoutTombstones is EnsureTopics without taking over tombstones.
func (l *Log) EnsureTopicsWithoutTombstones(ctx context.Context) error {
	if err := l.makeAlone(ctx, schemas.Pairs); err != nil { // without it, the namespace would be new
		return err
	}
	return l.ensureTopics(ctx)
}

func (l *Log) ensureTopics(ctx context.Context, only ...schemas.Topic) error {
	missing, err := l.MissingTopics(ctx, only...)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(missing, func(t schemas.TopicInfo) bool { return t.Topic == schemas.Pairs }) {
		if err := l.inherit(ctx); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		if err := l.MakeTopics(ctx, missing, only...); err != nil {
			return err
		}
	}
	return l.CheckSettings(ctx, only...)
}

// topicsEvery is the time between two checks of a running stage's topics.
const topicsEvery = time.Minute

// watchTopics reports changes to a stage's topics while it runs. Added partitions have no reader, and lanes wait for a
// deleted topic. The lanes of a recreated topic are restarted.
func (r *roster) watchTopics(ctx context.Context) {
	tick := time.NewTicker(r.log.topicsEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		missing, err := r.log.MissingTopics(ctx)
		switch {
		case err == nil && len(missing) == 0:
			r.lookForAnew(ctx)
		case err == nil:
			err = r.log.Lacks(missing)
		}
		if ctx.Err() != nil {
			return
		}
		text := ""
		if err != nil {
			text = strings.ReplaceAll(err.Error(), "\n", ", ")
		}
		if text != said && text != "" {
			r.log.logger.Error("the topics have changed since this stage started", keyStage, r.stage, keyErr, err)
		}
		said = text
		r.instruments.c.say(allLanes, text)
	}
}
