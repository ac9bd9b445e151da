package schemas

import "fmt"

// checkWellFormed is a placeholder until the walker lands in this session's next commit.
func checkWellFormed(value []byte) error {
	if len(value) == 0 {
		return fmt.Errorf("%w: empty value", ErrMalformed)
	}
	return nil
}
