package display

import "log/slog"

// Secret is a setting that is never printed: every way of formatting it shows asterisks.
type Secret string

// String hides the secret.
func (Secret) String() string { return Hidden }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return Hidden }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(Hidden), nil }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(Hidden) }
