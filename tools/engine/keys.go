package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/pulumi/pulumi/pkg/v3/secrets"
	"github.com/pulumi/pulumi/pkg/v3/secrets/passphrase"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

const cloudType = "cloud"

// dataKey is the key of a stack's secrets, which the client has decrypted. A stack of a passphrase has none: Pulumi's own
// manager finds the passphrase in the environment.
type dataKey []byte

type cloudState struct {
	URL          string `json:"url"`
	EncryptedKey []byte `json:"encryptedkey"`
}

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

// ofSettings returns the manager that the stack's settings file names.
func (k dataKey) ofSettings(settings *workspace.ProjectStack) (secrets.Manager, error) {
	if settings.EncryptedKey == "" {
		return passphrase.NewPromptingPassphraseSecretsManager(settings, false)
	}
	sealed, err := base64.StdEncoding.DecodeString(settings.EncryptedKey)
	if err != nil {
		return nil, fmt.Errorf("the encrypted key of the stack's settings: %w", err)
	}
	state, err := json.Marshal(cloudState{URL: settings.SecretsProvider, EncryptedKey: sealed})
	if err != nil {
		return nil, err
	}
	return k.OfType(context.Background(), cloudType, state)
}
