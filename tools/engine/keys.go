package main

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pulumi/pulumi/pkg/v3/secrets"
	"github.com/pulumi/pulumi/pkg/v3/secrets/passphrase"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

const (
	cloudType   = "cloud"
	vaultScheme = "hashivault://"
	sealedBy    = "vault:v1:"
)

// keyring decrypts the data keys of stacks with the operator's key, as stacks/common/transit.py does for a command
// line. Stacks of a passphrase get Pulumi's own manager, which finds the passphrase in the environment.
type keyring struct{ secret []byte }

func loadKeys(path string) (*keyring, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimSpace(content)
	if len(secret) < 16 {
		return nil, errors.New("the operator's key is too short for encryption")
	}
	return &keyring{secret}, nil
}

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
func (k *keyring) OfType(_ context.Context, kind string, state json.RawMessage) (secrets.Manager, error) {
	switch kind {
	case passphrase.Type:
		return passphrase.NewPromptingPassphraseSecretsManagerFromState(state)
	case cloudType:
		var named cloudState
		if err := json.Unmarshal(state, &named); err != nil {
			return nil, fmt.Errorf("the state of its secrets: %w", err)
		}
		return k.open(named)
	}
	return nil, fmt.Errorf("secrets of type %q are not served by the resident engine", kind)
}

// ofSettings returns the manager that the stack's settings file names.
func (k *keyring) ofSettings(settings *workspace.ProjectStack) (secrets.Manager, error) {
	if settings.EncryptedKey == "" {
		return passphrase.NewPromptingPassphraseSecretsManager(settings, false)
	}
	sealed, err := base64.StdEncoding.DecodeString(settings.EncryptedKey)
	if err != nil {
		return nil, fmt.Errorf("the encrypted key of the stack's settings: %w", err)
	}
	return k.open(cloudState{URL: settings.SecretsProvider, EncryptedKey: sealed})
}

func (k *keyring) open(named cloudState) (secrets.Manager, error) {
	key, isVault := strings.CutPrefix(named.URL, vaultScheme)
	if !isVault {
		return nil, fmt.Errorf("secrets of %s are not served by the resident engine", named.URL)
	}
	plain, err := k.decrypt(key, string(named.EncryptedKey))
	if err != nil {
		return nil, fmt.Errorf("the stack's data key: %w", err)
	}
	state, err := json.Marshal(named)
	if err != nil {
		return nil, err
	}
	crypter := config.NewSymmetricCrypter(plain)
	return &manager{state, config.NewCiphertextToPlaintextCachedCrypter(crypter, crypter)}, nil
}

func (k *keyring) decrypt(name, text string) ([]byte, error) {
	encoded, known := strings.CutPrefix(text, sealedBy)
	if !known {
		return nil, errors.New("ciphertext of an unknown form")
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	derived, err := hkdf.Key(sha256.New, k.secret, nil, "lessor transit "+name, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	sealer, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	if len(raw) < sealer.NonceSize() {
		return nil, errors.New("ciphertext is too short")
	}
	nonce, body := raw[:sealer.NonceSize()], raw[sealer.NonceSize():]
	plain, err := sealer.Open(nil, nonce, body, []byte(name))
	if err != nil {
		return nil, errors.New("ciphertext of another key, or damaged")
	}
	return plain, nil
}
