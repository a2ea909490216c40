/** A self-signed certificate for a server: ECDSA on P-256, good for TLS only, and itself no authority. */
import { KeyObject } from 'node:crypto'
import type { SubjectName } from './certificate-names.ts'
import { installReflectMetadata } from './reflect-metadata.ts'

interface CertificateRequest {
  commonName: string
  names: readonly SubjectName[]
  notBefore: Date
  notAfter: Date
}

/** Both PEM; the key in PKCS #8. */
interface CertificatePair {
  certificate: string
  key: string
}

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' }
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1'

export async function selfSigned({ commonName, names, notBefore, notAfter }: CertificateRequest): Promise<CertificatePair> {
  // Loaded for this command only: no server needs it.
  installReflectMetadata()
  const x509 = await import('@peculiar/x509')
  const keys = await crypto.subtle.generateKey(CURVE, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    // A plain string would be read as one of RFC 4514, with its quotes and escapes.
    name: new x509.Name([{ CN: [{ utf8String: commonName }] }]),
    keys,
    notBefore,
    notAfter,
    signingAlgorithm: { name: CURVE.name, hash: 'SHA-256' },
    extensions: [
      // Clients in Rust refuse an authority as a server.
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([SERVER_AUTH]),
      new x509.SubjectAlternativeNameExtension([...names]),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: `${certificate.toString('pem').trim()}\n`, key: KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }).toString() }
}
