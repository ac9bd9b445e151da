package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/pairstream/pairstream/internal/base/display"
)

// boundedScram is kafka-go's SCRAM with an upper bound on the iterations that a broker may demand. The library has only
// a lower one. So a false broker could keep a processor busy for hours.
type boundedScram struct{ sasl.Mechanism }

func newScram(name, user string, password display.Secret) (sasl.Mechanism, error) {
	algorithm := scram.SHA256
	if name == saslScram512 {
		algorithm = scram.SHA512
	}
	m, err := scram.Mechanism(algorithm, user, string(password))
	if err != nil {
		return nil, fmt.Errorf("KAFKA_SASL_USER, KAFKA_SASL_PASSWORD: preparing them for %s: %w", name, err)
	}
	return boundedScram{m}, nil
}

// Start implements sasl.Mechanism.
func (m boundedScram) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	s, first, err := m.Mechanism.Start(ctx)
	return &boundedSession{StateMachine: s}, first, err
}

type boundedSession struct {
	sasl.StateMachine
	challenged bool
}

const maxIterations = 10_000_000

var errScram = errors.New("bad SCRAM message from the broker")

// Next implements sasl.StateMachine. The first challenge is salt, nonce and iterations, for example i=4096.
func (s *boundedSession) Next(ctx context.Context, challenge []byte) (done bool, response []byte, err error) {
	if !s.challenged {
		s.challenged = true
		for field := range bytes.SplitSeq(challenge, []byte(",")) {
			text, ok := bytes.CutPrefix(field, []byte("i="))
			if !ok {
				continue
			}
			if n, err := strconv.Atoi(string(text)); err != nil || n > maxIterations {
				return false, nil, fmt.Errorf("%w: %.20q iterations, want at most %d", errScram, text, maxIterations)
			}
		}
	}
	return s.StateMachine.Next(ctx, challenge)
}
