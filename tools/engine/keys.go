package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pulumi/pulumi/pkg/v3/secrets"
	"github.com/pulumi/pulumi/pkg/v3/secrets/passphrase"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
)

const cloudType = "cloud"

// dataKey is the key of a stack's secrets, which the client has decrypted. A stack of a passphrase has none: Pulumi's own
// manager finds the passphrase in the environment.
type dataKey []byte

// manager is what Pulumi's manager of type `cloud` would be after it has asked a Vault for the data key.
type manager struct {
	state   json.RawMessage
	crypter config.Crypter
}

func (m *manager) Type() string                { return cloudType }
func (m *manager) State() json.RawMessage      { return m.state }
func (m *manager) Encrypter() config.Encrypter { return m.crypter }
func (m *manager) Decrypter() config.Decrypter { return m.crypter }

// OfType returns the manager that a state names.
func (k dataKey) OfType(_ context.Context, kind string, state json.RawMessage) (secrets.Manager, error) {
	switch {
	case kind == passphrase.Type:
		return passphrase.NewPromptingPassphraseSecretsManagerFromState(state)
	case kind == cloudType && len(k) > 0:
		crypter := config.NewSymmetricCrypter(k)
		return &manager{state, config.NewCiphertextToPlaintextCachedCrypter(crypter, crypter)}, nil
	}
	return nil, fmt.Errorf("secrets of type %q are not served by the resident engine", kind)
}
