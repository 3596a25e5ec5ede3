package cluster

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/nats-io/nats.go"
)

// identity is the key that all embedded servers of a cluster have, made of the secret that they share. So what goes
// between machines is encrypted, and each side proves that it knows the secret before it learns anything, without
// certificates that somebody must renew.
type identity struct {
	cert tls.Certificate
	key  ed25519.PublicKey
}

func newIdentity(secret string) (*identity, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "steward cluster 1", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("make the key of the cluster: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	public, _ := key.Public().(ed25519.PublicKey)
	// Nothing but the key is looked at, so the certificate never expires.
	text := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, DNSNames: []string{user},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<36, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(nil, text, text, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the key of the cluster: %w", err)
	}
	return &identity{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, key: public}, nil
}

// known reports whether the other side has the key of the cluster. TLS has proved that it has the key of its certificate.
func (i *identity) known(s tls.ConnectionState) bool {
	return len(s.PeerCertificates) > 0 && i.key.Equal(s.PeerCertificates[0].PublicKey)
}

var errStranger = errors.New("the other side does not know the secret of the cluster")

// routes is the configuration of connections between embedded servers, of both sides.
func (i *identity) routes() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.cert}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // names and chains; the key is compared instead
		VerifyConnection: func(s tls.ConnectionState) error {
			if !i.known(s) {
				return errStranger
			}
			return nil
		},
	}
}

// clients is the configuration of an embedded server for nodes without one.
func (i *identity) clients() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.cert}}
}

// connecting is used if a server asks for TLS. It has the key of the cluster, or a certificate that the system trusts.
func (i *identity) connecting() nats.Option {
	return func(o *nats.Options) error {
		o.TLSConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, // verified below
			VerifyConnection: func(s tls.ConnectionState) error {
				if i.known(s) {
					return nil
				}
				if len(s.PeerCertificates) == 0 {
					return errStranger
				}
				between := x509.NewCertPool()
				for _, c := range s.PeerCertificates[1:] {
					between.AddCert(c)
				}
				if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: s.ServerName, Intermediates: between}); err != nil {
					return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: fmt.Errorf("%w (%w)", errStranger, err)}
				}
				return nil
			},
		}
		return nil
	}
}
