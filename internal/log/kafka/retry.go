package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/internal/log/broker"
)

// ErrTransient marks a fault that may pass, such as a bucket that does not answer.
var ErrTransient = errors.New("transient fault")

// Transient marks err as [ErrTransient].
func Transient(err error) error { return fmt.Errorf("%w: %w", ErrTransient, err) }

// Requests to brokers are repeated until they succeed, fail for good, or the caller gives up. produce.go repeats
// produce requests, and looks in the log first for a batch whose answer was lost.

// Retry calls op until it succeeds, fails for good or ctx ends. what is a gerund for messages.
func (c *Client) Retry(ctx context.Context, what string, op func(ctx context.Context) error) error {
	var pause Backoff
	for {
		rctx, cancel := c.request(ctx)
		err := op(rctx)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case !passes(err):
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := c.pause(ctx, &pause, what, what, err); err != nil {
			return err
		}
	}
}

// pause waits after a failure, for longer after more failures in a row. It returns an error when ctx ends.
func (c *Client) pause(ctx context.Context, b *Backoff, what, reconnecting string, err error) error {
	b.warn(c.logger, what, err)
	if b.tries == reconnectAfter {
		c.reconnect(reconnecting)
	}
	if b.Wait(ctx) != nil {
		return fmt.Errorf("%s: %w (last: %v)", what, ctx.Err(), err) //nolint:errorlint // the fault is transient: only the interruption ends this
	}
	return nil
}

// reconnectAfter is the number of failures in a row after which the connections themselves are replaced.
const reconnectAfter = 5

// Backoff is a pause that doubles, with a little noise so that owners of many lanes do not retry in step.
type Backoff struct{ tries int }

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Wait pauses, or returns the error of ctx.
func (b *Backoff) Wait(ctx context.Context) error {
	pause := min(firstPause<<min(b.tries, 20), lastPause)
	pause += time.Duration(rand.Int64N(int64(pause)/4 + 1))
	b.tries++
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// warn logs the first failure in a row and then every tenth, so that an outage does not flood the log.
func (b *Backoff) warn(logger *slog.Logger, what string, err error) {
	if b.tries%10 == 0 {
		logger.Warn("retrying", keyWhat, what, keyCount, b.tries, keyErr, err)
	}
}

// Reset restarts the backoff after a success.
func (b *Backoff) Reset() { b.tries = 0 }

// forGood are broker errors that waiting does not change.
var forGood = []error{
	kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
	kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.InvalidTopic, kafka.MessageSizeTooLarge,
	kafka.RecordListTooLarge, kafka.UnsupportedVersion, kafka.PolicyViolation, kafka.InvalidRecord,
	kafka.OffsetOutOfRange, kafka.InvalidConfiguration, kafka.UnsupportedForMessageFormat,
	kafka.InvalidReplicationFactor, kafka.InvalidPartitionNumber, kafka.InvalidTimestamp, kafka.InvalidRequiredAcks,
	kafka.TransactionalIDAuthorizationFailed, kafka.SecurityDisabled, kafka.BrokerAuthorizationFailed, kafka.IllegalSASLState,
	kafka.UnsupportedCompressionType, kafka.InvalidRequest, broker.ErrStopped,
}

// passes reports whether a failed request to a broker is worth repeating.
func passes(err error) bool {
	for _, f := range forGood {
		if errors.Is(err, f) {
			return false
		}
	}
	return true
}

// Refuses reports whether an error is a broker's answer.
func Refuses(err error) bool {
	var refused kafka.Error
	return errors.As(err, &refused)
}

// NotAllowed reports whether the brokers deny this process access to a topic.
func NotAllowed(err error) bool { return errors.Is(err, kafka.TopicAuthorizationFailed) }

// NotThere reports whether a lane does not have the requested offset.
func NotThere(err error) bool { return errors.Is(err, kafka.OffsetOutOfRange) }

// IsTransient reports whether an error is a fault that may pass. It checks for a kafka.Error first, which has the
// methods of a net.Error but is not one.
func IsTransient(err error) bool {
	var netErr net.Error
	var kafkaErr kafka.Error
	switch {
	case errors.Is(err, broker.ErrStopped):
		return false
	case errors.Is(err, ErrTransient):
		return true
	case errors.As(err, &kafkaErr):
		return passes(err)
	}
	return errors.As(err, &netErr) || errors.Is(err, io.ErrUnexpectedEOF)
}
