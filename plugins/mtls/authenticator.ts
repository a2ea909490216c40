/** From the certificate of a connection to who it is. Once for each connection, but for its dates, which are looked at in each call. */
import type { Authenticator, ClientCertificate, Counter, Identity } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Certificate, readCertificate, validityProblem } from './certificate.ts'
import type { Clients } from './clients.ts'
import type { IdentityKind } from './config.ts'

interface AuthenticatorDependencies {
  identity: IdentityKind
  clients: Clients
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** By result. */
  calls: Counter
}

type Refusal = { result: 'invalid' | 'unknown'; code: 'UNAUTHORIZED' | 'FORBIDDEN'; text: string }
type Answer = { result: 'accepted'; certificate: Certificate; identity: Identity } | Refusal

/** Answers who shows a certificate; a refusal is final, and without a certificate others are asked. */
export function mtlsAuthenticator({ identity, clients, now, calls }: AuthenticatorDependencies): Authenticator {
  const answers = new WeakMap<ClientCertificate, Answer>()
  const answerOf = (shown: ClientCertificate): Answer => {
    let answer = answers.get(shown)
    if (answer === undefined) answers.set(shown, (answer = identify(shown.der, identity, clients)))
    if (answer.result !== 'accepted') return answer
    const problem = validityProblem(answer.certificate, now())
    return problem === undefined ? answer : invalid(problem)
  }
  return ({ certificate }) => {
    if (certificate === undefined) return undefined
    const answer = answerOf(certificate)
    calls.inc({ result: answer.result })
    return answer.result === 'accepted' ? answer.identity : new SvcError(answer.code, answer.text)
  }
}

function identify(der: Uint8Array, kind: IdentityKind, clients: Clients): Answer {
  let certificate: Certificate
  try {
    certificate = readCertificate(der, kind)
  } catch (error) {
    return invalid((error as Error).message)
  }
  const found = clients.find(certificate)
  const shown = certificate.names.slice(0, 3).map((name) => JSON.stringify(name.slice(0, 128)))
  switch (found.result) {
    case 'not_pinned':
      return invalid(`it is not one of those that "${found.client}" is known by`)
    case 'ambiguous':
      return invalid(`its names are those of several clients, ${found.clients.slice(0, 3).join(', ')}; have it issued for one`)
    case 'unknown':
      return {
        result: 'unknown',
        code: 'FORBIDDEN',
        text: `cannot tell who shows the client certificate of ${shown.join(', ')}: it is accepted, and nobody is known by it; have it added to auth.mtls.clients`,
      }
    case 'known': {
      const { fingerprint, serialNumber, validTo } = certificate
      const claims = { names: certificate.names, fingerprint_sha256: fingerprint, serial_number: serialNumber }
      return { result: 'accepted', certificate, identity: { ...found.identity, method: 'mtls', claims, expiresAt: validTo } }
    }
  }
}

function invalid(why: string): Refusal {
  return { result: 'invalid', code: 'UNAUTHORIZED', text: `InvalidCertificate: the client certificate is not accepted: ${why}` }
}
